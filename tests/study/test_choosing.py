"""Settings chosen inside the training patients of each fold."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jigsawmil.cohort.split_files import write_folds
from jigsawmil.cohort.splits import make_folds
from jigsawmil.errors import StudyError
from jigsawmil.report.describe import study_toml
from jigsawmil.report.page import report_page
from jigsawmil.study.run import Run
from jigsawmil.study.study import Study, with_choices
from jigsawmil.study.study_file import read_study
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.train.choice import Choice

LR = Choice(options={"lr": [1e-3, 1e-5]}, folds=2, repeats=1)


@pytest.fixture(scope="session")
def choosing(study_of: Callable[..., Study]) -> Callable[..., Study]:
    def make(folder: Path, choice: Choice = LR, *, default: bool = True, **options: Any) -> Study:
        study = study_of(folder, ("abmil",), **options)
        return replace(study, **with_choices(study.variants, {"abmil": choice}, default=default))

    return make


def files_of(run: Path) -> dict[str, bytes]:
    """What a run holds, without times and versions."""
    found = {str(p.relative_to(run)): p.read_bytes() for p in sorted(run.rglob("*")) if p.is_file()}
    found = {name: data for name, data in found.items() if not name.startswith(".") and "trace.csv" not in name}
    for name, data in found.items():
        if name.endswith("job.json"):
            record = json.loads(data)
            found[name] = json.dumps({**record, "seconds": None, "peak_mb": None}).encode()
        if name.endswith("choices.csv"):
            table = pd.read_csv(run / name, dtype=str).drop(columns="seconds")
            found[name] = table.to_csv().encode()
        if name.endswith("study.json"):  # with a digest of choices.csv, which is compared above without its seconds
            record = json.loads(data)
            found[name] = json.dumps({**record, "tables": {**record["tables"], "choices.csv": None}}).encode()
    return found


@pytest.fixture(scope="session")
def chosen(
    tmp_path_factory: pytest.TempPathFactory, phantom: Path, choosing: Any, ran: Any
) -> tuple[Path, Run, list[str]]:
    """A run in which `abmil, chosen` chooses its learning rate. Not to be changed."""
    out = tmp_path_factory.mktemp("chosen") / "run"
    return out, *ran(choosing(phantom), out)


def test_the_default_runs_beside_the_variant_that_chooses(chosen: tuple[Path, Run, list[str]]) -> None:
    _, run, ended = chosen
    assert run.variants == ("abmil", "abmil, chosen")
    assert len(ended) == 2 + 2 + 2 * 2 * 2  # both variants, and 2 folds x 2 candidates x 2 inner folds
    assert [name for name in ended if "try" not in name][-2:] == [f"c abmil, chosen seed 0 fold {f}" for f in (0, 1)]
    table = run.choices
    assert list(table["candidate"]) == ["lr=0.001", "lr=1e-05"] * 2
    assert list(table["default"]) == [1, 0] * 2
    assert (table.groupby("fold")["chosen"].sum() == 1).all()
    assert (table.loc[table["default"] == 1, "gain"] == 0).all()


def test_a_job_says_what_was_chosen_and_from_what(chosen: tuple[Path, Run, list[str]]) -> None:
    _, run, _ = chosen
    for job in run.jobs:
        if job.variant == "abmil":
            assert job.choice is None
            continue
        assert job.choice is not None
        rows = run.choices[run.choices["fold"] == job.fold]
        assert job.choice["chosen"] == rows.loc[rows["chosen"] == 1, "candidate"].item()
        assert [each["loss"] for each in job.choice["judged"]] == list(rows["loss"])
        assert job.settings["lr"] == float(job.choice["chosen"].removeprefix("lr="))
        card = json.loads((job.folder / "model.json").read_text())
        assert card["training"]["choice"] == job.choice


def test_inner_jobs_see_training_slides_only(chosen: tuple[Path, Run, list[str]]) -> None:
    out, run, _ = chosen
    tested = {fold: set(rows["slide_id"]) for fold, rows in run.predictions.groupby("fold")}
    for fold in (0, 1):
        seen = [pd.read_csv(file, dtype=str) for file in sorted(out.glob(f"choose/c/*/seed0-fold{fold}/*/*/*.csv"))
                if file.name == "predictions.csv"]  # fmt: skip
        assert len(seen) == 4
        slides = set(pd.concat(seen)["slide_id"])
        assert slides == set(run.slides["slide_id"]) - tested[fold]


@pytest.mark.parametrize("processes", [1, 2])
def test_deleted_inner_jobs_come_back_to_the_same_bytes(
    processes: int, chosen: tuple[Path, Run, list[str]], phantom: Path, choosing: Any, ran: Any, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(chosen[0], tmp_path / "run"))
    shutil.rmtree(out / "choose" / "c" / "abmil, chosen" / "seed0-fold1")
    _, ended = ran(choosing(phantom), out, processes=processes)
    assert len(ended) == 4
    ours, theirs = files_of(out), files_of(chosen[0])
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []


@pytest.fixture(scope="session")
def clear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 slides with a signal that is easy to learn. Not to be changed."""
    made = make_phantom("composition", slides=80, dim=16, patches=30, two_slides=0.0, seed=3, noise=0.1)
    return write_phantom(made, tmp_path_factory.mktemp("clear") / "cohort")


