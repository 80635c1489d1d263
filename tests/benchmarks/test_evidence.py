import dataclasses
import importlib
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.evidence import __main__ as evidence
from benchmarks.evidence import (
    choosing,
    ensembles,
    holdout,
    jigsaw_cases,
    learning_curve,
    parts,
    presets,
    results_page,
    results_selection,
    selection_bias,
    small_cohorts,
    unseen,
)
from benchmarks.evidence.results_sections import ensemble_time
from benchmarks.speed import ensemble
from scipy.stats import ttest_1samp

import benchmarks
from jigsawmil.errors import StudyError
from jigsawmil.synthetic.phantom_options import phantom_spec
from jigsawmil.train.choice import Choice
from jigsawmil.train.config import TrainConfig
from jigsawmil.train.progress import Epoch, Progress
from jigsawmil.train.settings import Settings


def test_the_page_says_what_the_files_say() -> None:
    written = results_page.page(results_page.read_results(results_page.RESULTS)) + "\n"
    there = results_page.PAGE.read_text()
    if benchmarks.history() is None:  # where no commit can be looked up
        there = there.replace(benchmarks.LOST, "")
    assert there == written, f"run `{results_page.COMMAND}`"


def test_a_commit_that_the_history_does_not_have_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks, "history", lambda: ("a" * 40, "b" * 40))
    assert results_page.made_by({"commits": ["b" * 10]}, "c") == "Made by `c`; commit bbbbbbbbbb."
    told = results_page.made_by({"commit": "c" * 40, "dirty": True}, "c")
    assert told == f"Made by `c`; commit cccccccccc{benchmarks.LOST} with changes not committed."
    assert benchmarks.LOST not in results_page.made_by({"commit": None}, "c")
    monkeypatch.setattr(benchmarks, "history", lambda: None)
    assert benchmarks.LOST not in results_page.made_by({"commit": "c" * 40}, "c")


def test_every_section_names_the_command_that_makes_it() -> None:
    text = results_page.PAGE.read_text()
    sections = text.split("\n## ")[1:]
    assert [part.split("\n")[0] for part in sections] == [section.title for section in results_page.SECTIONS]
    for part, section in zip(sections, results_page.SECTIONS, strict=True):
        told = part.split("\n")[2]
        assert re.match(r"(Made by|Not run yet:) `", told), told
        assert section.command.split()[-1] in told or section.command in told


def test_every_picture_of_the_page_is_there() -> None:
    pictures = re.findall(r"\]\((img/[^)]+)\)", results_page.PAGE.read_text())
    assert all((results_page.PAGE.parent / picture).is_file() for picture in pictures)
    drawn = sorted(path.name for path in (results_page.PAGE.parent / "img").glob("results-*.png"))
    assert drawn == sorted(Path(picture).name for picture in pictures)


def test_a_missing_file_leaves_the_way_to_make_it() -> None:
    text = results_page.page({})
    for section in results_page.SECTIONS:
        assert f"Not run yet: `{section.command}`" in text


def gain(low: float, high: float) -> dict[str, float]:
    return {"low": low, "high": high, "mean": (low + high) / 2}


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.005, 0.03, "helps"),
        (0.001, 0.015, "neutral"),  # sure, and too small to matter
        (-0.001, 0.1, "neutral"),
        (-0.03, -0.005, "hurts"),
        (-0.015, -0.001, "neutral"),
    ],
)
def test_a_verdict_needs_an_interval_without_0_and_a_gain_that_matters(low: float, high: float, word: str) -> None:
    assert jigsaw_cases.judge(gain(low, high)) == word


def test_the_interval_is_that_of_students_t() -> None:
    d = np.random.default_rng(0).normal(0.02, 0.03, 8)
    found, expected = holdout.paired(d), ttest_1samp(d, 0)
    bounds = expected.confidence_interval()
    assert (found["low"], found["high"], found["p"]) == pytest.approx((bounds.low, bounds.high, expected.pvalue))
    assert holdout.paired([0, 0, 0])["p"] == 1


def test_the_best_fixed_lambda_is_chosen_without_the_cohort_it_is_scored_on() -> None:
    # on cohort 0 the first value looks best by far, but on the others the second is
    areas = {"0.1": [0.9, 0.5, 0.5], "0.5": [0.6, 0.7, 0.7], "2.0": [0.1, 0.1, 0.1]}
    assert jigsaw_cases.best_elsewhere(areas).tolist() == [0.6, 0.5, 0.5]


