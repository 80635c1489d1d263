"""Features are part of what a result is: other ones are never mixed into a run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

from jigsawmil.bags.formats import hdf5
from jigsawmil.errors import FeatureError, StudyError
from jigsawmil.study.executors import Event
from jigsawmil.study.run import Run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study

METHODS = ("abmil", "graph-abmil+jigsaw")
StudyOf = Callable[..., Study]
Ran = Callable[..., tuple[Run, list[str]]]


@pytest.fixture
def done(finished: tuple[Path, Run], tmp_path: Path) -> Path:
    """A copy of a finished run that a test may change."""
    return Path(shutil.copytree(finished[0], tmp_path / "run"))


def change(folder: Path, *, add: float = 0.0, encoder: str | None = None, slides: int | None = None) -> None:
    """Other features of the same shapes under the same names."""
    for path in sorted((folder / "features").iterdir())[:slides]:
        with h5py.File(path, "a") as file:
            hdf5.unseal(file)
            file["features"][...] = file["features"][...] + add
            if encoder is not None:
                file["features"].attrs["encoder"] = encoder


def test_a_folder_that_was_moved_resumes(done: Path, own: Path, study_of: StudyOf, ran: Ran) -> None:
    shutil.move(own / "features", own / "features_elsewhere")
    shutil.copytree(own / "features_elsewhere", own / "features")  # other times of change
    assert ran(study_of(own, METHODS, seeds=(0, 5)), done)[1] == []


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"add": 1.0, "slides": 2}, "the content of feature files changed, in 2 of 12 slides: 0001, 0002"),
        ({"encoder": "uni"}, "encoder was phantom.*, is uni, the content .* in 12 of 12 slides"),
    ],
)
def test_other_files_are_refused_and_named(
    done: Path, own: Path, study_of: StudyOf, how: dict[str, Any], told: str
) -> None:
    change(own, **how)
    with pytest.raises(StudyError, match=rf"holds results of other settings \({told}.*another --out"):
        cross_validate(study_of(own, METHODS, seeds=(0, 5)), done)


def test_another_resolution_of_the_same_files_is_refused(
    tmp_path: Path, own: Path, study_of: StudyOf, spec: Any
) -> None:
    for path in (own / "features").iterdir():
        with h5py.File(path, "a") as file:
            hdf5.unseal(file)
            del file["coords"].attrs["mpp"]
    for mpp in (0.25, 0.5):
        study = study_of(own, ("abmil",), cohorts={"c": spec(own, mpp=mpp)})
        if mpp == 0.25:
            cross_validate(study, tmp_path / "run")
    with pytest.raises(StudyError, match=r"other settings \(mpp was 0.25, is 0.5\)"):
        cross_validate(study, tmp_path / "run")


def test_a_run_of_a_version_without_a_record_is_kept_with_a_note(
    done: Path, own: Path, study_of: StudyOf, ran: Ran
) -> None:
    for file in done.glob("jobs/**/job.json"):
        record = json.loads(file.read_text())
        del record["spec"]["features"]
        file.write_text(json.dumps(record))
    change(own, add=1.0)  # nobody can know
    run, ended = ran(study_of(own, METHODS, seeds=(0, 5)), done)
    assert ended == []
    assert run.notes["c"][-1].startswith("8 jobs are of an older version that did not record their features")


def test_files_that_change_during_a_run_stop_it(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    """memory_gb: nothing is kept, so that slides are read again and again."""
    study, changed = study_of(own, ("abmil",), memory_gb=0.0), []

    def meanwhile(event: Event) -> None:
        if event.epoch is not None and not changed:
            changed.append(event.job.name)
            change(own, add=1.0)

    with pytest.raises(StudyError, match=r"2 of 2 jobs failed(.|\n)*h5: changed since it was first read"):
        cross_validate(study, tmp_path / "run", listen=meanwhile)
    assert len(changed) == 1
    assert not list((tmp_path / "run").glob("jobs/**/predictions.csv"))


def test_files_that_were_only_touched_do_not(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    study = study_of(own, ("abmil",), memory_gb=0.0)

    def meanwhile(event: Event) -> None:
        for path in (own / "features").iterdir():
            path.touch()

    assert not cross_validate(study, tmp_path / "run", listen=meanwhile).failed


def test_maps_are_drawn_of_the_features_of_the_run(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    run = cross_validate(study_of(own, ("abmil",)), tmp_path / "run")
    slide = run.slides["slide_id"].iloc[0]
    assert run.bag_of(slide).slide_id == slide
    change(own, add=1.0)
    with pytest.raises(FeatureError, match=f"changed since the study read the features of {slide}"):
        run.bag_of(slide)
    assert run.bag_of(slide, folder=own / "features").slide_id == slide  # the user says so


def test_verify_knows_every_byte(tmp_path: Path, own: Path, study_of: StudyOf, spec: Any, ran: Ran) -> None:
    study = study_of(own, ("abmil",), cohorts={"c": spec(own, verify=True)})
    cross_validate(study, tmp_path / "run")
    assert ran(study, tmp_path / "run")[1] == []
    assert ran(study_of(own, ("abmil",)), tmp_path / "run")[1] == []  # samples are enough for whom they are enough
    record = json.loads(next((tmp_path / "run").glob("jobs/**/job.json")).read_text())
    assert {"content", "whole"} <= record["spec"]["features"].keys()
