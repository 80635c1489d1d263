"""A model that the package does not know goes the whole way: compare, report, train, predict, maps."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from jigsawmil import METHODS
from jigsawmil.maps.patch_maps import NO_EVIDENCE

MODULE = """
import torch
from torch import nn

class Mean(nn.Module):
    def __init__(self, in_dim, logits, width=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(in_dim, width), nn.ReLU(), nn.Linear(width, logits))

    def forward(self, batch):
        return torch.stack([self.net(batch.features[a:b]).mean(0) for a, b in batch.bags])

class Attention(nn.Module):
    graph = True

    def __init__(self, in_dim, logits):
        super().__init__()
        self.score, self.out = nn.Linear(in_dim, 1), nn.Linear(in_dim, logits)

    def forward(self, batch):
        assert batch.graph is not None
        score = self.score(batch.features)[:, 0]
        weights = [score[a:b].softmax(0) for a, b in batch.bags]
        pooled = [w @ batch.features[a:b] for w, (a, b) in zip(weights, batch.bags)]
        return self.out(torch.stack(pooled)), torch.cat(weights)
"""
SHORT = ["--epochs", "2", "--patience", "0", "--k", "6"]


def forget() -> None:
    """As a new process would."""
    METHODS._imported.clear()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """In the current directory, which is not on the path of the installed program."""
    name = f"foreign_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    yield name
    forget()


def test_compare_in_two_processes_then_report(jigsawmil, given, module: str, tmp_path: Path) -> None:
    run, both = tmp_path / "run", f"abmil,{module}:Mean,{module}:Attention,torchmil:SmABMIL"
    options = ["--option", "width=5", "--jigsaw", "consistency", "--jobs", "2", "--folds", "2"]
    ran = jigsawmil("compare", *given, *SHORT, *options, "--methods", both, "--attention", "--out", run)
    assert ran.code == 0, ran.err
    names = {"abmil", f"{module} Mean", f"{module} Attention", "torchmil SmABMIL"}
    assert set(pd.read_csv(run / "summary.csv")["variant"]) == names
    [card] = {file.read_text() for file in run.glob(f"jobs/*/{module} Mean/*fold0/model.json")}
    assert json.loads(card)["model"]["options"] == '{"width": 5}'
    [spec] = [json.loads(f.read_text())["spec"] for f in run.glob(f"jobs/*/{module} Mean/*fold0/job.json")]
    assert spec["options"] == '{"width": 5}'
    ran = jigsawmil("compare", *given, *SHORT, *options[2:], "--methods", both, "--attention", "--out", run)
    assert "holds results of other settings (options was" in ran.err
    forget()
    ran = jigsawmil("report", run)  # needs none of its code
    assert ran.code == 0, ran.err
    page = (run / "report.html").read_text()
    assert f"A model from outside this package, made by {module}:Mean with width = 5." in page
    assert not METHODS._imported


def test_train_predict_and_maps_by_consent(
    jigsawmil, given, module: str, cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = sorted((cohort / "features").iterdir())[:2]
    for method in ("Mean", "Attention"):
        model, maps = tmp_path / method, tmp_path / f"{method} maps"
        ran = jigsawmil("train", *given, *SHORT, "--members", "2", "--method", f"{module}:{method}", "--out", model)
        assert ran.code == 0, ran.err
        forget()
        monkeypatch.delenv("JIGSAWMIL_METHODS", raising=False)
        ran = jigsawmil("predict", model, *features, "--out", tmp_path / "p.csv")
        assert f"code {module}:{method}, which is not imported because a file names it" in ran.err
        assert f"JIGSAWMIL_METHODS={module}" in ran.err
        assert not METHODS._imported
        monkeypatch.setenv("JIGSAWMIL_METHODS", f"other, {module}")
        ran = jigsawmil("predict", model, *features, "--out", tmp_path / "p.csv")
        assert ran.code == 0, ran.err
        assert len(pd.read_csv(tmp_path / "p.csv")) == 2
        ran = jigsawmil("heatmap", model, features[0], "--out", tmp_path / "map.png")
        assert ran.code == 0, ran.err
        assert NO_EVIDENCE in ran.out
        ran = jigsawmil("export", model, *features, "--format", "csv", "--out", maps)
        assert ran.code == 0, ran.err
        for table in map(pd.read_csv, maps.glob("*.csv")):
            assert ("attribution" in table) == (method == "Mean")  # attention, or what else there is
            assert "evidence" not in table
            assert table["attention"].nunique() == (1 if method == "Mean" else len(table))


def test_a_model_whose_code_is_gone_says_so(
    jigsawmil, given, module: str, cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = jigsawmil("train", *given, *SHORT, "--method", f"{module}:Mean", "--out", tmp_path / "model")
    assert ran.code == 0, ran.err
    forget()
    del sys.modules[module]
    (tmp_path / f"{module}.py").unlink()
    monkeypatch.setenv("JIGSAWMIL_METHODS", module)
    ran = jigsawmil("predict", tmp_path / "model", cohort / "features", "--out", tmp_path / "p.csv")
    assert f"the module {module} cannot be imported" in ran.err
    assert str(tmp_path / "model" / "model.json") in ran.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--option", "widht=5"], "found 'widht', expected of width. Did you mean 'width'?"),
        (["--jigsaw", "consistency"], "is a model from elsewhere, which does not use this setting"),
        (["--option", "width"], "--option width: expected KEY=VALUE"),
    ],
)
def test_what_it_cannot_use_is_refused(jigsawmil, given, module: str, tmp_path: Path, options, told: str) -> None:
    ran = jigsawmil("compare", *given, "--methods", f"{module}:Mean", *options, "--out", tmp_path / "run")
    assert ran.code == 1
    assert told in ran.err


def test_a_model_of_torchmil_needs_no_consent_and_shows_its_attention(jigsawmil, given, cohort, tmp_path: Path) -> None:
    model, maps = tmp_path / "model", tmp_path / "maps"
    ran = jigsawmil("train", *given, *SHORT, "--method", "torchmil:SmABMIL", "--option", "att_dim=8", "--out", model)
    assert ran.code == 0, ran.err
    forget()
    features = min((cohort / "features").iterdir())
    ran = jigsawmil("export", model, features, "--format", "csv", "--out", maps)
    assert ran.code == 0, ran.err
    [table] = map(pd.read_csv, maps.glob("*.csv"))
    assert table["attention"].nunique() == len(table)
    assert "attribution" not in table
