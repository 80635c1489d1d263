"""Tables hold what the jobs wrote, and only methods that are whole are judged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from jigsawmil.bags.formats import hdf5
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import ConfigError, LabelError, StudyError
from jigsawmil.study import executors
from jigsawmil.study.plan import plan
from jigsawmil.study.run import Run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study

StudyOf = Callable[..., Study]
Relabel = Callable[[Path, Callable[[pd.DataFrame], pd.DataFrame]], None]
Ran = Callable[..., tuple[Run, list[str]]]
TEXT = {"slide_id": str, "patient_id": str, "label": str}


# --- tables


def test_every_slide_has_one_prediction_a_method_and_seed(finished: tuple[Path, Run], phantom: Path) -> None:
    out, result = finished
    labels = pd.read_csv(phantom / "labels.csv", dtype=str).set_index("slide_id")
    table = pd.read_csv(out / "predictions.csv", dtype=TEXT)
    assert list(table) == ["variant", "fold", "seed", "slide_id", "patient_id", "label", "probability", "cohort"]
    for _, rows in table.groupby(["variant", "seed"]):
        assert sorted(rows["slide_id"]) == sorted(labels.index)
        assert (labels.loc[rows["slide_id"], "label"].to_numpy() == rows["label"]).all()
        assert (labels.loc[rows["slide_id"], "patient_id"].to_numpy() == rows["patient_id"]).all()
        assert (rows.groupby("patient_id")["fold"].nunique() == 1).all()
    assert table.groupby(["variant", "seed"]).ngroups == 4
    assert table["probability"].between(0, 1).all()
    pd.testing.assert_frame_equal(table, result.predictions, check_dtype=False)


def test_the_tables_hold_the_very_numbers_of_the_jobs(finished: tuple[Path, Run]) -> None:
    out, _ = finished
    gathered = (out / "predictions.csv").read_text().splitlines()[1:]
    jobs = [line for p in out.glob("jobs/**/predictions.csv") for line in p.read_text().splitlines()[1:]]
    assert sorted(line.split(",", 3)[3].removesuffix(",c") for line in gathered) == sorted(jobs)


def test_summary_and_comparisons_cover_every_method(finished: tuple[Path, Run]) -> None:
    out, result = finished
    summary = pd.read_csv(out / "summary.csv")
    assert list(summary)[:7] == ["variant", "folds", "auc_mean", "auc_std", "auc_oof", "auc_low", "auc_high"]
    assert summary["variant"].tolist() == ["abmil", "graph-abmil+jigsaw"]
    assert (summary["folds"] == 2).all()
    assert (summary["seeds"] == 2).all()
    assert (summary["positive"] == "tumour").all()
    pairs = pd.read_csv(out / "comparisons.csv")
    assert pairs[["variant_a", "variant_b"]].to_numpy().tolist() == [["abmil", "graph-abmil+jigsaw"]]
    assert not result.failed
    assert json.loads((out / "study.json").read_text())["classes"] == {"c": ["normal", "tumour"]}


def test_one_method_alone_has_a_summary_and_no_pair(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    result = cross_validate(study_of(phantom, ("abmil",)), tmp_path / "run")
    assert len(result.summary) == 1
    pairs = pd.read_csv(tmp_path / "run" / "comparisons.csv")  # a table, if an empty one
    assert len(pairs) == 0
    assert "delong_p" in pairs


def test_identifiers_stay_text(tmp_path: Path, own: Path, study_of: StudyOf, relabel: Relabel) -> None:
    """007 is not 7, and a patient called null is not missing."""
    ids = pd.read_csv(own / "labels.csv", dtype=str)["slide_id"].tolist()
    names = {old: f"{i:03}" for i, old in enumerate(ids)}
    for old, new in names.items():
        (own / "features" / f"{old}.h5").rename(own / "features" / f"{new}.h5")

    def rename(table: pd.DataFrame) -> pd.DataFrame:
        patients = table["patient_id"].replace(table["patient_id"].iloc[0], "null")
        return table.assign(slide_id=table["slide_id"].map(names), patient_id=patients)

    relabel(own, rename)
    result = cross_validate(study_of(own, ("abmil",)), tmp_path / "run")
    assert sorted(result.predictions["slide_id"]) == sorted(names.values())
    assert "null" in set(result.predictions["patient_id"])
    assert result.summary["slides"].item() == len(names)


# --- failures


@pytest.fixture
def broken(own: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A slide with NaN where no sample was taken, so that it is found in the jobs."""
    path = sorted((own / "features").iterdir())[2]
    with h5py.File(path, "a") as file:
        hdf5.unseal(file)
        file["features"][5, 0] = np.nan
    monkeypatch.setattr("jigsawmil.bags.survey.check_finite", lambda *_: None)
    return path