def test_no_cohort_was_seen_before() -> None:
    used = [{0, 11, 12, 901, 902, 903}, set(jigsaw_cases.SEEDS), set(learning_curve.SEEDS)]
    used += [{seed for own in part.SEEDS.values() for seed in own} for part in (presets, small_cohorts, choosing)]
    used += [{seed for own in part.values() for seed in own} for part in ensembles.SEEDS.values()]
    assert len(set().union(*used)) == sum(map(len, used))


def outcome_of(case: jigsaw_cases.Case, shift: float, rng: np.random.Generator) -> dict[str, Any]:
    trace = {name: [1.0, 0.5] for name in holdout.TRACED}
    found = {name: {"auc": rng.uniform(0.6, 0.7), **trace} for name in jigsaw_cases.variants(case)}
    found["em"]["auc"] = found[jigsaw_cases.WITHOUT]["auc"] + shift + rng.normal(0, 0.001)
    return {"variants": found}


def test_gains_are_paired_within_a_cohort() -> None:
    """A steady gain of 0.05 is found although AUCs scatter by as much from cohort to cohort."""
    rng = np.random.default_rng(0)
    rows = [jigsaw_cases.judge_case(c, [outcome_of(c, 0.05, rng) for _ in range(8)]) for c in jigsaw_cases.CASES]
    jigsaw_cases.mark_survivors(rows)
    assert all(row["gains"]["em"]["verdict"] == "helps" and row["gains"]["em"]["p_holm"] < 0.05 for row in rows)
    over = jigsaw_cases.contrasts(rows)
    assert over["em - without"]["low"] > 0.045
    assert over["em - without"]["cases"] == len(rows)
    assert over["0.1 - without"]["low"] < 0 < over["0.1 - without"]["high"]


SMALL = {"method": "abmil", "epochs": 1, "patience": 0, "hidden": 16}


@pytest.fixture
def cell() -> holdout.Cell:
    spec = phantom_spec("composition", slides=14, seed=4, patches=20, dim=16, two_slides=0.0)
    few = {**SMALL, "train": 4}
    return holdout.Cell(name="small", spec=spec, train=8, test=6, variants={"all": SMALL, "few": few})


def test_no_slide_is_on_both_sides_and_all_variants_are_tested_alike(cell, tmp_path: Path) -> None:
    holdout.write_phantom(holdout.phantom_slides(cell.spec), tmp_path / "cohort")
    jobs = {job.variant: job for job in holdout.holdout_jobs(cell, tmp_path)}
    assert len(jobs["all"].split.train) == 8
    assert jobs["few"].split.train == jobs["all"].split.train[:4]
    assert jobs["few"].split.test == jobs["all"].split.test
    assert not set(jobs["all"].split.train) & set(jobs["all"].split.test)


def test_a_cell_is_run_once_and_again_when_something_else_is_asked(cell, tmp_path: Path, monkeypatch, capsys) -> None:
    first = holdout.run_cells([cell], tmp_path)
    assert 0 <= first["small"]["variants"]["all"]["auc"] <= 1
    assert [path.name for path in tmp_path.iterdir()] == ["small.json"]
    fitted: list[int] = []
    run = holdout.run_local
    monkeypatch.setattr(holdout, "run_local", lambda jobs, *rest: (fitted.append(len(jobs)), run(jobs, *rest)))
    assert holdout.run_cells([cell], tmp_path) == json.loads(json.dumps(first))
    assert fitted == []
    other = dataclasses.replace(cell, variants={"all": {**SMALL, "epochs": 2}})
    assert len(holdout.run_cells([other], tmp_path)["small"]["variants"]["all"]["mil"]) == 2
    assert fitted == [1]
    assert "1 of 1" in capsys.readouterr().out


def test_members_are_trainings_that_hold_out_slides_of_their_own(cell, tmp_path: Path) -> None:
    whole = {**SMALL, "members": 3, "patience": 1}
    several = dataclasses.replace(cell, variants={"whole": whole, "two": {**whole, "trainings": 2}})
    holdout.write_phantom(holdout.phantom_slides(cell.spec), tmp_path / "jobs" / "cohort")
    jobs = holdout.holdout_jobs(several, tmp_path / "jobs")
    expected = [("whole", 0), ("whole", 1), ("whole", 2), ("two", 0), ("two", 1)]
    assert [(job.variant, job.member) for job in jobs] == expected
    assert [job.split for job in jobs[:2]] == [job.split for job in jobs[3:]]
    assert len({job.split.val for job in jobs[:3]}) == 3
    found = holdout.run_cells([several], tmp_path / "cells")["small"]["variants"]
    assert [one["mil"] for one in found["two"]["each"]] == [one["mil"] for one in found["whole"]["each"]][:2]


