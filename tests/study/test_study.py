"""Studies: only what is missing is run, nothing is mixed, nothing leaks, and the tables hold what the jobs wrote."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.splits import Fold
from jigsawmil.errors import ConfigError, JigsawmilError, LabelError, SplitError, StudyError
from jigsawmil.study import executors, run
from jigsawmil.study.executors import Event
from jigsawmil.study.study import Result, Study, make_settings, plan, read_study, run_study

StudyOf = Callable[..., Study]
TEXT = {"slide_id": str, "patient_id": str, "label": str}


def job_files(out: Path) -> dict[str, int]:
    """All files of jobs with the time of their last change."""
    return {str(p.relative_to(out)): p.stat().st_mtime_ns for p in out.glob("**/jobs/**/*") if p.is_file()}


def contents(out: Path, pattern: str) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.glob(pattern))}


def ran(study: Study, out: Path, **options: Any) -> tuple[Result, list[str]]:
    """The result and the jobs that were run for it."""
    ended: list[str] = []

    def listen(event: Event) -> None:
        if event.ended:
            ended.append(event.job.name)

    return run_study(study, out, listen=listen, **options), ended


def relabel(folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    path = folder / "labels.csv"
    change(pd.read_csv(path, dtype=str)).to_csv(path, index=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, phantom: Path, study_of: StudyOf) -> tuple[Path, Result]:
    """A finished run of two methods and two seeds. Not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, run_study(study_of(phantom, ("abmil", "graph-abmil+jigsaw"), seeds=(0, 5)), out)


@pytest.fixture
def done(finished: tuple[Path, Result], tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished[0], tmp_path / "run"))


@pytest.fixture
def same(phantom: Path, study_of: StudyOf) -> Study:
    """The study that made it."""
    return study_of(phantom, ("abmil", "graph-abmil+jigsaw"), seeds=(0, 5))


# --- tables


def test_every_slide_has_one_prediction_a_method_and_seed(finished: tuple[Path, Result], phantom: Path) -> None:
    out, result = finished
    labels = pd.read_csv(phantom / "labels.csv", dtype=str).set_index("slide_id")
    table = pd.read_csv(out / "predictions.csv", dtype=TEXT)
    assert list(table) == ["method", "fold", "seed", "slide_id", "patient_id", "label", "probability"]
    for _, rows in table.groupby(["method", "seed"]):
        assert sorted(rows["slide_id"]) == sorted(labels.index)
        assert (labels.loc[rows["slide_id"], "label"].to_numpy() == rows["label"]).all()
        assert (labels.loc[rows["slide_id"], "patient_id"].to_numpy() == rows["patient_id"]).all()
        assert (rows.groupby("patient_id")["fold"].nunique() == 1).all()
    assert table.groupby(["method", "seed"]).ngroups == 4
    assert table["probability"].between(0, 1).all()
    pd.testing.assert_frame_equal(table, result.predictions, check_dtype=False)


def test_the_tables_hold_the_very_numbers_of_the_jobs(finished: tuple[Path, Result]) -> None:
    out, _ = finished
    gathered = (out / "predictions.csv").read_text().splitlines()[1:]
    jobs = [line for p in out.glob("jobs/**/predictions.csv") for line in p.read_text().splitlines()[1:]]
    assert sorted(line.split(",", 3)[3] for line in gathered) == sorted(jobs)


def test_summary_and_comparisons_cover_every_method(finished: tuple[Path, Result]) -> None:
    out, result = finished
    summary = pd.read_csv(out / "summary.csv")
    assert list(summary)[:7] == ["method", "folds", "auc_mean", "auc_std", "auc_oof", "auc_low", "auc_high"]
    assert summary["method"].tolist() == ["abmil", "graph-abmil+jigsaw"]
    assert (summary["folds"] == 2).all()
    assert (summary["seeds"] == 2).all()
    assert (summary["positive"] == "tumour").all()
    pairs = pd.read_csv(out / "comparisons.csv")
    assert pairs[["method_a", "method_b"]].to_numpy().tolist() == [["abmil", "graph-abmil+jigsaw"]]
    assert not result.failed
    assert json.loads((out / "study.json").read_text())["classes"] == {"c": ["normal", "tumour"]}


