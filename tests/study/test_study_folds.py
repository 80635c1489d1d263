"""Folds are kept, never mixed with others, and never leak."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.split_files import write_clam
from jigsawmil.cohort.splits import Fold
from jigsawmil.errors import JigsawmilError, SplitError, StudyError
from jigsawmil.report.describe import study_toml
from jigsawmil.report.page import report_page
from jigsawmil.study.compare import compare_methods
from jigsawmil.study.plan import plan
from jigsawmil.study.run_folder import RunFolder
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study
from jigsawmil.study.study_file import read_study
from jigsawmil.train import fold as run

StudyOf = Callable[..., Study]
Relabel = Callable[[Path, Callable[[pd.DataFrame], pd.DataFrame]], None]


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


def test_nothing_is_written_where_one_of_several_cohorts_cannot_be_split(
    tmp_path: Path, phantom: Path, own: Path, study_of: StudyOf, spec: Any, relabel: Relabel
) -> None:
    relabel(own, lambda t: t.groupby("label").head(1))  # two slides for five folds
    study = study_of(phantom, cohorts={"good": spec(phantom), "bad": spec(own)}, folds=5)
    with pytest.raises(SplitError):
        plan(study, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("change", [{"folds": 3}, {"seeds": (1,)}, {"splits": True}])
def test_other_folds_are_refused(tmp_path: Path, phantom: Path, study_of: StudyOf, change: dict[str, Any]) -> None:
    plan(study_of(phantom, ("abmil",)), tmp_path / "run")
    if "splits" in change:
        plan(study_of(phantom, ("abmil",), seeds=(3,)), tmp_path / "other")
        change = {"splits": {"c": str(tmp_path / "other" / "folds.json")}}
    with pytest.raises(StudyError, match=r"folds\.json holds other folds than this study asks for.*another --out"):
        plan(study_of(phantom, ("abmil",), **change), tmp_path / "run")


def test_sites_stay_together_where_asked(
    tmp_path: Path, own: Path, study_of: StudyOf, spec: Any, relabel: Relabel
) -> None:
    with pytest.raises(JigsawmilError, match=r"the site of some slides is unknown. Name its column"):
        plan(study_of(own, by_site=True), tmp_path / "none")
    assert not (tmp_path / "none").exists()  # nothing is left of what cannot be
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


def test_hold_outs_of_other_tools_are_run_and_reported_as_what_they_are(
    tmp_path: Path, phantom: Path, study_of: StudyOf
) -> None:
    (jobs, cohorts) = plan(study_of(phantom, ("abmil",), folds=3), tmp_path / "folds")
    cohort, one = cohorts["c"], jobs[0].split
    other = Fold(train=one.test, test=one.train)
    write_clam([one, replace(other, train=one.test[1:]), jobs[1].split], tmp_path / "clam", *names(cohort))
    study = study_of(phantom, splits={"c": str(tmp_path / "clam")}, seeds=(3,))
    run = cross_validate(study, tmp_path / "run")
    assert set(run.predictions["fold"]) == {0, 1, 2}
    assert len(run.predictions) == 2 * sum(len(fold.test) for fold in (one, other, jobs[1].split))
    assert "3 test sets that share patients; 12 of 12 slides are tested" in run.notes["c"][0]
    page = report_page(run)
    assert "test is not computed, because it assumes independent cases" in page
    assert "averages several models, so it does not show the performance of one" in page
    training = run.training("c")
    assert training.groupby("fold")["slide_id"].nunique().to_dict() == {
        0: len(one.train), 1: len(one.test) - 1, 2: len(jobs[1].split.train)
    }  # fmt: skip
    again = compare_methods(run.predictions, training=training)
    assert again["t_p"].iloc[0] == run.comparisons["t_p"].iloc[0]
    (tmp_path / "again.toml").write_text(study_toml(run))
    assert plan(read_study(tmp_path / "again.toml"), tmp_path / "run")[0][0].done  # the same folds

    (tmp_path / "clam" / "splits_1.csv").unlink()
    (tmp_path / "clam" / "splits_2.csv").unlink()
    single = cross_validate(study_of(phantom, ("abmil",), splits={"c": str(tmp_path / "clam")}), tmp_path / "single")
    assert single.summary["design"].tolist() == ["hold-out"]
    assert len(single.predictions) == len(one.test)
    with pytest.raises(StudyError, match="choose a slide that they test"):
        single.jobs_of(one.train[0])
    (tmp_path / "single.toml").write_text(study_toml(single))
    assert plan(read_study(tmp_path / "single.toml"), tmp_path / "single")[0][0].done


def names(cohort: Cohort) -> tuple[list[str], list[str]]:
    return list(cohort.slide_ids), list(cohort.patients)


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
    table = cross_validate(study_of(phantom, ("abmil",), patience=patience), tmp_path).predictions
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


def test_predictions_do_not_depend_on_the_labels_of_the_test_fold(
    tmp_path: Path, own: Path, study_of: StudyOf, relabel: Relabel
) -> None:
    """The whole way, end to end: other labels for fold 0 leave what is predicted for fold 0 alone."""
    before = cross_validate(study_of(own, ("graph-abmil+jigsaw",)), tmp_path / "one").predictions
    tested = before.loc[before["fold"] == 0, "slide_id"].tolist()
    other = {"normal": "tumour", "tumour": "normal"}
    relabel(own, lambda t: t.assign(label=t["label"].where(~t["slide_id"].isin(tested), t["label"].map(other))))
    splits = {"c": str(tmp_path / "one" / "folds.json")}
    after = cross_validate(study_of(own, ("graph-abmil+jigsaw",), splits=splits), tmp_path / "two").predictions
    one, two = (t[t["fold"] == 0].set_index("slide_id") for t in (before, after))
    assert (one["label"] != two["label"]).all()
    assert (one["probability"] == two["probability"]).all()
    assert (before["probability"] != after["probability"])[before["fold"] != 0].all()


def test_folds_are_written_by_the_run_that_holds_the_folder(phantom: Path, tmp_path: Path, study_of: StudyOf) -> None:
    """Else another run that begins at the same moment has folds that are not those written down."""
    study = study_of(phantom, ("abmil",))
    with RunFolder(tmp_path).alone(), pytest.raises(StudyError, match="another run is writing there"):
        cross_validate(study, tmp_path)
    assert not list(tmp_path.glob("folds*"))
    with pytest.raises(SplitError):
        cross_validate(study_of(phantom, ("abmil",), folds=99), tmp_path / "none")
    assert not (tmp_path / "none").exists()  # what is impossible leaves nothing


def test_folds_of_one_cohort_are_not_written_where_those_of_another_are_refused(
    phantom: Path, tmp_path: Path, study_of: StudyOf, spec: Any
) -> None:
    study = study_of(phantom, ("abmil",), cohorts={"a": spec(phantom), "b": spec(phantom)})
    plan(study, tmp_path)
    (tmp_path / "folds-a-seed0.json").unlink()
    with pytest.raises(StudyError, match=r"folds-b-seed0\.json holds other folds"):
        plan(replace(study, folds=3), tmp_path)
    assert not (tmp_path / "folds-a-seed0.json").exists()
