"""The pictures of a run folder, from its tables and job folders alone."""

from pathlib import Path

import pandas as pd
import pytest

from jigsawmil.report import pictures
from jigsawmil.report.pictures import write_pictures
from jigsawmil.study.compare import summarise

CLASSES = ("mixed", "segregated")
METHODS = {"abmil": 0.3, "graph-mil": 1.5}


def write_job(folder: Path, rows: pd.DataFrame) -> None:
    folder.mkdir(parents=True)
    rows.to_csv(folder / "predictions.csv", index=False)
    trace = {"epoch": [1, 2], "kept": [False, True], "mil": [0.7, 0.6], "jigsaw": [4.0, 3.9], "lambda_": [0.2, 0.2]}
    pd.DataFrame({**trace, "val_loss": [0.7, 0.6], "val_auc": [0.5, 0.6], "seconds": 1.0}).to_csv(
        folder / "trace.csv", index=False
    )


def write_run(run: Path, table: pd.DataFrame, cohort: str = "cohort") -> None:
    for (method, seed, fold), rows in table.groupby(["variant", "seed", "fold"]):
        folder = run / "jobs" / cohort / str(method) / f"seed{seed}-fold{fold}"
        write_job(folder, rows[["slide_id", "patient_id", "label", "probability"]])


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Which pictures there are, without the seconds that drawing takes."""
    for name in ("roc_plot", "forest_plot", "trace_plot"):
        monkeypatch.setattr(pictures, name, lambda *given, **how: given[-1].touch(exist_ok=False))


def test_a_run_of_one_cohort(predictions, tmp_path: Path) -> None:
    table = predictions(METHODS, seeds=2).assign(cohort="cohort")
    write_run(tmp_path, table)
    summary = summarise(table, CLASSES, resamples=5).assign(cohort="cohort")
    written = write_pictures(tmp_path, table, summary, {"cohort": CLASSES})
    expected = ["forest.png", "roc.png", "traces.png"]
    assert sorted(path.name for path in written) == expected
    assert set(written) == set((tmp_path / "plots").iterdir())
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_cohorts_have_pictures_of_their_own_and_one_that_failed_has_none(predictions, undrawn, tmp_path: Path) -> None:
    table = predictions(METHODS).assign(cohort="colon")
    write_run(tmp_path, table, "colon")
    summary = summarise(table, CLASSES, resamples=5).assign(cohort="colon")
    written = write_pictures(tmp_path, table, summary, {"colon": CLASSES, "breast": CLASSES})
    assert sorted(path.name for path in written) == ["forest.png", "roc-colon.png", "traces.png"]
