"""The baselines go the whole way: compare, report, train, predict, validate and maps."""

from pathlib import Path

import pandas as pd
import pytest

from jigsawmil.nn.options import BASELINES

SHORT = ["--epochs", "2", "--patience", "0"]


def test_compare_and_report(jigsawmil, given, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ran = jigsawmil("compare", *given, *SHORT, "--methods", ",".join(BASELINES), "--attention", "--out", run)
    assert ran.code == 0, ran.err
    assert set(pd.read_csv(run / "summary.csv")["variant"]) == set(BASELINES)
    ran = jigsawmil("report", run)
    assert ran.code == 0, ran.err
    assert "described by its mean features" in (run / "report.html").read_text()


@pytest.mark.parametrize("members", [1, 3])
def test_train_predict_validate_and_maps(jigsawmil, given, cohort: Path, tmp_path: Path, members: int) -> None:
    model, maps = tmp_path / "model", tmp_path / "maps"
    features = sorted((cohort / "features").iterdir())[:2]
    ran = jigsawmil("train", *given, "--method", "mean-lr", "--members", str(members), "--out", model)
    assert ran.code == 0, ran.err
    ran = jigsawmil("predict", model, *features, "--out", tmp_path / "p.csv")
    assert ran.code == 0, ran.err
    ran = jigsawmil("heatmap", model, features[0], "--out", tmp_path / "map.png")
    assert ran.code == 0, ran.err
    ran = jigsawmil("export", model, *features, "--format", "csv", "--out", maps)
    assert ran.code == 0, ran.err
    for table in map(pd.read_csv, maps.glob("*.csv")):
        assert table["evidence"].nunique() > 1
    ran = jigsawmil("validate", model, *given, "--allow-overlap", "--out", tmp_path / "external")
    assert ran.code == 0, ran.err
