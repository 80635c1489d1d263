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
results_page: Any = importlib.import_module("benchmarks.evidence.results_page")
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
    equal = found["cohorts"]["composition"]["equal"]
    assert equal["difference"] == pytest.approx(equal["auc_patient"] - rows["committee"]["auc_patient"])
    [control] = found["cohorts"]["composition"]["control"]
    assert control["variant"] == "committee"
    assert len(pictures.rivals_figure(found, "composition").axes[0].get_yticks()) == len(NAMES)
    text = "\n".join(page.rivals(found))
    assert all(f"`{name}`" in text for name in NAMES)
    assert "Control: positions shuffled" in text
    rivals.main(arguments)
    again = json.loads((tmp_path / "o.json").read_text())
    assert again["cohorts"] == found["cohorts"]


def row(name: str, auc: float, mean: float, patient: float | None = None, **judged: Any) -> dict[str, Any]:
    figures = {"auc_oof": auc, "auc_mean": mean, "auc_patient": patient, "auc_low": auc - 0.1, "auc_high": auc + 0.01}
    if judged:
        judged = {"difference": -0.1, "delong_p_holm": 0.2, "t_p_holm": None, "verdict": "not told apart"} | judged
    return {"variant": name, **figures, "auc_std": 0.05, "ratio": 2.0, **judged}


def of_rows(*rows: dict[str, Any]) -> dict[str, Any]:
    one = {
        "rows": list(rows),
        "slides": 58,
        "patients": 10,
        "patches": 7000,
        "folds": 5,
        "seeds": [1, 2],
        "control": [],
    }
    return {"reference": "committee", "unit": "abmil", "cohorts": {"UCSB": one}}


def test_the_page_says_which_rival_wins_and_how_far_the_default_is_from_the_best_single_method() -> None:
    best = row("torchmil DSMIL", 0.95, 0.90, level="slide, clustered", verdict="better")
    found = of_rows(row("committee", 0.91, 0.94), best, row("abmil", 0.88, 0.96, level="slide, clustered"))
    text = "\n".join(page.rivals(found))
    assert "Highest AUROC: `torchmil DSMIL`, 0.950, **a model of torchmil**. `committee` has 0.910" in text
    assert "better than the default: `torchmil DSMIL`; worse: none" in text
    pooled, mean = "`torchmil DSMIL` 0.950 | -0.040 | **no**", "-0.020 to `abmil` 0.960, yes"
    assert f"| UCSB | 0.910 | {pooled} | {mean} |" in text
    assert "met on 0 of 1 cohorts" in text
    assert "Not met on UCSB: of 10 microarrays, the 95 % interval of `committee` is 0.11 wide, and 1 of 2" in text
    front = page.front(found)
    assert "| our default | `committee` | 0.910 [0.810, 0.920] | 2.0 |" in front
    assert "| best of 1 other methods here | `abmil` | 0.880" in front
    assert "| best of 1 of torchmil | `torchmil DSMIL` | 0.950" in front


def test_cohorts_whose_images_share_a_label_are_ranked_by_patient() -> None:
    better = row("abmil", 0.80, 0.80, patient=0.93, level="patient")
    found = of_rows(row("committee", 0.90, 0.90, patient=0.91), better)
    text = "\n".join(page.rivals(found))
    assert "Highest AUROC: `abmil`, 0.930" in text
    assert "| UCSB | 0.910 | `abmil` 0.930 | -0.020 | yes |" in text


def test_readme_has_the_figures_of_the_file() -> None:
    results = results_page.read_results(results_page.RESULTS)
    if not results["rivals"]:
        pytest.skip("rivals.json was not made yet")
    text = results_page.README.read_text()
    assert results_page.readme(text, results) == text, f"run `{results_page.COMMAND}`"


def test_readme_keeps_what_it_has_without_the_file_and_changes_with_it() -> None:
    text = results_page.README.read_text()
    assert results_page.readme(text, {"rivals": None}) == text
    found = of_rows(row("committee", 0.91, 0.94), row("abmil", 0.123, 0.2, level="slide, clustered"))
    assert "0.123 [0.023, 0.133]" in results_page.readme(text, {"rivals": found})


def test_the_rule_of_comparison() -> None:
    assert rivals.verdict(0.1, 0.049) == "better"
    assert rivals.verdict(-0.1, 0.049) == "worse"
    assert rivals.verdict(0.3, 0.05) == rivals.verdict(0.3, float("nan")) == "not told apart"


def test_every_contender_can_be_made_and_only_transmil_differs_from_its_defaults() -> None:
    for contest in rivals.CONTESTS.values():
        variants = contest.variants(list(rivals.CONTENDERS))
        assert len(variants) == 22
        plain = dataclasses.replace(contest, settings={}, graph={}).variants(list(rivals.CONTENDERS))
        assert [name for name, one in plain.items() if one.model.options] == ["torchmil TransMIL"]
    graphs = {name: one.graph.k for name, one in rivals.CONTESTS["CODEX"].variants(list(rivals.CONTENDERS)).items()}
    assert graphs["graph-abmil"] == graphs["graph-abmil kinds"] == 10
    assert graphs["graph-abmil+jigsaw sage"] == 10
    assert graphs["torchmil PatchGCN"] == graphs["graph-abmil+jigsaw k=8"] == 8