def test_a_job_that_fails_is_told_and_the_others_finish(
    tmp_path: Path, phantom: Path, own: Path, broken: Path, study_of: StudyOf, spec: Any, ran: Ran
) -> None:
    study = study_of(phantom, ("abmil",), cohorts={"bad": spec(own), "good": spec(phantom)})
    result, ended = ran(study, tmp_path / "run")
    assert len(ended) == 4
    assert sorted(result.failed) == [f"bad abmil seed 0 fold {fold}" for fold in range(2)]
    for why in result.failed.values():
        assert broken.name in why
        assert "Traceback" not in why
    assert set(result.predictions["cohort"]) == set(result.summary["cohort"]) == {"good"}
    assert json.loads((tmp_path / "run" / "study.json").read_text())["failed"] == result.failed
    assert not list((tmp_path / "run" / "jobs" / "bad").glob("**/*.*"))
    with h5py.File(broken, "a") as file:  # mended, the run goes on
        file["features"][5, 0] = 0.0
    result, ended = ran(study, tmp_path / "run")
    assert len(ended) == 2
    assert not result.failed


def test_a_method_that_diverges_does_not_spoil_the_other(tmp_path: Path, phantom: Path, small: Any, spec: Any) -> None:
    variants = {"wild": small("abmil", lr=1e30), "tame": small("abmil")}
    result = cross_validate(Study(cohorts={"c": spec(phantom)}, variants=variants, folds=2), tmp_path)
    assert len(result.failed) == 2
    assert all("diverged" in why for why in result.failed.values())
    assert result.summary["variant"].tolist() == ["tame"]


def test_only_methods_that_are_whole_are_judged(
    tmp_path: Path, phantom: Path, study_of: StudyOf, monkeypatch: Any
) -> None:
    """Two methods that lack different folds have the same number of jobs, and not the same slides."""
    run_job = executors.run_job

    def failing(job: Any, on_epoch: Any, worker: Any) -> None:
        if (job.variant, job.fold) in {("abmil", 0), ("graph-mil", 1)}:
            raise RuntimeError("out of luck")
        run_job(job, on_epoch, worker)

    monkeypatch.setattr(executors, "run_job", failing)
    study = study_of(phantom, ("abmil", "graph-mil", "graph-abmil"))
    result = cross_validate(study, tmp_path)
    assert result.summary["variant"].tolist() == ["graph-abmil"]
    assert len(result.comparisons) == 0
    assert result.predictions["variant"].value_counts()["graph-abmil"] == 12
    assert len(result.predictions) < 36
    assert "out of luck" in result.failed["c abmil seed 0 fold 0"]
    assert "Traceback" in result.failed["c abmil seed 0 fold 0"]  # our fault, not the input's

    with pytest.raises(
        StudyError,
        match=r"2 of 4 jobs failed, and no method has finished all folds.\nc abmil seed 0 "
        "fold",
    ):
        cross_validate(study_of(phantom, ("abmil", "graph-mil")), tmp_path)


def test_where_every_job_fails_each_reason_is_raised_once(
    tmp_path: Path, own: Path, broken: Path, study_of: StudyOf
) -> None:
    with pytest.raises(StudyError, match=rf"4 of 4 jobs failed.*\nc abmil seed 0 fold 0, .*fold 1:\n.*{broken.stem}"):
        cross_validate(study_of(own), tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[:-1], "5 cases, expected 6; missing or unknown"),
        (lambda rows: [*rows, rows[-1]], "7 rows for 6 cases"),
        (lambda rows: [*rows[:-1], rows[-1].rsplit(",", 1)[0] + ",nan"], "holds NaN or infinity"),
    ],
    ids=["lost", "twice", "nan"],
)
def test_a_job_whose_predictions_are_not_whole_is_no_result(
    tmp_path: Path, phantom: Path, study_of: StudyOf, change: Any, words: str
) -> None:
    study = study_of(phantom, ("abmil",))
    result = cross_validate(study, tmp_path)
    file = result.jobs[0].folder / "predictions.csv"
    file.write_text("\n".join(change(file.read_text().splitlines())) + "\n")
    with pytest.raises(StudyError, match=f"{words}.*Remove that folder and run again"):
        cross_validate(study, tmp_path)


