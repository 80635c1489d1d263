"""The pictures of a run folder, from its tables and job folders alone."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from jigsawmil.report import pictures
from jigsawmil.report.pictures import four_maps, write_pictures
from jigsawmil.study.compare import summarise
from jigsawmil.study.run_folder import JobFolder

CLASSES = ("mixed", "segregated")
METHODS = {"abmil": 0.3, "graph-mil": 1.5}


def write_job(folder: Path, rows: pd.DataFrame, attention: dict[str, int] | None = None) -> None:
    """A job's folder. attention: slide -> patches; the n-th patch lies at (n, 7 n), with attention n."""
    folder.mkdir(parents=True)
    rows.to_csv(folder / "predictions.csv", index=False)
    trace = {"epoch": [1, 2], "kept": [False, True], "mil": [0.7, 0.6], "jigsaw": [4.0, 3.9], "lambda_": [0.2, 0.2]}
    pd.DataFrame({**trace, "val_loss": [0.7, 0.6], "val_auc": [0.5, 0.6], "seconds": 1.0}).to_csv(
        folder / "trace.csv", index=False
    )
    if attention is not None:
        arrays = {}
        for slide, patches in attention.items():
            number = np.arange(patches)
            arrays[slide] = number.astype(np.float32)
            arrays[f"{slide}/coords"] = np.stack([number, 7 * number], axis=1).astype(np.float64)
        save_file(arrays, folder / "attention.safetensors")


def write_run(run: Path, table: pd.DataFrame, cohort: str = "cohort", attention: bool = False) -> None:
    for (method, seed, fold), rows in table.groupby(["variant", "seed", "fold"]):
        folder = run / "jobs" / cohort / str(method) / f"seed{seed}-fold{fold}"
        kept = dict.fromkeys(rows["slide_id"], 12) if attention else None
        write_job(folder, rows[["slide_id", "patient_id", "label", "probability"]], kept)


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Which pictures there are, without the seconds that drawing takes."""
    for name in ("roc_plot", "forest_plot", "trace_plot", "attention_maps"):
        monkeypatch.setattr(pictures, name, lambda *given, **how: given[-1].touch(exist_ok=False))


def test_a_run_of_one_cohort(predictions, tmp_path: Path) -> None:
    """Several seeds make one picture of attention, not one over the other."""
    table = predictions(METHODS, seeds=2).assign(cohort="cohort")
    write_run(tmp_path, table, attention=True)
    summary = summarise(table, CLASSES, resamples=5).assign(cohort="cohort")
    written = write_pictures(tmp_path, table, summary, {"cohort": CLASSES})
    expected = ["attention-abmil.png", "attention-graph-mil.png", "forest.png", "roc.png", "traces.png"]
    assert sorted(path.name for path in written) == expected
    assert set(written) == set((tmp_path / "plots").iterdir())
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_cohorts_have_pictures_of_their_own_and_one_that_failed_has_none(predictions, undrawn, tmp_path: Path) -> None:
    table = predictions(METHODS).assign(cohort="colon")
    write_run(tmp_path, table, "colon", attention=True)
    summary = summarise(table, CLASSES, resamples=5).assign(cohort="colon")
    written = write_pictures(tmp_path, table, summary, {"colon": CLASSES, "breast": CLASSES})
    assert sorted(path.name for path in written) == [
        "attention-colon-abmil.png",
        "attention-colon-graph-mil.png",
        "forest.png",
        "roc-colon.png",
        "traces.png",
    ]


def test_without_attention_there_are_no_maps(predictions, undrawn, tmp_path: Path) -> None:
    table = predictions(METHODS).assign(cohort="cohort")
    write_run(tmp_path, table)
    summary = summarise(table, CLASSES, resamples=5).assign(cohort="cohort")
    written = write_pictures(tmp_path, table, summary, {"cohort": CLASSES})
    assert sorted(path.name for path in written) == ["forest.png", "roc.png", "traces.png"]


def rows(slides: list[str], labels: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"slide_id": slides, "patient_id": slides, "label": labels, "probability": 0.25})


def test_two_slides_of_each_class(tmp_path: Path) -> None:
    slides = ["007", "008", "009", "010", "011", "012"]
    write_job(tmp_path / "job", rows(slides, ["NA", "b", "NA", "NA", "b", "b"]), dict.fromkeys(slides, 5))
    maps = four_maps(JobFolder(tmp_path / "job"))
    # ids keep their zeros, and a class may be called NA
    assert [title for title, *_ in maps] == [
        "007: NA, p = 0.25",
        "009: NA, p = 0.25",
        "008: b, p = 0.25",
        "011: b, p = 0.25",
    ]
    for _, coords, attention, _ in maps:
        assert (coords[:, 1] == 7 * attention).all()  # each patch with its own attention


def test_slides_of_patients(tmp_path: Path) -> None:
    """A row is a patient and the attention lies on slides by other names: they are shown as they are."""
    slides = [f"P1-{i}" for i in range(6)]
    write_job(tmp_path / "job", rows(["P1", "P2"], ["a", "b"]), dict.fromkeys(slides, 5))
    assert [title for title, *_ in four_maps(JobFolder(tmp_path / "job"))] == slides[:4]


def test_beyond_two_classes_no_probability_is_told(graded, tmp_path: Path) -> None:
    """Which of them would be unclear."""
    part = graded[(graded["variant"] == "abmil") & (graded["fold"] == 0)]
    columns = ["slide_id", "patient_id", "label", "probability_low", "probability_middle", "probability_high"]
    write_job(tmp_path / "job", part[columns], dict.fromkeys(part["slide_id"], 5))
    titles = [title.split(": ")[1] for title, *_ in four_maps(JobFolder(tmp_path / "job"))]
    assert titles == ["high", "high", "low", "low"]