def test_the_mean_logit_of_members_is_scored(tmp_path: Path) -> None:
    """Each member errs on one pair of slides; together they are right."""
    jobs = []
    for member, logits in enumerate([[2.0, -3.0, -2.0, -2.0], [-3.0, 2.0, -2.0, -2.0]]):
        folder = tmp_path / str(member)
        folder.mkdir()
        table = pd.DataFrame({"label": list("ppnn"), "probability": 1 / (1 + np.exp(-np.array(logits)))})
        table.assign(logit0=logits).to_csv(folder / "predictions.csv", index=False)
        pd.DataFrame({name: [1.0] for name in holdout.TRACED}).to_csv(folder / "trace.csv", index=False)
        (folder / "job.json").write_text('{"seconds": {"fit": 2.0}, "best_epoch": 1}')
        jobs.append(SimpleNamespace(folder=folder, member=member, name=folder.name))
    found = holdout.read_variant(jobs, "p")
    assert [one["auc"] for one in found["each"]] == [0.5, 0.5]
    assert (found["auc"], found["seconds"]) == (1.0, 4.0)


def test_patients_with_two_slides_are_refused(cell, tmp_path: Path) -> None:
    twice = dataclasses.replace(cell, spec=dataclasses.replace(cell.spec, two_slides=0.5))
    with pytest.raises(StudyError, match="expected 0"):
        holdout.run_cells([twice], tmp_path)