def test_one_method_alone_has_a_summary_and_no_pair(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    result = run_study(study_of(phantom, ("abmil",)), tmp_path / "run")
    assert len(result.summary) == 1
    pairs = pd.read_csv(tmp_path / "run" / "comparisons.csv")  # a table, if an empty one
    assert len(pairs) == 0
    assert "delong_p" in pairs


def test_identifiers_stay_text(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    """007 is not 7, and a patient called null is not missing."""
    ids = pd.read_csv(own / "labels.csv", dtype=str)["slide_id"].tolist()
    names = {old: f"{i:03}" for i, old in enumerate(ids)}
    for old, new in names.items():
        (own / "features" / f"{old}.h5").rename(own / "features" / f"{new}.h5")

    def rename(table: pd.DataFrame) -> pd.DataFrame:
        patients = table["patient_id"].replace(table["patient_id"].iloc[0], "null")
        return table.assign(slide_id=table["slide_id"].map(names), patient_id=patients)

    relabel(own, rename)
    result = run_study(study_of(own, ("abmil",)), tmp_path / "run")
    assert sorted(result.predictions["slide_id"]) == sorted(names.values())
    assert "null" in set(result.predictions["patient_id"])
    assert result.summary["slides"].item() == len(names)


# --- only what is missing


def test_running_again_does_nothing(done: Path, same: Study) -> None:
    before, tables = job_files(done), contents(done, "*.csv")
    result, ended = ran(same, done)
    assert ended == []
    assert job_files(done) == before
    assert contents(done, "*.csv") == tables
    assert len(result.predictions)


def test_a_job_that_was_removed_is_run_again_to_the_same_bytes(done: Path, same: Study) -> None:
    folder = done / "jobs" / "c" / "graph-abmil+jigsaw" / "seed5-fold1"
    before, times = contents(done, "jobs/**/*.*"), job_files(done)
    shutil.rmtree(folder)
    _, ended = ran(same, done)
    assert ended == ["c graph-abmil+jigsaw seed 5 fold 1"]
    after = contents(done, "jobs/**/*.*")
    for name in ("predictions.csv", "model.safetensors"):
        key = str((folder / name).relative_to(done))
        assert after[key] == before[key]
    rest = {name: time for name, time in times.items() if "seed5-fold1" not in name or "jigsaw" not in name}
    assert {name: time for name, time in job_files(done).items() if name in rest} == rest


def test_a_method_added_runs_alone(done: Path, phantom: Path, study_of: StudyOf) -> None:
    before = job_files(done)
    result, ended = ran(study_of(phantom, ("abmil", "graph-abmil+jigsaw", "graph-mil"), seeds=(0, 5)), done)
    assert len(ended) == 4
    assert all("graph-mil" in name for name in ended)
    assert before.items() <= job_files(done).items()
    assert len(result.comparisons) == 3


def test_a_seed_added_runs_alone(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    run_study(study_of(phantom, ("abmil",)), tmp_path)
    before, folds = job_files(tmp_path), (tmp_path / "folds.json").read_bytes()
    result, ended = ran(study_of(phantom, ("abmil",), seeds=(0, 1)), tmp_path)
    assert ended == [f"c abmil seed 1 fold {fold}" for fold in range(2)]
    assert before.items() <= job_files(tmp_path).items()
    assert (tmp_path / "folds.json").read_bytes() == folds
    assert result.summary["seeds"].item() == 2


def test_a_method_left_out_is_left_out_of_the_tables_only(done: Path, phantom: Path, study_of: StudyOf) -> None:
    before = job_files(done)
    result, ended = ran(study_of(phantom, ("abmil",), seeds=(0, 5)), done)
    assert ended == []
    assert set(result.predictions["method"]) == {"abmil"}
    assert job_files(done) == before


# --- nothing is mixed


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"k": 5}, "k was 4, is 5"),
        ({"lambda_": 0.5}, "lambda was 'em', is 0.5"),
        ({"lr": 0.01, "epochs": 3}, r"epochs was 2, is 3, lr was 0\.001, is 0\.01"),
        ({"attention": True}, "attention was not kept"),
    ],
)
def test_another_setting_is_refused_and_named(
    done: Path, phantom: Path, study_of: StudyOf, options: dict[str, Any], told: str
) -> None:
    before = job_files(done)
    other = study_of(phantom, ("abmil", "graph-abmil+jigsaw"), seeds=(0, 5), **options)
    with pytest.raises(StudyError, match=rf"holds results of other settings \({told}\).*another --out, or remove"):
        run_study(other, done)
    assert job_files(done) == before


def test_the_device_and_the_memory_may_change(done: Path, phantom: Path, study_of: StudyOf) -> None:
    """They say where and how, not what."""
    other = study_of(phantom, ("abmil", "graph-abmil+jigsaw"), seeds=(0, 5), device="cpu", memory_gb=1.0)
    assert ran(other, done)[1] == []


