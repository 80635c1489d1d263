"""The comparison with other people's models: a tiny contest from its cohort to its table."""

import dataclasses
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from jigsawmil.synthetic.phantom import make_phantom, write_phantom

rivals: Any = importlib.import_module("benchmarks.evidence.rivals")
page: Any = importlib.import_module("benchmarks.evidence.results_rivals")
pictures: Any = importlib.import_module("benchmarks.evidence.results_pictures")
NAMES = ["abmil", "committee", "mean-lr", "torchmil DSMIL"]


def small(folder: Path) -> None:
    write_phantom(make_phantom("composition", slides=16, patches=30, dim=16, seed=4), folder)


def test_a_contest_ends_in_a_table_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"epochs": 2, "patience": 0}
    contest = rivals.Contest(small, 2, (0,), 1, short, {"k": 4}, control=True)
    monkeypatch.setattr(rivals, "CONTESTS", {"composition": contest})
    arguments = ["--contenders", ",".join(NAMES), "--work", str(tmp_path / "work"), "--out", str(tmp_path / "o.json")]
    rivals.main(arguments)
    found = json.loads((tmp_path / "o.json").read_text())
    rows = {row["variant"]: row for row in found["cohorts"]["composition"]["rows"]}
    assert set(rows) == set(NAMES)
    assert rows["abmil"]["ratio"] == 1.0
    assert "verdict" not in rows["committee"]
    for name in ("abmil", "mean-lr", "torchmil DSMIL"):
        gap = rows[name]["auc_patient"] - rows["committee"]["auc_patient"]
        assert rows[name]["difference"] == pytest.approx(gap)
        assert rows[name]["delong_p_holm"] >= rows[name]["delong_p"]
    [control] = found["cohorts"]["composition"]["control"]
    assert control["variant"] == "committee"
    assert pictures.rivals_figure(found).axes
    text = "\n".join(page.rivals(found))
    assert all(f"| {name} |" in text for name in NAMES)
    assert "Control: positions shuffled" in text
    rivals.main(arguments)
    again = json.loads((tmp_path / "o.json").read_text())
    assert again["cohorts"] == found["cohorts"]


def test_the_rule_of_comparison() -> None:
    assert rivals.verdict(0.1, 0.049) == "better"
    assert rivals.verdict(-0.1, 0.049) == "worse"
    assert rivals.verdict(0.3, 0.05) == rivals.verdict(0.3, float("nan")) == "not told apart"


def test_every_contender_can_be_made_and_only_transmil_differs_from_its_defaults() -> None:
    for contest in rivals.CONTESTS.values():
        variants = contest.variants(list(rivals.CONTENDERS))
        assert len(variants) == 20
        plain = dataclasses.replace(contest, settings={}, graph={}).variants(list(rivals.CONTENDERS))
        assert [name for name, one in plain.items() if one.model.options] == ["torchmil TransMIL"]
    graphs = {name: one.graph.k for name, one in rivals.CONTESTS["CODEX"].variants(list(rivals.CONTENDERS)).items()}
    assert graphs["graph-abmil"] == graphs["graph-abmil kinds"] == 10
    assert graphs["torchmil PatchGCN"] == 8