def test_labels_of_the_test_fold_change_no_choice(clear: Path, choosing: Any, ran: Any, tmp_path: Path) -> None:
    """The labels that fold 0 tests are turned round: whatever saw them would score the candidates otherwise."""
    cohort = Path(shutil.copytree(clear, tmp_path / "cohort"))
    table = pd.read_csv(cohort / "labels.csv", dtype=str)
    ids, patients, labels = (list(table[name]) for name in ("slide_id", "patient_id", "label"))
    folds = make_folds(ids, patients, labels, folds=2, seed=0)
    write_folds(folds, tmp_path / "folds.json", ids, patients, seed=None)
    choice = Choice(options={"epochs": [2, 6]}, folds=2, repeats=1)
    study = choosing(cohort, choice, splits={"c": str(tmp_path / "folds.json")}, default=False)
    before = ran(study, tmp_path / "before")[0].choices
    one, other = sorted(set(labels))
    turned = table["label"].map({one: other, other: one})
    tested = table["slide_id"].isin(folds[0].test)
    table.assign(label=table["label"].where(~tested, turned)).to_csv(cohort / "labels.csv", index=False)
    after = ran(study, tmp_path / "after")[0].choices
    for fold, same in ((0, True), (1, False)):  # fold 1 trains on the slides that were turned round
        ours, theirs = (found[found["fold"] == fold].drop(columns="seconds") for found in (before, after))
        assert ours.equals(theirs) == same


def test_a_failed_inner_job_leaves_its_fold_undecided(phantom: Path, choosing: Any, tmp_path: Path, ran: Any) -> None:
    choice = Choice(options={"lr": [1e-3, 1e30]}, folds=2, repeats=1)
    run, _ = ran(choosing(phantom, choice), tmp_path / "run")
    assert run.choices.empty
    assert set(run.summary["variant"]) == {"abmil"}
    undecided = [name for name, why in run.failed.items() if "no settings were chosen" in why]
    assert undecided == [f"c abmil, chosen seed 0 fold {fold}" for fold in (0, 1)]
    assert any("diverged" in why for why in run.failed.values())


def test_an_ensemble_of_the_chosen_settings(phantom: Path, choosing: Any, tmp_path: Path, ran: Any) -> None:
    run, ended = ran(choosing(phantom, members=2, default=False), tmp_path / "run")
    assert run.variants == ("abmil",)
    assert len([name for name in ended if "try" in name]) == 8  # single models choose
    assert sorted(job.member for job in run.jobs) == [0, 0, 1, 1]
    for fold in (0, 1):
        assert len({job.settings["lr"] for job in run.jobs if job.fold == fold}) == 1
    assert "logit_std" in run.predictions


def test_what_is_better_inside_the_training_patients_is_chosen(
    clear: Path, choosing: Any, tmp_path: Path, ran: Any
) -> None:
    """The default learns nothing; the models are trained with what was chosen instead."""
    choice = Choice(options={"lr": [1e-9, 3e-3]}, folds=2, repeats=1)
    run, _ = ran(choosing(clear, choice, lr=1e-9, epochs=15, default=False), tmp_path / "run")
    picked = run.choices[run.choices["chosen"] == 1]
    assert list(picked["candidate"]) == ["lr=0.003"] * 2
    assert (picked["gain"] > picked["error"]).all()
    assert {job.settings["lr"] for job in run.jobs} == {0.003}
    assert (run.summary["auc_mean"] > 0.9).all()


def test_the_control_chooses_by_itself(phantom: Path, choosing: Any, tmp_path: Path, ran: Any) -> None:
    run, ended = ran(choosing(phantom, shuffle_control=True), tmp_path / "run")
    assert len([name for name in ended if "try" in name and "shuffled" in name]) == 8
    assert (tmp_path / "run" / "control" / "choices.csv").is_file()
    assert set(run.choices["fold"]) == {0, 1}
    assert len(run.choices) == 4


def test_other_candidates_are_not_mixed_in(
    chosen: tuple[Path, Run, list[str]], phantom: Path, choosing: Any, ran: Any, tmp_path: Path
) -> None:
    """The same candidate with other settings is refused; a candidate that is new is only added."""
    out = Path(shutil.copytree(chosen[0], tmp_path / "run"))
    with pytest.raises(StudyError, match="epochs was 2, is 3"):
        ran(choosing(phantom, epochs=3), out)
    shutil.rmtree(out / "jobs")  # another candidate may be chosen now
    more = Choice(options={"lr": [1e-3, 1e-5, 1e-6]}, folds=2, repeats=1)
    run, ended = ran(choosing(phantom, more), out)
    assert len([name for name in ended if "try" in name]) == 4  # two inner folds of it in each of two folds
    assert list(run.choices["candidate"]) == ["lr=0.001", "lr=1e-05", "lr=1e-06"] * 2


def test_the_report_shows_the_choice_and_asks_for_it_again(
    chosen: tuple[Path, Run, list[str]], phantom: Path, choosing: Any, tmp_path: Path
) -> None:
    _, run, _ = chosen
    page = report_page(run)
    assert "What was chosen" in page
    assert "against abmil, which has the default settings" in page
    assert "Chosen in each fold: lr: 0.001, 1e-05" in page
    picked = run.choices[run.choices["chosen"] == 1]
    for name, times in picked["candidate"].value_counts().items():
        assert re.search(rf"{name}( \(the default\))? in {times}", page)
    (tmp_path / "study.toml").write_text(study_toml(run))
    again, ours = read_study(tmp_path / "study.toml"), choosing(phantom)
    assert (again.variants, again.choices) == (ours.variants, ours.choices)


def test_the_report_of_a_run_that_chose_nothing_is_silent(finished: tuple[Path, Run]) -> None:
    _, run = finished
    assert run.choices.empty
    assert "What was chosen" not in report_page(run)