def test_a_job_that_vanishes_is_told(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    def remove(event: Any) -> None:
        if event.ended and (event.job.variant, event.job.fold) == ("abmil", 0):
            shutil.rmtree(event.job.folder, ignore_errors=True)

    result = cross_validate(study_of(phantom), tmp_path, listen=remove)
    assert list(result.failed) == ["c abmil seed 0 fold 0"]
    assert "its folder is missing" in result.failed["c abmil seed 0 fold 0"]


# --- the control


def test_the_control_has_its_own_tables(tmp_path: Path, phantom: Path, study_of: StudyOf, ran: Ran) -> None:
    study = study_of(phantom, ("abmil", "graph-abmil"), shuffle_control=True, attention=True)
    result = cross_validate(study, tmp_path)
    for name in ("predictions.csv", "summary.csv", "comparisons.csv"):
        assert (tmp_path / name).is_file()
        assert (tmp_path / "control" / name).is_file()
    keys = ["variant", "fold", "seed", "slide_id"]
    both = result.predictions.merge(result.control, on=keys, suffixes=("", "_moved"), validate="1:1")
    assert len(both) == len(result.predictions) == 24
    gap = (both["probability"] - both["probability_moved"]).abs()
    assert gap[both["variant"] == "abmil"].max() < 1e-5  # sees no place, so cannot miss it
    assert gap[both["variant"] == "graph-abmil"].min() > 1e-6
    assert not list((tmp_path / "control").glob("**/attention.safetensors"))
    assert ran(study, tmp_path)[1] == []


# --- attention


def test_attention_is_kept_where_asked(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    result = cross_validate(study_of(phantom, ("graph-abmil",), attention=True), tmp_path)
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
    result = cross_validate(study_of(phantom, level="patient", attention=True), tmp_path)
    patients = pd.read_csv(phantom / "labels.csv", dtype=str)["patient_id"]
    for _, rows in result.predictions.groupby("variant"):
        assert sorted(rows["slide_id"]) == sorted(rows["patient_id"]) == sorted(patients.unique())
    assert (result.summary["patients"] == patients.nunique()).all()
    assert set(result.comparisons["level"]) == {"patient"}  # what the tables call a case
    maps = {}
    for path in tmp_path.glob("jobs/c/graph-mil/**/attention.safetensors"):
        maps |= load_file(path)
    assert len([name for name in maps if not name.endswith("/coords")]) == len(patients)  # still a map a slide
    twice = patients[patients.duplicated()].iloc[0]
    table = pd.read_csv(phantom / "labels.csv", dtype=str)
    slides = table.loc[table["patient_id"] == twice, "slide_id"]
    assert sum(maps[slide].sum() for slide in slides) == pytest.approx(1.0, abs=1e-5)  # shared by its slides


def test_a_patient_of_two_labels_is_no_bag(tmp_path: Path, own: Path, study_of: StudyOf, relabel: Relabel) -> None:
    table = pd.read_csv(own / "labels.csv", dtype=str)
    patient = table.loc[table["patient_id"].duplicated(), "patient_id"].iloc[0]
    row = table.index[table["patient_id"] == patient][0]
    other = {"normal": "tumour", "tumour": "normal"}
    relabel(own, lambda t: t.assign(label=t["label"].where(t.index != row, t["label"].map(other))))
    with pytest.raises(LabelError, match=rf"1 patients have slides of several labels: {patient}"):
        cross_validate(study_of(own, level="patient"), tmp_path / "run")
    assert len(plan(study_of(own), tmp_path / "run")[0]) == 4  # by slide it can be done


def test_one_study_has_one_level(phantom: Path, small: Any, spec: Any) -> None:
    """Slides and patients are other cases, and could not be compared when all is done."""
    variants = {"s": small("abmil"), "p": small("abmil", level="patient")}
    with pytest.raises(ConfigError, match=r"level: found \{'s': 'slide', 'p': 'patient'\}, expected one level for all"):
        Study(cohorts={"c": spec(phantom)}, variants=variants)


@pytest.mark.parametrize(("task", "level"), [("multiclass", "slide"), ("ordinal", "patient"), ("ordinal", "slide")])
def test_beyond_two_classes_there_is_a_column_a_class(
    tmp_path: Path, own: Path, study_of: StudyOf, spec: Any, task: str, level: str, relabel: Relabel
) -> None:
    names = {"multiclass": ["IDC", "ILC", "a_b"], "ordinal": ["0", "2", "10"]}[task]
    table = pd.read_csv(own / "labels.csv", dtype=str)
    number = {patient: i for i, patient in enumerate(table["patient_id"].unique())}
    relabel(own, lambda t: t.assign(label=[names[number[p] % 3] for p in t["patient_id"]]))
    cohorts = {"c": spec(own, ordinal=True if task == "ordinal" else None)}
    result = cross_validate(study_of(own, cohorts=cohorts, level=level), tmp_path / "run")
    table = pd.read_csv(tmp_path / "run" / "predictions.csv", dtype=TEXT)
    columns = [f"probability_{name}" for name in names]
    assert list(table)[-4:] == [*columns, "cohort"]
    assert "probability" not in table
    np.testing.assert_allclose(table[columns].sum(axis=1), 1.0, atol=1e-6)
    assert (table[columns] >= 0).all(axis=None)
    assert set(table["label"]) == set(names)
    assert result.summary["auc_oof"].between(0, 1).all()
    assert ("kappa" in " ".join(result.summary)) == (task == "ordinal")


def test_two_cohorts_in_one_study(
    tmp_path: Path, phantom: Path, own: Path, study_of: StudyOf, spec: Any, relabel: Relabel, ran: Ran
) -> None:
    ids = pd.read_csv(own / "labels.csv", dtype=str)["patient_id"].unique()[0]
    relabel(own, lambda t: t[t["patient_id"] != ids])  # the second one lacks a patient
    study = study_of(phantom, cohorts={"first": spec(phantom), "second": spec(own)})
    result = cross_validate(study, tmp_path / "run")
    for table in (result.predictions, result.summary, result.comparisons):
        assert set(table["cohort"]) == {"first", "second"}
    counts = result.predictions.groupby(["cohort", "variant"]).size()
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
