"""Ray gives for survival, measured values and several targets what one process gives, also by a model from elsewhere,
which workers import by its path."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jigsawmil import METHODS
from jigsawmil.cluster.studies import run_on_ray
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.train.settings import Settings

from ..cli.test_foreign import MODULE
from ..fixtures.outcomes import COLUMNS

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jigsawmil[ray]'")


def test_ray_and_one_process_agree_on_every_task(
    cluster: Any,
    outcome_options: Callable[[str], dict[str, Any]],
    small: Callable[..., Settings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "on_ray").mkdir()
    (tmp_path / "on_ray" / "models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    variants = {"abmil": small(epochs=1), "theirs": small("on_ray.models:Mean", epochs=1, options={"width": 4})}
    cohorts = {task: cohort_spec(outcome_options(task)) for task in COLUMNS}
    study = Study(cohorts=cohorts, variants=variants, folds=2)
    try:
        here = cross_validate(study, tmp_path / "here")
        there = cross_validate(study, tmp_path / "there", executor=run_on_ray)
    finally:
        METHODS._imported.clear()
    assert not there.failed
    assert there.predictions.equals(here.predictions)
    assert set(there.predictions["variant"]) == {"abmil", "theirs"}
    assert set(there.predictions["cohort"]) == set(COLUMNS)
