"""The lung benchmark on tiny made-up patients: it reads, keeps to what was declared, and says what it found."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

lung: Any = importlib.import_module("benchmarks.evidence.lung")
section: Any = importlib.import_module("benchmarks.evidence.results_lung")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """18 patients with one or two images of 20 cells; the old die early."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("lung")
    age = rng.integers(40, 80, 18)
    patients = pd.DataFrame({"patient": np.arange(18), "survival_days": 5000 - 50 * age + rng.integers(0, 300, 18)})
    patients = patients.assign(event=np.arange(18) % 3 > 0, age=age, stage=rng.integers(1, 4, 18))
    patients.assign(event=patients["event"].astype(int), gender=rng.choice(["F", "M"], 18)).to_csv(
        folder / "patients.csv", index=False
    )
    rows = [
        (p, f"{p}_{i}", *rng.uniform(0, 300, 2), *rng.integers(0, 2, 6)) for p in range(18) for i in range(1 + p % 2)
        for _ in range(20)
    ]  # fmt: skip
    columns = ["patient", "image", "x", "y", *lung.MARKERS]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "cells.csv.gz", index=False)
    return folder


def test_images_become_slides_of_patients_with_covariates(data: Path) -> None:
    cohort = lung.read_cells(data)
    assert (len(cohort), cohort.dim, len(set(cohort.patients)), cohort.task) == (27, 6, 18, "survival")
    assert [(one.name, one.levels) for one in cohort.covariates] == [("age", ()), ("gender", ("F", "M")), ("stage", ())]
    (data / "none").mkdir()
    (data / "none" / "patients.csv").write_text("patient,event\n1,1\n")
    (data / "none" / "cells.csv.gz").write_bytes((data / "cells.csv.gz").read_bytes())
    with pytest.raises(lung.LabelError, match=r"patients.csv: no column survival_days"):
        lung.read_cells(data / "none")


def test_what_is_run_and_tested_is_what_was_declared() -> None:
    methods = lung.methods()
    assert list(methods)[:2] == [lung.COVARIATES, lung.COMPOSITION]
    assert {own.model.loss for own in methods.values()} == {"cox"}
    assert methods[lung.SHUFFLED] == methods[lung.JIGSAW]
    assert {one.train.epochs for one in methods.values()} == {5}
    assert (lung.JIGSAW, lung.SHUFFLED) in lung.pairs(methods)
    assert (lung.JIGSAW, lung.SHUFFLED) not in lung.pairs([lung.JIGSAW])


def test_a_run_from_end_to_end_resumes(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = lung.methods()
    few = {name: own[name].replace(epochs=1) for name in (lung.COVARIATES, lung.ABMIL, lung.JIGSAW, lung.SHUFFLED)}
    monkeypatch.setattr(lung, "methods", lambda: few)
    monkeypatch.setattr("jigsawmil.train.regression.RIDGES", (0.1,))
    out = tmp_path / "lung.json"
    run = ["--data", str(data), "--repeats", "1", "--folds", "3", "--work", str(tmp_path / "work"), "--out", str(out)]
    lung.main(run)
    first = json.loads(out.read_text())
    assert first["fits_made"] == 3 * len(few)
    assert [row["name"] for row in first["rows"]] == list(few)
    assert first["data"] == {"cells": 540, "images": 27, "patients": 18, "events": 12}
    assert first["rows"][0]["c"] > 0.7
    assert {(line["a"], line["b"]) for line in first["comparisons"]} == {*lung.pairs(few)}
    text = "\n".join(section.lung(first))
    assert f"{first['rows'][0]['c']:.3f}" in text
    assert "540 cells in 27 images of 18 patients, 12 of whom died" in text
    lung.main([*run, "--minutes", "-1"])
    again = json.loads(out.read_text())
    assert again["left_out"] == list(few)[1:]  # the first is always begun
    lung.main(run)
    assert json.loads(out.read_text())["fits_made"] == 0


def test_absent_cells_are_said_and_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lung.main(["--data", str(tmp_path), "--out", str(tmp_path / "out.json")])
    assert "skipped" in capsys.readouterr().out
    assert not (tmp_path / "out.json").exists()