def test_other_labels_are_refused(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    run_study(study_of(own, ("abmil",)), tmp_path / "run")
    before = job_files(tmp_path / "run")
    table = pd.read_csv(own / "labels.csv", dtype=str)
    flipped = table["patient_id"] == table["patient_id"].iloc[0]
    other = {"normal": "tumour", "tumour": "normal"}
    relabel(own, lambda t: t.assign(label=t["label"].where(~flipped, t["label"].map(other))))
    with pytest.raises(StudyError, match="labels"):
        run_study(study_of(own, ("abmil",)), tmp_path / "run")
    assert job_files(tmp_path / "run") == before


def test_other_patients_and_class_names_are_refused_by_the_jobs(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    """Also where the folds would be the same."""
    splits = {"c": str(tmp_path / "folds.json")}
    run_study(study_of(own, ("abmil",)), tmp_path / "first")
    shutil.copy(tmp_path / "first" / "folds.json", tmp_path)
    run_study(study_of(own, ("abmil",), splits=splits), tmp_path / "run")
    relabel(own, lambda t: t.assign(label=t["label"].replace("tumour", "zebra")))
    with pytest.raises(StudyError, match="the cohort's slides, patients or labels were others"):
        run_study(study_of(own, ("abmil",), splits=splits), tmp_path / "run")


def test_nothing_is_kept_in_memory_from_one_study_to_the_next(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    """The files may have been mended in between."""
    study = study_of(own, ("abmil",))
    before = run_study(study, tmp_path / "one").predictions["probability"]
    for path in (own / "features").iterdir():
        with h5py.File(path, "a") as file:
            file["features"][...] = file["features"][...] + 1
    after = run_study(study, tmp_path / "two").predictions["probability"]
    assert (before != after).all()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"spec": 3}', '{"name": "x"}'])
def test_a_damaged_job_is_named(done: Path, same: Study, text: str) -> None:
    folder = done / "jobs" / "c" / "abmil" / "seed0-fold0"
    (folder / "job.json").write_text(text)
    with pytest.raises(StudyError, match=r"seed0-fold0: job\.json is damaged .*Remove that folder"):
        run_study(same, done)


def test_a_job_without_its_predictions_is_named(done: Path, same: Study) -> None:
    (done / "jobs" / "c" / "abmil" / "seed0-fold0" / "predictions.csv").unlink()
    with pytest.raises(StudyError, match=r"seed0-fold0: predictions\.csv is damaged .*Remove that folder"):
        run_study(same, done)


def test_a_folder_with_files_of_no_job_is_not_overwritten(done: Path, same: Study) -> None:
    folder = done / "jobs" / "c" / "abmil" / "seed0-fold0"
    (folder / "job.json").unlink()
    kept = contents(folder, "*")
    result, _ = ran(same, done)
    assert "is not empty" in result.failed["c abmil seed 0 fold 0"]
    assert contents(folder, "*") == kept


@pytest.mark.parametrize("where", ["a file", "below a file"])
def test_a_place_that_cannot_be_written_is_refused(
    tmp_path: Path, phantom: Path, study_of: StudyOf, where: str
) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" if where == "a file" else tmp_path / "file" / "run"
    with pytest.raises(StudyError, match=r"cannot be written .*Choose another --out"):
        run_study(study_of(phantom), out)


# --- folds


def test_folds_are_saved_and_can_be_used_by_another_study(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    def splits(out: str, **options: Any) -> list[Fold]:
        return [job.split for job in plan(study_of(phantom, ("abmil",), **options), tmp_path / out)[0]]

    one = splits("one")
    kept = {"c": str(tmp_path / "one" / "folds.json")}
    assert splits("one") == one
    assert splits("two", seeds=(9,), splits=kept) == one
    assert splits("three", seeds=(9,)) != one
    assert json.loads((tmp_path / "two" / "folds.json").read_text())["seed"] is None  # no seed made them
    assert json.loads((tmp_path / "one" / "folds.json").read_text())["seed"] == 0


@pytest.mark.parametrize("change", [{"folds": 3}, {"seeds": (1,)}, {"splits": True}])
def test_other_folds_are_refused(tmp_path: Path, phantom: Path, study_of: StudyOf, change: dict[str, Any]) -> None:
    plan(study_of(phantom, ("abmil",)), tmp_path / "run")
    if "splits" in change:
        plan(study_of(phantom, ("abmil",), seeds=(3,)), tmp_path / "other")
        change = {"splits": {"c": str(tmp_path / "other" / "folds.json")}}
    with pytest.raises(StudyError, match=r"folds\.json holds other folds than this study asks for.*another --out"):
        plan(study_of(phantom, ("abmil",), **change), tmp_path / "run")


def test_sites_stay_together_where_asked(tmp_path: Path, own: Path, study_of: StudyOf, spec: Any) -> None:
    with pytest.raises(JigsawmilError, match=r"the site of some slides is unknown. Name its column"):
        plan(study_of(own, by_site=True), tmp_path / "none")
    sites = {}

    def add(table: pd.DataFrame) -> pd.DataFrame:
        for number, patient in enumerate(table.sort_values("label")["patient_id"].unique()):
            sites[patient] = f"S{number % 6}"
        return table.assign(site=table["patient_id"].map(sites))

    relabel(own, add)
    cohorts = {"c": spec(own, site_column="site")}
    jobs, cohort = plan(study_of(own, ("abmil",), cohorts=cohorts, by_site=True), tmp_path / "run")
    site_of = dict(zip(cohort["c"].slide_ids, cohort["c"].sites, strict=True))
    for job in jobs:
        assert not {site_of[s] for s in job.split.train} & {site_of[s] for s in job.split.test}
    with pytest.raises(StudyError, match="holds other folds"):  # and turning it off is noticed
        plan(study_of(own, ("abmil",), cohorts=cohorts), tmp_path / "run")


def test_a_split_that_leaks_is_refused(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    plan(study_of(phantom, ("abmil",)), tmp_path / "run")
    path = tmp_path / "run" / "folds.json"
    folds = json.loads(path.read_text())
    patient, slides = next((p, s) for p, s in folds["folds"][0]["test"].items() if len(s) == 2)
    folds["folds"][0]["train"][patient] = [folds["folds"][0]["test"][patient].pop()]
    (tmp_path / "leak.json").write_text(json.dumps(folds))
    with pytest.raises(SplitError, match=patient):
        plan(study_of(phantom, ("abmil",), splits={"c": str(tmp_path / "leak.json")}), tmp_path / "other")
    assert len(slides) == 1


@pytest.mark.parametrize("patience", [0, 1])
def test_the_test_fold_is_never_seen(
    tmp_path: Path, phantom: Path, study_of: StudyOf, monkeypatch: Any, patience: int
) -> None:
    """What is fitted to and what is watched, recorded where the loop receives it."""
    seen: list[tuple[set[str], set[str], set[str], set[str]]] = []
    fit = run.fit

    def recording(model: Any, feed: Any, train: list[int], validation: list[int], *args: Any, **options: Any) -> Any:
        def of(bags: list[int], column: Any) -> set[str]:
            return {str(column[slide]) for bag in bags for slide in feed.members[bag]}

        ids, patients = feed.cohort.slide_ids, feed.cohort.patients
        seen.append((of(train, ids), of(validation, ids), of(train, patients), of(validation, patients)))
        return fit(model, feed, train, validation, *args, **options)

    monkeypatch.setattr(run, "fit", recording)
    table = run_study(study_of(phantom, ("abmil",), patience=patience), tmp_path).predictions
    everyone = set(table["slide_id"])
    assert len(seen) == 2
    for fold, (train, val, train_patients, val_patients) in enumerate(seen):
        test = set(table.loc[table["fold"] == fold, "slide_id"])
        test_patients = set(table.loc[table["fold"] == fold, "patient_id"])
        assert train | val | test == everyone
        assert len(train) + len(val) + len(test) == len(everyone)
        assert not train_patients & val_patients
        assert not (train_patients | val_patients) & test_patients
        assert bool(val) == bool(patience)


def test_predictions_do_not_depend_on_the_labels_of_the_test_fold(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    """The whole way, end to end: other labels for fold 0 leave what is predicted for fold 0 alone."""
    before = run_study(study_of(own, ("graph-abmil+jigsaw",)), tmp_path / "one").predictions
    tested = before.loc[before["fold"] == 0, "slide_id"].tolist()
    other = {"normal": "tumour", "tumour": "normal"}
    relabel(own, lambda t: t.assign(label=t["label"].where(~t["slide_id"].isin(tested), t["label"].map(other))))
    splits = {"c": str(tmp_path / "one" / "folds.json")}
    after = run_study(study_of(own, ("graph-abmil+jigsaw",), splits=splits), tmp_path / "two").predictions
    one, two = (t[t["fold"] == 0].set_index("slide_id") for t in (before, after))
    assert (one["label"] != two["label"]).all()
    assert (one["probability"] == two["probability"]).all()
    assert (before["probability"] != after["probability"])[before["fold"] != 0].all()


# --- failures


def break_slide(folder: Path) -> str:
    path = sorted((folder / "features").iterdir())[2]
    with h5py.File(path, "a") as file:
        file["features"][0, 0] = np.nan
    return path.stem


def test_a_job_that_fails_is_told_and_the_others_finish(
    tmp_path: Path, phantom: Path, own: Path, study_of: StudyOf, spec: Any
) -> None:
    slide = break_slide(own)
    study = study_of(phantom, ("abmil",), cohorts={"bad": spec(own), "good": spec(phantom)})
    result, ended = ran(study, tmp_path / "run")
    assert len(ended) == 4
    assert sorted(result.failed) == [f"bad abmil seed 0 fold {fold}" for fold in range(2)]
    for why in result.failed.values():
        assert slide in why
        assert "Traceback" not in why
    assert set(result.predictions["cohort"]) == set(result.summary["cohort"]) == {"good"}
    assert json.loads((tmp_path / "run" / "study.json").read_text())["failed"] == result.failed
    assert not list((tmp_path / "run" / "jobs" / "bad").glob("**/*.*"))
    with h5py.File(own / "features" / f"{slide}.h5", "a") as file:  # mended, the run goes on
        file["features"][0, 0] = 0.0
    result, ended = ran(study, tmp_path / "run")
    assert len(ended) == 2
    assert not result.failed


def test_a_method_that_diverges_does_not_spoil_the_other(tmp_path: Path, phantom: Path, small: Any, spec: Any) -> None:
    variants = {"wild": small("abmil", lr=1e30), "tame": small("abmil")}
    result = run_study(Study(cohorts={"c": spec(phantom)}, variants=variants, folds=2), tmp_path)
    assert len(result.failed) == 2
    assert all("diverged" in why for why in result.failed.values())
    assert result.summary["method"].tolist() == ["tame"]


def test_only_methods_that_are_whole_are_judged(
    tmp_path: Path, phantom: Path, study_of: StudyOf, monkeypatch: Any
) -> None:
    """Two methods that lack different folds have the same number of jobs, and not the same slides."""
    run_job = executors.run_job

    def failing(job: Any, on_epoch: Any = None) -> None:
        if (job.variant, job.fold) in {("abmil", 0), ("graph-mil", 1)}:
            raise RuntimeError("out of luck")
        run_job(job, on_epoch)

    monkeypatch.setattr(executors, "run_job", failing)
    study = study_of(phantom, ("abmil", "graph-mil", "graph-abmil"))
    result = run_study(study, tmp_path)
    assert result.summary["method"].tolist() == ["graph-abmil"]
    assert len(result.comparisons) == 0
    assert result.predictions["method"].value_counts()["graph-abmil"] == 12
    assert len(result.predictions) < 36
    assert "out of luck" in result.failed["c abmil seed 0 fold 0"]
    assert "Traceback" in result.failed["c abmil seed 0 fold 0"]  # our fault, not the input's

    with pytest.raises(StudyError, match=r"2 of 4 jobs failed, and no method is whole; the first, c abmil seed 0 fold"):
        run_study(study_of(phantom, ("abmil", "graph-mil")), tmp_path)


def test_where_every_job_fails_the_first_reason_is_raised(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    slide = break_slide(own)
    with pytest.raises(StudyError, match=rf"4 of 4 jobs failed.*the first, c abmil seed 0 fold 0:\n.*{slide}"):
        run_study(study_of(own), tmp_path / "run")


# --- the control


def test_the_control_has_its_own_tables(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    study = study_of(phantom, ("abmil", "graph-abmil"), shuffle_control=True, attention=True)
    result = run_study(study, tmp_path)
    for name in ("predictions.csv", "summary.csv", "comparisons.csv"):
        assert (tmp_path / name).is_file()
        assert (tmp_path / "control" / name).is_file()
    keys = ["method", "fold", "seed", "slide_id"]
    both = result.predictions.merge(result.control, on=keys, suffixes=("", "_moved"), validate="1:1")
    assert len(both) == len(result.predictions) == 24
    gap = (both["probability"] - both["probability_moved"]).abs()
    assert gap[both["method"] == "abmil"].max() < 1e-5  # sees no place, so cannot miss it
    assert gap[both["method"] == "graph-abmil"].min() > 1e-6
    assert not list((tmp_path / "control").glob("**/attention.safetensors"))
    assert ran(study, tmp_path)[1] == []


# --- attention


def test_attention_is_kept_where_asked(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    result = run_study(study_of(phantom, ("graph-abmil",), attention=True), tmp_path)
    cohort = Cohort.read(phantom / "labels.csv", phantom / "features")
    found = {}
    for path in tmp_path.glob("jobs/**/attention.safetensors"):
        found |= load_file(path)
    assert {name for name in found if not name.endswith("/coords")} == set(result.predictions["slide_id"])
    for i, slide in enumerate(cohort.slide_ids):
        assert found[slide].sum() == pytest.approx(1.0, abs=1e-5)
        assert np.array_equal(found[f"{slide}/coords"], cohort.bag(i).coords.numpy())


# --- levels and tasks


def test_a_bag_may_be_a_patient(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    result = run_study(study_of(phantom, level="patient", attention=True), tmp_path)
    patients = pd.read_csv(phantom / "labels.csv", dtype=str)["patient_id"]
    for _, rows in result.predictions.groupby("method"):
        assert sorted(rows["slide_id"]) == sorted(rows["patient_id"]) == sorted(patients.unique())
    assert (result.summary["patients"] == patients.nunique()).all()
    maps = {}
    for path in tmp_path.glob("jobs/c/graph-mil/**/attention.safetensors"):
        maps |= load_file(path)
    assert len([name for name in maps if not name.endswith("/coords")]) == len(patients)  # still a map a slide
    twice = patients[patients.duplicated()].iloc[0]
    table = pd.read_csv(phantom / "labels.csv", dtype=str)
    slides = table.loc[table["patient_id"] == twice, "slide_id"]
    assert sum(maps[slide].sum() for slide in slides) == pytest.approx(1.0, abs=1e-5)  # shared by its slides


def test_a_patient_of_two_labels_is_no_bag(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    table = pd.read_csv(own / "labels.csv", dtype=str)
    patient = table.loc[table["patient_id"].duplicated(), "patient_id"].iloc[0]
    row = table.index[table["patient_id"] == patient][0]
    other = {"normal": "tumour", "tumour": "normal"}
    relabel(own, lambda t: t.assign(label=t["label"].where(t.index != row, t["label"].map(other))))
    with pytest.raises(LabelError, match=rf"1 patients have slides of several labels: {patient}"):
        run_study(study_of(own, level="patient"), tmp_path / "run")
    assert len(plan(study_of(own), tmp_path / "run")[0]) == 4  # by slide it can be done


def test_one_study_has_one_level(phantom: Path, small: Any, spec: Any) -> None:
    """Slides and patients are other cases, and could not be compared when all is done."""
    variants = {"s": small("abmil"), "p": small("abmil", level="patient")}
    with pytest.raises(ConfigError, match=r"level: found \{'s': 'slide', 'p': 'patient'\}, expected one level for all"):
        Study(cohorts={"c": spec(phantom)}, variants=variants)


@pytest.mark.parametrize(("task", "level"), [("multiclass", "slide"), ("ordinal", "patient"), ("ordinal", "slide")])
def test_beyond_two_classes_there_is_a_column_a_class(
    tmp_path: Path, own: Path, study_of: StudyOf, spec: Any, task: str, level: str
) -> None:
    names = {"multiclass": ["IDC", "ILC", "a_b"], "ordinal": ["0", "2", "10"]}[task]
    table = pd.read_csv(own / "labels.csv", dtype=str)
    number = {patient: i for i, patient in enumerate(table["patient_id"].unique())}
    relabel(own, lambda t: t.assign(label=[names[number[p] % 3] for p in t["patient_id"]]))
    cohorts = {"c": spec(own, ordinal=True if task == "ordinal" else None)}
    result = run_study(study_of(own, cohorts=cohorts, level=level), tmp_path / "run")
    table = pd.read_csv(tmp_path / "run" / "predictions.csv", dtype=TEXT)
    columns = [f"probability_{name}" for name in names]
    assert list(table)[-3:] == columns
    assert "probability" not in table
    np.testing.assert_allclose(table[columns].sum(axis=1), 1.0, atol=1e-6)
    assert (table[columns] >= 0).all(axis=None)
    assert set(table["label"]) == set(names)
    assert result.summary["auc_oof"].between(0, 1).all()
    assert ("kappa" in " ".join(result.summary)) == (task == "ordinal")


def test_two_cohorts_in_one_study(tmp_path: Path, phantom: Path, own: Path, study_of: StudyOf, spec: Any) -> None:
    ids = pd.read_csv(own / "labels.csv", dtype=str)["patient_id"].unique()[0]
    relabel(own, lambda t: t[t["patient_id"] != ids])  # the second one lacks a patient
    study = study_of(phantom, cohorts={"first": spec(phantom), "second": spec(own)})
    result = run_study(study, tmp_path / "run")
    for table in (result.predictions, result.summary, result.comparisons):
        assert set(table["cohort"]) == {"first", "second"}
    counts = result.predictions.groupby(["cohort", "method"]).size()
    assert counts["first"].tolist() == [12, 12]
    assert counts["second"].nunique() == 1
    assert counts["second"].iloc[0] < 12
    assert {p.name for p in (tmp_path / "run").glob("folds*")} == {
        "folds-first-seed0.json",
        "folds-second-seed0.json",
    }
    left_out = pd.read_csv(tmp_path / "run" / "left_out.csv", dtype=str)
    assert set(left_out["cohort"]) == {"second"}  # features without a label are not dropped in silence
    assert ran(study, tmp_path / "run")[1] == []


# --- the file


TOML = """
folds = 4
seeds = [3, 1]
shuffle_control = true
memory_gb = 1

[cohorts.one]
labels = "data/labels.csv"
features = "data/features"
splits = "data/folds.json"

[cohorts.two]
labels = "/abs/labels.tsv"
features = "../features"
label_column = "subtype"
mpp = 1

[defaults]
epochs = 7
lambda = "balanced"

[variants.abmil]
[variants."k 20"]
method = "graph-abmil+jigsaw"
k = 20
lambda = 0.5
"""


def write(folder: Path, text: str) -> Path:
    (folder / "s.toml").write_text(text)
    return folder / "s.toml"


def test_a_file_becomes_a_study_with_paths_relative_to_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir("/")
    study = read_study(write(tmp_path, TOML))
    one, two = study.cohorts["one"], study.cohorts["two"]
    assert (one.labels, one.features) == (str(tmp_path / "data/labels.csv"), str(tmp_path / "data/features"))
    assert (two.labels, Path(two.features).resolve()) == ("/abs/labels.tsv", tmp_path.parent / "features")
    assert dict(two.options) == {"label_column": "subtype", "mpp": 1}
    assert study.splits == {"one": str(tmp_path / "data/folds.json")}
    assert (study.folds, study.seeds, study.shuffle_control, study.memory_gb) == (4, (3, 1), True, 1)
    assert study.variants == {
        "abmil": make_settings({"method": "abmil", "epochs": 7, "lambda": "balanced"}),
        "k 20": make_settings({"method": "graph-abmil+jigsaw", "epochs": 7, "k": 20, "lambda": 0.5}),
    }


def test_a_study_from_a_file_runs(tmp_path: Path, own: Path) -> None:
    small = "hidden = 16\nattention_dim = 8\nepochs = 1\nk = 4\n"
    text = f'[cohorts.c]\nlabels = "own/labels.csv"\nfeatures = "own/features"\n[defaults]\n{small}[variants.abmil]\n'
    assert len(run_study(read_study(write(tmp_path, text)), tmp_path / "run").predictions) == 12


GOOD = '[cohorts.c]\nlabels = "l.csv"\nfeatures = "f"\n[variants.abmil]\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fold = 3\n" + GOOD, "s.toml: key: found 'fold', .*Did you mean 'folds'"),
        (GOOD.replace("labels =", "label ="), "s.toml: cohorts.c: key: found 'label', .*Did you mean 'labels'"),
        (GOOD + "hiden = 3", "s.toml: variants.abmil: key: found 'hiden', .*Did you mean 'hidden'"),
        (GOOD + "lamda = 3", "variants.abmil: key: found 'lamda', .*Did you mean 'lambda'"),
        (GOOD + "k_ = 3", "variants.abmil: key: found 'k_', .*Did you mean 'k'"),
        (GOOD + "[defaults]\nepoch = 3", "s.toml: defaults: key: found 'epoch', .*Did you mean 'epochs'"),
        (GOOD.replace("abmil", "abml"), "s.toml: variants.abml: method: found 'abml', .*Did you mean 'abmil'"),
        (GOOD + 'k = "5"', "s.toml: variants.abmil: k: found '5', expected a whole number"),
        (GOOD + "k = 5.5", "variants.abmil: k: found 5.5, expected a whole number"),
        (GOOD + "lr = true", "variants.abmil: lr: found True, expected a number"),
        (GOOD + "lambda = true", "variants.abmil: lambda: found True, expected text or a number"),
        (GOOD + "lambda = 'emm'", "variants.abmil: lambda: found 'emm', .*Did you mean 'em'"),
        (GOOD + "gated = 1", "variants.abmil: gated: found 1, expected true or false"),
        ('folds = "3"\n' + GOOD, "s.toml: folds: found '3', expected a whole number"),
        ("folds = 1\n" + GOOD, "s.toml: folds: found 1, expected a whole number of at least 2"),
        ("seeds = 3\n" + GOOD, r"s.toml: seeds: found 3, expected a list such as \[0, 1\]"),
        ("seeds = []\n" + GOOD, "seeds: found .*expected distinct whole numbers"),
        ("seeds = [1, 1]\n" + GOOD, "seeds: found .*expected distinct whole numbers"),
        ("seeds = [-1]\n" + GOOD, "seeds: found .*of at least 0"),
        ('seeds = ["a"]\n' + GOOD, "seeds: found .*expected distinct whole numbers"),
        ("seeds = [true]\n" + GOOD, "seeds: found .*expected distinct whole numbers"),
        ('by_site = "yes"\n' + GOOD, "by_site: found 'yes', expected true or false"),
        ('memory_gb = "4"\n' + GOOD, "memory_gb: found '4', expected a number"),
        ("memory_gb = -1\n" + GOOD, "memory_gb: found -1, expected a number of at least 0"),
        (GOOD.replace('"l.csv"', "3"), "cohorts.c: labels: found 3, expected text"),
        (GOOD.replace('"f"', '"f"\nmpp = "0.5"'), "cohorts.c: mpp: found '0.5', expected a number"),
        (GOOD.replace('"f"', '"f"\nordinal = 1'), "cohorts.c: ordinal: found 1, expected true or false"),
        (GOOD.replace('"f"', '"f"\npositive = 1'), "cohorts.c: positive: found 1, expected text"),
        (GOOD.replace('labels = "l.csv"\n', ""), "cohorts.c: no labels; expected a label table and a folder"),
        ("cohorts = 3\n[variants.abmil]", "s.toml: cohorts: found 3, expected a table"),
        ('variants = "abmil"\n' + GOOD.split("[variants")[0], "variants: found 'abmil', expected a table"),
        ("[cohorts]\nc = 3\n[variants.abmil]", "cohorts.c: found 3, expected a table"),
        ("[variants.abmil]", r"cohorts: found \[\], expected at least one"),
        (GOOD.split("[variants")[0], r"variants: found \[\], expected at least one"),
        (GOOD.replace("cohorts.c", 'cohorts."../c"'), "name: found '../c', expected one that can be a folder's"),
        (GOOD + '[variants."a/b"]\nmethod = "abmil"', "name: found 'a/b'"),
        ("folds = ", "s.toml: not a TOML file"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_study(write(tmp_path, text))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read \(No such file"):
        read_study(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_study(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not a TOML file"):
        read_study(tmp_path / "b.toml")


# --- memory


def test_processes_share_the_memory(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    study = study_of(phantom, memory_gb=3.0)
    assert {job.memory_gb for job in plan(study, tmp_path)[0]} == {3.0}
    assert {job.memory_gb for job in plan(study, tmp_path, processes=2)[0]} == {1.5}


def test_methods_without_a_graph_use_the_slides_of_those_with_one(
    tmp_path: Path, phantom: Path, study_of: StudyOf, monkeypatch: Any
) -> None:
    reads: list[str] = []
    read = Cohort.read.__func__  # type: ignore[attr-defined]

    def counting(cls: type[Cohort], *args: Any, **options: Any) -> Cohort:
        cohort = read(cls, *args, **options)
        inner = cohort.read_slide
        return replace(cohort, read_slide=lambda slide: reads.append(slide.slide_id) or inner(slide))

    monkeypatch.setattr(Cohort, "read", classmethod(counting))
    with_graph = run_study(study_of(phantom, ("abmil", "graph-mil")), tmp_path / "both").predictions
    assert sorted(reads) == sorted(set(reads))  # four jobs, each slide read once
    alone = run_study(study_of(phantom, ("abmil",)), tmp_path / "alone").predictions
    mine = with_graph[with_graph["method"] == "abmil"]
    assert (mine["probability"].to_numpy() == alone["probability"].to_numpy()).all()  # the company changes nothing


def test_the_global_generators_are_left_alone(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    run_study(study_of(phantom, ("graph-abmil+jigsaw",), dropout=0.5), tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == numbers).all()  # noqa: NPY002
