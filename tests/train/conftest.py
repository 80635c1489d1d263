"""A small cohort in memory, and what tests of training share."""

from collections.abc import Callable

import pytest

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.phantom import make_phantom
from jigsawmil.config import GraphConfig
from jigsawmil.nn.model import Model, build_model
from jigsawmil.train.feed import Feed

GRAPH = GraphConfig(k=4)


@pytest.fixture(scope="session")
def cohort() -> Cohort:
    """24 slides of about 40 patches, some patients with two; any MIL easily tells the classes apart."""
    knobs = {"slides": 24, "dim": 16, "patches": 40, "noise": 0.5, "slide_effect": 0.0, "two_slides": 0.2}
    phantom = make_phantom("composition", seed=3, **knobs)
    return Cohort.from_bags(phantom.bags, phantom.labels, phantom.patients)


@pytest.fixture(scope="session")
def feed(cohort: Cohort) -> Feed:
    return Feed(cohort, GRAPH, grid=3)


@pytest.fixture(scope="session")
def small() -> Callable[..., Model]:
    def build(method: str = "graph-abmil+jigsaw", seed: int = 0, **options: object) -> Model:
        return build_model(method, 16, seed=seed, **{"hidden": 16, "attention_dim": 8, "grid": 3, **options})

    return build
