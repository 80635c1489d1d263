"""Single models, ensembles and committees: the declared experiment from end to end, small."""

import json
from pathlib import Path

import pytest
from benchmarks.evidence import ensembles
from benchmarks.evidence.ensembles import JIGSAW, LARGE, STACKED

QUICK = {"epochs": 1, "patience": 1, "hidden": 8, "attention_dim": 4}


def test_a_part_ends_in_figures_of_every_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensembles, "SHAPE", {"slides": 24, "patches": 20, "dim": 16})
    monkeypatch.setattr(ensembles, "KINDS", {"composition": {"kind": "composition", "noise": 1.0}})
    monkeypatch.setattr(ensembles, "SEEDS", {"develop": {"composition": range(1, 3)}})
    arms = {name: {**own, **QUICK} for name, own in ensembles.ARMS.items()}
    monkeypatch.setattr(ensembles, "ARMS", {name: arms[name] for name in (JIGSAW, f"{JIGSAW} x 5", "committee", LARGE)})
    out = tmp_path / "o.json"
    ensembles.main(["--part", "develop", "--processes", "1", "--work", str(tmp_path / "work"), "--out", str(out)])
    for cohort in json.loads(out.read_text())["cohorts"].values():
        assert {JIGSAW, f"{JIGSAW} x 5", "committee", LARGE, STACKED} <= set(cohort["auroc"])
        assert all(len(areas) == ensembles.FOLDS for areas in cohort["auroc"].values())
        assert [sum(weights) for weights in cohort["weights"]] == pytest.approx([1] * ensembles.FOLDS, abs=0.01)
