"""Studies: only what is missing is run, and nothing is mixed."""

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

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import ConfigError, StudyError
from jigsawmil.study.executors import Event
from jigsawmil.study.plan import plan
from jigsawmil.study.run import Run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study

StudyOf = Callable[..., Study]
Relabel = Callable[[Path, Callable[[pd.DataFrame], pd.DataFrame]], None]
Ran = Callable[..., tuple[Run, list[str]]]


def job_files(out: Path) -> dict[str, int]:
    """All files of jobs with the time of their last change."""
    return {str(p.relative_to(out)): p.stat().st_mtime_ns for p in out.glob("**/jobs/**/*") if p.is_file()}


def contents(out: Path, pattern: str) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.glob(pattern))}


@pytest.fixture
def done(finished: tuple[Path, Run], tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished[0], tmp_path / "run"))


@pytest.fixture
def same(phantom: Path, study_of: StudyOf) -> Study:
    """The study that made it."""
    return study_of(phantom, ("abmil", "graph-abmil+jigsaw"), seeds=(0, 5))


# --- only what is missing


def test_running_again_does_nothing(done: Path, same: Study, ran: Ran) -> None:
    before, tables = job_files(done), contents(done, "*.csv")
    result, ended = ran(same, done)
    assert ended == []
    assert job_files(done) == before
    assert contents(done, "*.csv") == tables
    assert len(result.predictions)


def test_a_job_that_was_removed_is_run_again_to_the_same_bytes(done: Path, same: Study, ran: Ran) -> None:
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


def test_a_method_added_runs_alone(done: Path, phantom: Path, study_of: StudyOf, ran: Ran) -> None:
    before = job_files(done)
    result, ended = ran(study_of(phantom, ("abmil", "graph-abmil+jigsaw", "graph-mil"), seeds=(0, 5)), done)
    assert len(ended) == 4
    assert all("graph-mil" in name for name in ended)
    assert before.items() <= job_files(done).items()
    assert len(result.comparisons) == 3


def test_a_seed_added_runs_alone(tmp_path: Path, phantom: Path, study_of: StudyOf, ran: Ran) -> None:
    cross_validate(study_of(phantom, ("abmil",)), tmp_path)
    before, folds = job_files(tmp_path), (tmp_path / "folds.json").read_bytes()
    result, ended = ran(study_of(phantom, ("abmil",), seeds=(0, 1)), tmp_path)
    assert ended == [f"c abmil seed 1 fold {fold}" for fold in range(2)]
    assert before.items() <= job_files(tmp_path).items()
    assert (tmp_path / "folds.json").read_bytes() == folds
    assert result.summary["seeds"].item() == 2


def test_a_method_left_out_is_left_out_of_the_tables_only(
    done: Path, phantom: Path, study_of: StudyOf, ran: Ran
) -> None:
    before = job_files(done)
    result, ended = ran(study_of(phantom, ("abmil",), seeds=(0, 5)), done)
    assert ended == []
    assert set(result.predictions["variant"]) == {"abmil"}
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
        cross_validate(other, done)
    assert job_files(done) == before


def test_the_device_and_the_memory_may_change(done: Path, phantom: Path, study_of: StudyOf, ran: Ran) -> None:
    """They say where and how, not what."""
    other = study_of(phantom, ("abmil", "graph-abmil+jigsaw"), seeds=(0, 5), device="cpu", memory_gb=1.0)
    assert ran(other, done)[1] == []


def test_other_labels_are_refused(tmp_path: Path, own: Path, study_of: StudyOf, relabel: Relabel) -> None:
    cross_validate(study_of(own, ("abmil",)), tmp_path / "run")
    before = job_files(tmp_path / "run")
    table = pd.read_csv(own / "labels.csv", dtype=str)
    flipped = table["patient_id"] == table["patient_id"].iloc[0]
    other = {"normal": "tumour", "tumour": "normal"}
    relabel(own, lambda t: t.assign(label=t["label"].where(~flipped, t["label"].map(other))))
    with pytest.raises(StudyError, match="labels"):
        cross_validate(study_of(own, ("abmil",)), tmp_path / "run")
    assert job_files(tmp_path / "run") == before


def test_other_patients_and_class_names_are_refused_by_the_jobs(
    tmp_path: Path, own: Path, study_of: StudyOf, relabel: Relabel
) -> None:
    """Also where the folds would be the same."""
    splits = {"c": str(tmp_path / "folds.json")}
    cross_validate(study_of(own, ("abmil",)), tmp_path / "first")
    shutil.copy(tmp_path / "first" / "folds.json", tmp_path)
    cross_validate(study_of(own, ("abmil",), splits=splits), tmp_path / "run")
    relabel(own, lambda t: t.assign(label=t["label"].replace("tumour", "zebra")))
    with pytest.raises(StudyError, match="other slides, patients or labels"):
        cross_validate(study_of(own, ("abmil",), splits=splits), tmp_path / "run")


