"""A run of survival, of measured values and of several targets goes every way that one of classes goes: resuming,
patients as bags, a committee, a choice of settings, maps and the viewer."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jigsawmil.study.run import Run, open_run
from jigsawmil.study.study import Study, cohort_spec, with_choices
from jigsawmil.tasks import get_task
from jigsawmil.train.choice import Choice
from jigsawmil.viewer.data import Key, Library

from ..fixtures.outcomes import COLUMNS

TASKS = list(COLUMNS)


@pytest.fixture(scope="module")
def study(outcome_options: Callable[[str], dict[str, Any]], small: Callable[..., Any]) -> Study:
    """One cohort per task; all slides of a patient are one bag."""
    variants = {name: small(name, level="patient", epochs=1) for name in ("committee", "abmil")}
    variants["committee"] = variants["committee"].replace(members=1)
    choices = {"abmil": Choice(options={"lr": [1e-3, 1e-2]}, folds=2, repeats=1)}
    cohorts = {task: cohort_spec(outcome_options(task)) for task in TASKS}
    return Study(cohorts=cohorts, folds=2, **with_choices(variants, choices, default=False))


@pytest.fixture(scope="module")
def run(study: Study, ran: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Not to be changed."""
    found, ended = ran(study, tmp_path_factory.mktemp("outcomes") / "run")
    assert not found.failed
    assert len(ended) == 3 * 2 * (5 + 1 + 2 * 2)  # tasks x folds x (kinds + 1 + candidates x inner folds)
    return found


@pytest.mark.parametrize("task", TASKS)
def test_patients_are_predicted_by_a_committee_and_by_chosen_settings(run: Run, task: str) -> None:
    slides = run.slides[run.slides["cohort"] == task]
    patients = set(slides["patient_id"])
    assert len(patients) < len(slides)
    table = run.predictions[run.predictions["cohort"] == task]
    for variant in ("committee", "abmil"):
        assert set(table.loc[table["variant"] == variant, "slide_id"]) == patients
    assert set(run.choices.loc[run.choices["cohort"] == task, "candidate"]) == {"lr=0.001", "lr=0.01"}
    name = get_task(task).measure.pooled
    assert np.isfinite(run.summary.loc[run.summary["cohort"] == task, name].astype(float)).all()


def test_what_was_killed_is_run_again_to_the_same_bits(
    run: Run, study: Study, ran: Callable[..., Any], tmp_path: Path
) -> None:
    """A member of each committee, and the tables, are gone: as if the power had been cut."""
    again = Path(shutil.copytree(run.folder, tmp_path / "run"))
    lost = [next(job for job in run.jobs if job.cohort == task and job.variant == "committee") for task in TASKS]
    for job in lost:
        shutil.rmtree(again / job.folder.relative_to(run.folder))
    for file in ("summary.csv", "predictions.csv", "study.json"):
        (again / file).unlink()
    found, ended = ran(study, again)
    assert len(ended) == len(lost)
    assert open_run(again).predictions.equals(run.predictions)
    assert found.summary.equals(run.summary)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("variant", ["committee", "abmil"])
def test_the_viewer_shows_the_slides_of_each_task_and_their_maps(run: Run, task: str, variant: str) -> None:
    view = run.for_target("planted") if task == "multilabel" else run
    library, deciding = Library(view), view.deciding(task)
    table = library.table(task, variant, 0)
    patients, own = set(table["patient_id"]), view.predictions
    assert patients & set(table["slide_id"][table["slide_id"] != table["patient_id"]])  # ids that mean either
    own = own[(own["cohort"] == task) & (own["variant"] == variant)]
    p = deciding.matrix(own, view.classes[task])
    expected = dict(zip(own["slide_id"], p[np.arange(len(p)), [deciding.called(row) for row in p]], strict=True))
    assert table["p"].tolist() == [expected[patient] for patient in table["patient_id"]]
    for label in table["label"]:
        assert label.startswith(("event at ", "censored at ")) == (task == "survival")
    shared = table[table["patient_id"].duplicated(keep=False)]
    pooled = shared[shared["patient_id"] == shared["patient_id"].iloc[0]]
    maps = [library.maps(Key(task, slide_id, variant, 0)) for slide_id in pooled["slide_id"]]
    assert sum(float(one.attention.sum()) for one in maps) == pytest.approx(1)  # over all slides of the patient
    assert all(one.evidence is not None and np.isfinite(np.asarray(one.evidence)).all() for one in maps)