def test_permuted_labels_belong_to_patients(tmp_path: Path) -> None:
    rows = [(f"s{i}", f"p{i // 2}", "ab"[i // 2 % 2]) for i in range(40)]
    (tmp_path / "labels.csv").write_text("slide_id,patient_id,label\n" + "\n".join(map(",".join, rows)) + "\n")
    unseen.permute_labels(tmp_path / "labels.csv", tmp_path / "permuted.csv", seed=0)
    lines = [line.split(",") for line in (tmp_path / "permuted.csv").read_text().splitlines()[1:]]
    assert [line[:2] for line in lines] == [list(row[:2]) for row in rows]
    label_of = {patient: label for _, patient, label in lines}
    assert all(label_of[patient] == label for _, patient, label in lines)
    assert sorted(label_of.values()) == ["a"] * 10 + ["b"] * 10
    assert label_of != {patient: label for _, patient, label in rows}


def test_evidence_names_what_fails_goes_on_and_keeps_to_its_time(monkeypatch, capsys) -> None:
    began: list[str] = []
    pages: list[list[str]] = []
    few = (
        evidence.Part("unseen", (), 1),
        evidence.Part("nobody_wrote_this", (), 1),
        evidence.Part("learning_curve", (), 500),
        evidence.Part("maps", (), 1, data="no/such/data"),
        evidence.Part("jigsaw_cases", (), 1),
    )
    monkeypatch.setattr(evidence, "PARTS", few)
    monkeypatch.setattr(evidence, "run", lambda part: began.append(part.name) or part.name != "unseen")
    monkeypatch.setattr(evidence.results_page, "main", pages.append)
    with pytest.raises(SystemExit, match="Failed: unseen"):
        evidence.main([])
    assert began == ["unseen", "jigsaw_cases"]
    assert pages == [[]]
    said = capsys.readouterr().out
    assert "left out: benchmarks/evidence/nobody_wrote_this.py" in said
    assert "left out: no/such/data" in said
    assert "learning_curve: not begun" in said
    assert "all of them: about 8 hours" in said


def test_every_part_has_a_section_or_a_page_and_a_command_that_exists() -> None:
    sections = {section.file for section in results_page.SECTIONS}
    assert {part.name for part in evidence.PARTS} - sections == {"maps"}  # docs/maps.md
    for part in evidence.PARTS:
        module = importlib.import_module(part.command[0])
        assert callable(module.main)
    accuracy = {one.file for one in results_page.SECTIONS if "evidence" in one.command}
    assert accuracy == {part.name for part in evidence.PARTS} - {"maps"}
    assert f"{sum(part.minutes for part in evidence.PARTS) / 60:.0f} hours" in results_page.HEAD


def test_bfloat16_is_left_out_where_the_device_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = (part for part in evidence.PARTS if part.half_precision)
    monkeypatch.setattr(parts, "pick_precision", lambda *asked: "float32")
    assert part.absent == "a device that computes in bfloat16"
    monkeypatch.setattr(parts, "pick_precision", lambda *asked: "bfloat16")
    assert part.absent == ""


def test_a_watched_training_is_the_one_that_is_scored(cell, tmp_path: Path, monkeypatch) -> None:
    """The test slides are looked at after every epoch, and nothing else changes."""
    settings = {**SMALL, "members": 3, "patience": 2, "epochs": 4, "lr": 1e-2}
    monkeypatch.setattr(small_cohorts, "COMMON", settings)
    asked = dataclasses.replace(cell, variants={"default": settings})
    scored = holdout.run_cells([asked], tmp_path / "cells")["small"]["variants"]["default"]["each"][0]
    watched = small_cohorts.watch(asked, tmp_path / "watched")
    assert watched["kept"] == scored["kept"]
    assert watched["mil"] == scored["mil"]
    assert watched["test_auc"][watched["kept"] - 1] == pytest.approx(scored["auc"], abs=1e-4)
    assert small_cohorts.watch(asked, tmp_path / "watched") == watched
    found = small_cohorts.traces([watched, watched])
    assert found["best_minus_kept"]["mean"] >= 0


# --- presets


def test_presets_are_compared_within_cohorts() -> None:
    rng = np.random.default_rng(0)
    outcomes: dict[str, dict[str, Any]] = {}
    for kind, seeds in presets.SEEDS.items():
        outcomes[kind] = {}
        for seed in seeds:
            base = rng.uniform(0.5, 0.9)
            areas = {arm: base - 0.04 * (arm == "paper") + rng.normal(0, 0.001) for arm in presets.ARMS}
            variants = {arm: {"auc": area, "mil": [0.5, 0.1]} for arm, area in areas.items()}
            outcomes[kind][str(seed)] = {"variants": variants}
    rows = {row["arm"]: row for row in presets.rows_of(outcomes)}
    assert rows["paper"]["gain"]["verdict"] == "hurts"
    assert rows["paper"]["gain"]["p_holm"] < 0.01
    assert rows["ties exact"]["gain"]["verdict"] == "neutral"
    assert "gain" not in rows["default"]


def test_every_setting_in_which_the_presets_differ_has_an_arm() -> None:
    default, paper = Settings().flat(), Settings.preset("paper").flat()
    differ = {name for name in default if default[name] != paper[name]} - {"imposter_loss", "members", "method"}
    assert differ == {name for arm in presets.ARMS.values() for name in arm} - {"preset"}
    for arm in presets.ARMS.values():
        assert all(paper[name] == value for name, value in arm.items() if name != "preset")


def test_stopping_by_a_list_of_losses_is_that_of_a_training() -> None:
    """The rule of the benchmark keeps the epoch that a training with these losses keeps."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        losses = list(rng.uniform(0.5, 0.7, 30).round(2))
        config = TrainConfig(epochs=30, patience=4, margin=0.05)
        progress = Progress()
        for number, loss in enumerate(losses, start=1):
            if progress.stop(config):
                break
            better = loss < progress.best_loss - config.margin
            progress.epochs.append(Epoch(number, 0, 0, 0, loss, 0, 0))
            progress.best = number if better else progress.best
        assert selection_bias.stopped_at(losses, 4, 0.05) + 1 == progress.best


def test_only_the_rules_of_the_test_fold_look_at_it() -> None:
    trace = {"inner": [0.7, 0.5, 0.6, 0.8], "loss": [0.9, 0.8, 0.7, 0.4], "auc": [0.5, 0.6, 0.9, 0.7]}
    assert list(selection_bias.chosen(trace).values()) == [1, 3, 2, 3]
    blind = {**trace, "loss": trace["loss"][::-1], "auc": trace["auc"][::-1]}
    assert selection_bias.chosen(blind)[selection_bias.HONEST] == 1


def test_the_bias_is_paired_within_cohorts() -> None:
    rng = np.random.default_rng(0)
    cohorts = []
    for labels in selection_bias.LABELS:
        for slides in selection_bias.SIZES:
            for level in rng.uniform(0.3, 0.9, 4):
                trace = {"inner": [0.5, 0.6], "loss": [0.6, 0.5], "auc": [level, level + 0.1]}
                cohorts.append({"labels": labels, "slides": slides, "folds": [trace] * 3})
    for row in selection_bias.table(cohorts):
        gain = row.get("bias", {"mean": 0.0, "low": 0.0})
        assert gain["mean"] == pytest.approx(0.0 if row["rule"] == selection_bias.HONEST else 0.1)
        assert row["cohorts"] == (4 if row["slides"] else 8)


def ensemble_cohorts(**areas: float) -> dict[str, Any]:
    """Three cohorts of two kinds, whose folds have these AUROCs."""
    names = {"jigsaw": ensembles.JIGSAW, "five": f"{ensembles.JIGSAW} x 5", "committee": "committee"}
    names |= {"large": ensembles.LARGE, "stacked": ensembles.STACKED}
    return {
        f"cohort {i}": {
            "kind": "few slides" if i else "position",
            "auroc": {names[short]: [area + i / 1000] * 3 for short, area in areas.items()},
        }
        for i in range(3)
    }


@pytest.mark.parametrize(
    ("areas", "weights", "default"),
    [
        ({"jigsaw": 0.8, "five": 0.9, "committee": 0.903, "large": 0.9, "stacked": 0.9}, "large", "five"),
        ({"jigsaw": 0.8, "five": 0.9, "committee": 0.91, "large": 0.9, "stacked": 0.9}, "large", "committee"),
        ({"jigsaw": 0.899, "five": 0.9, "committee": 0.9, "large": 0.9, "stacked": 0.9}, "large", "jigsaw"),
        ({"jigsaw": 0.8, "five": 0.8, "committee": 0.8, "large": 0.9, "stacked": 0.95}, "stacked", "stacked"),
        ({"jigsaw": 0.8, "five": 0.8, "committee": 0.8, "large": 0.9, "stacked": 0.89}, "large", "large"),
    ],
)
def test_the_default_follows_its_declared_rules(areas: dict[str, float], weights: str, default: str) -> None:
    cohorts = ensemble_cohorts(**areas)
    found = ensembles.choose(cohorts, ensembles.judge(cohorts))
    names = {"large": ensembles.LARGE, "stacked": ensembles.STACKED, "jigsaw": ensembles.JIGSAW}
    names |= {"five": f"{ensembles.JIGSAW} x 5"}
    assert found["weights"] == names[weights]
    assert found["default"] == names.get(default, default)


def test_arms_of_choosing_are_made_of_the_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fold reports for a choice is the AUROC of the candidate it chose; the bias is the best of all."""
    monkeypatch.setattr(choosing, "SHAPE", {"slides": 18, "patches": 12, "dim": 16, "two_slides": 0.0})
    monkeypatch.setattr(choosing, "SETTINGS", Settings(method="graph-abmil", hidden=8, epochs=3, lr=0.01, device="cpu"))
    monkeypatch.setattr(choosing, "CHOICE", Choice(options={"conv": ["gat", "sage"]}, folds=2, repeats=1))
    run = choosing.run_cohort("composition", 5, tmp_path)
    found = choosing.judge(run)
    areas, names = found["auroc"], ["conv=gat", "conv=sage"]
    assert areas["default"] == areas["conv=gat"]
    choices = run.choices.set_index(["fold", "candidate"])
    for fold in range(choosing.FOLDS):
        own = choices.loc[fold]
        assert areas["chosen"][fold] == areas[own["chosen"].idxmax()][fold]
        assert areas["lowest inner loss"][fold] == areas[own["loss"].idxmin()][fold]
    assert np.mean(areas["best on test folds"]) == max(np.mean(areas[name]) for name in names)
    assert sum(found["chose"].values()) == sum(found["lowest"].values()) == choosing.FOLDS
    rows = choosing.table([{"kind": kind, **found} for kind in choosing.KINDS for _ in range(2)])
    values = {"rows": rows, "candidates": names, "kinds": choosing.KINDS, "shape": choosing.SHAPE, "method": "m"}
    cohorts = [{"kind": kind, "seed": seed, **found} for kind in choosing.KINDS for seed in range(2)]
    words = results_selection.choosing({**values, "cohorts": cohorts, "folds": 3, "inner": {"folds": 2, "repeats": 1}})
    assert f"| `conv=gat` (the default) | {6 * found['chose']['conv=gat']} |" in words[4]


def test_an_ensemble_costs_what_its_members_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(own: Settings) -> float:
        return 0.3 if own.needs_graph else 0.1

    def lacking(cohort: Any, epochs: int) -> Any:
        raise ImportError

    monkeypatch.setattr(ensemble, "fit_one", lambda own, cohort, epochs: {"first": 1.0, "later": later(own)})
    monkeypatch.setattr(ensemble, "fit_torchmil", lacking)
    rows = {row["name"]: row for row in ensemble.measure(None, 1)}
    assert rows["committee"]["later"] == pytest.approx(
        sum(map(later, Settings(method="committee", members=1).each_member()))
    )
    assert rows["committee"]["models"] == 5
    words = ensemble_time({"rows": list(rows.values()), "slides": 2, "patches": 9, "dim": 16, "epochs": 1})[1]
    assert "| `graph-abmil+jigsaw x 5` | 5 | 150 | 5.0 | 15.0 |" in words
    assert ensemble.times_of([0.0, 4.0, 6.0, 7.0, 9.0], 2) == {"first": 2.0, "later": 1.0}