def test_nothing_is_kept_in_memory_from_one_study_to_the_next(tmp_path: Path, own: Path, study_of: StudyOf) -> None:
    """The files may have been mended in between."""
    study = study_of(own, ("abmil",))
    before = cross_validate(study, tmp_path / "one").predictions["probability"]
    for path in (own / "features").iterdir():
        with h5py.File(path, "a") as file:
            file["features"][...] = file["features"][...] + 1
    after = cross_validate(study, tmp_path / "two").predictions["probability"]
    assert (before != after).all()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"spec": 3}', '{"name": "x"}'])
def test_a_damaged_job_is_named(done: Path, same: Study, text: str) -> None:
    folder = done / "jobs" / "c" / "abmil" / "seed0-fold0"
    (folder / "job.json").write_text(text)
    with pytest.raises(StudyError, match=r"seed0-fold0: job\.json is damaged .*Remove that folder"):
        cross_validate(same, done)


def test_a_job_without_its_predictions_is_named(done: Path, same: Study) -> None:
    (done / "jobs" / "c" / "abmil" / "seed0-fold0" / "predictions.csv").unlink()
    with pytest.raises(StudyError, match=r"seed0-fold0: predictions\.csv is damaged .*Remove that folder"):
        cross_validate(same, done)


def test_a_folder_with_files_of_no_job_is_not_overwritten(done: Path, same: Study, ran: Ran) -> None:
    folder = done / "jobs" / "c" / "abmil" / "seed0-fold0"
    (folder / "job.json").unlink()
    kept = contents(folder, "*")
    result, _ = ran(same, done)
    assert "is not empty" in result.failed["c abmil seed 0 fold 0"]
    assert contents(folder, "*") == kept


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_is_on(
    tmp_path: Path, phantom: Path, study_of: StudyOf
) -> None:
    study, refused = study_of(phantom, ("abmil",)), []

    def meanwhile(event: Event) -> None:
        if event.ended and not refused:
            with pytest.raises(StudyError, match=r"another run is writing there"):
                cross_validate(study, tmp_path / "run")
            refused.append(True)

    assert len(cross_validate(study, tmp_path / "run", listen=meanwhile).predictions) == 12
    assert refused


@pytest.mark.parametrize("where", ["a file", "below a file"])
def test_a_place_that_cannot_be_written_is_refused(
    tmp_path: Path, phantom: Path, study_of: StudyOf, where: str
) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" if where == "a file" else tmp_path / "file" / "run"
    with pytest.raises(StudyError, match=r"cannot be written .*Choose another --out"):
        cross_validate(study_of(phantom), out)


# --- memory


def test_processes_share_the_memory(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    study = study_of(phantom, memory_gb=3.0)
    assert {job.memory_gb for job in plan(study, tmp_path)[0]} == {3.0}
    assert {job.memory_gb for job in plan(study, tmp_path, processes=2)[0]} == {1.5}
    with pytest.raises(ConfigError, match="processes: found 2, expected 1 with an executor"):  # where it is a job's
        cross_validate(study, tmp_path, processes=2, executor=lambda *_: None)


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
    with_graph = cross_validate(study_of(phantom, ("abmil", "graph-mil")), tmp_path / "both").predictions
    assert sorted(reads) == sorted(set(reads))  # four jobs, each slide read once
    alone = cross_validate(study_of(phantom, ("abmil",)), tmp_path / "alone").predictions
    mine = with_graph[with_graph["variant"] == "abmil"]
    assert (mine["probability"].to_numpy() == alone["probability"].to_numpy()).all()  # the company changes nothing


def test_the_global_generators_are_left_alone(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    cross_validate(study_of(phantom, ("graph-abmil+jigsaw",), dropout=0.5), tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == numbers).all()  # noqa: NPY002


def test_a_setting_that_an_older_run_did_not_know_had_its_default(
    phantom: Path, study_of: Callable[..., Study], tmp_path: Path
) -> None:
    cross_validate(study_of(phantom, methods=("abmil",)), tmp_path)
    for file in (tmp_path / "jobs").rglob("job.json"):
        values = json.loads(file.read_text())
        assert values["spec"].pop("kinds") == 0
        file.write_text(json.dumps(values))
    ran: list[Any] = []
    cross_validate(study_of(phantom, methods=("abmil",)), tmp_path, listen=ran.append)
    assert ran == []
    with pytest.raises(StudyError, match="kinds was 0, is 3"):
        cross_validate(study_of(phantom, methods=("abmil",), kinds=3), tmp_path)
