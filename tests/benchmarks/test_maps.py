"""The benchmark of maps measures what it says: a map of the truth is perfect, and one of half of it stands at 0.75."""

import importlib
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from jigsawmil.synthetic.phantom import make_phantom
from jigsawmil.train.settings import Settings

maps: Any = importlib.import_module("benchmarks.evidence.maps")


@pytest.mark.parametrize("kind", ["arrangement", "position"])
def test_the_planted_region_is_both_types_and_either_may_be_marked_alone(kind: str) -> None:
    [slide, *_] = make_phantom(kind, slides=2, patches=300, dim=16, seed=1)
    region = maps.regions(slide)
    assert (region["planted"] == (region["A"] | region["B"])).all()
    assert region["A"].sum() == region["B"].sum()
    only_a = region["A"].astype(float)
    assert roc_auc_score(region["planted"], only_a) == pytest.approx(0.75)
    among = region["A"] | (slide.plant == 0)
    assert roc_auc_score(region["A"][among], only_a[among]) == 1


def test_the_interval_is_students() -> None:
    found = maps.interval([0.6, 0.7, 0.8])
    half = 4.302653 * 0.1 / np.sqrt(3)
    assert (found["n"], found["auc"]) == (3, pytest.approx(0.7))
    assert (found["low"], found["high"]) == (pytest.approx(0.7 - half), pytest.approx(0.7 + half))


def test_every_variant_is_a_setting_that_exists() -> None:
    for variants in maps.VARIANTS.values():
        for name, own in variants.items():
            settings = Settings.from_flat({**maps.SHARED, **own})
            assert f"{settings.model.conv}-k{settings.graph.k}" == name.split("-", 1)[1]
