"""Small cohorts on disk, and studies that take a second."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jigsawmil.cohort.phantom import make_phantom, write_phantom
from jigsawmil.study.executors import Event
from jigsawmil.study.gather import Result
from jigsawmil.study.run import CohortSpec
from jigsawmil.study.study import Study, cohort_spec, run_study
from jigsawmil.train.settings import Settings

SMALL = {"hidden": 16, "attention_dim": 8, "grid": 3, "k": 4, "epochs": 2, "patience": 0, "lr": 1e-3}


@pytest.fixture(scope="session")
def phantom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with labels.csv and features: 12 slides of 10 patients. Not to be changed."""
    made = make_phantom("composition", slides=12, dim=16, patches=30, two_slides=0.2, seed=1)
    return write_phantom(made, tmp_path_factory.mktemp("cohort") / "phantom")


@pytest.fixture
def own(phantom: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(phantom, tmp_path / "own"))


@pytest.fixture(scope="session")
def spec() -> Callable[..., CohortSpec]:
    def make(folder: Path, **options: Any) -> CohortSpec:
        return cohort_spec({"labels": folder / "labels.csv", "features": folder / "features", **options})

    return make


@pytest.fixture(scope="session")
def small() -> Callable[..., Settings]:
    def make(method: str = "abmil", **options: Any) -> Settings:
        return Settings(method=method, **{**SMALL, **options})

    return make


@pytest.fixture(scope="session")
def study_of(spec: Any, small: Any) -> Callable[..., Study]:
    def make(folder: Path, methods: tuple[str, ...] = ("abmil", "graph-mil"), **options: Any) -> Study:
        """One cohort `c` and two folds; options are those of a study, and else of every method."""
        known = {key: options.pop(key) for key in list(options) if key in Study.__dataclass_fields__}
        variants = {method: small(method, **options) for method in methods}
        return Study(**{"cohorts": {"c": spec(folder)}, "variants": variants, "folds": 2, **known})

    return make


@pytest.fixture(scope="session")
def finished(
    tmp_path_factory: pytest.TempPathFactory, phantom: Path, study_of: Callable[..., Study]
) -> tuple[Path, Result]:
    """A finished run of two methods and two seeds. Not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, run_study(study_of(phantom, ("abmil", "graph-abmil+jigsaw"), seeds=(0, 5)), out)


@pytest.fixture(scope="session")
def ran() -> Callable[..., tuple[Result, list[str]]]:
    def run(study: Study, out: Path, **options: Any) -> tuple[Result, list[str]]:
        """The result and the jobs that were run for it."""
        ended: list[str] = []

        def listen(event: Event) -> None:
            if event.ended:
                ended.append(event.job.name)

        return run_study(study, out, listen=listen, **options), ended

    return run


@pytest.fixture(scope="session")
def relabel() -> Callable[..., None]:
    def change_labels(folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        path = folder / "labels.csv"
        change(pd.read_csv(path, dtype=str)).to_csv(path, index=False)

    return change_labels
