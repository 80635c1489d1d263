"""One job: its folder is whole or not there, whatever kills it, and says where its numbers come from."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.splits import Fold
from jigsawmil.errors import SplitError, StudyError
from jigsawmil.files import new_folder
from jigsawmil.study import job as run
from jigsawmil.study.job import Job, fingerprint, predict_table, run_job
from jigsawmil.study.plan import plan
from jigsawmil.train import fit as fit_module
from jigsawmil.train import fold
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.feed import Feed
from jigsawmil.train.fold import fit_split
from jigsawmil.train.progress import Epoch

FILES = ["job.json", "model.json", "model.safetensors", "predictions.csv", "trace.csv", "training_slides.csv"]
JobOf = Callable[..., Job]


@pytest.fixture
def job_of(tmp_path: Path, phantom: Path, study_of: Any) -> JobOf:
    """The first job of a study of one method."""

    def make(method: str = "graph-abmil+jigsaw", folder: Path = phantom, **options: Any) -> Job:
        return plan(study_of(folder, (method,), **options), tmp_path / "run")[0][0]

    return make


@pytest.fixture(scope="module")
def cohort(phantom: Path) -> Cohort:
    return Cohort.read(phantom / "labels.csv", phantom / "features")


def left(job: Job) -> list[str]:
    """What lies beside the job's folder."""
    return sorted(path.name for path in job.folder.parent.iterdir() if path != job.folder)


# --- the folder


def test_a_job_leaves_everything_about_itself(job_of: JobOf) -> None:
    job = job_of(patience=1, epochs=3)
    told: list[Epoch] = []
    run_job(job, told.append)
    assert sorted(path.name for path in job.folder.iterdir()) == FILES
    assert left(job) == []
    values = json.loads((job.folder / "job.json").read_text())
    assert values["spec"] == job.spec
    assert values["spec"]["seed"] == 0
    assert {"jigsawmil", "commit", "python", "torch", "numpy", "threads"} <= values["origin"].keys()
    assert {"fit", "predict", "epochs"} <= values["seconds"].keys()
    trace = pd.read_csv(job.folder / "trace.csv")
    assert list(trace) == ["epoch", "mil", "jigsaw", "lambda_", "val_loss", "val_auc", "seconds", "kept"]
    assert trace["epoch"].tolist() == [epoch.epoch for epoch in told]
    assert trace["val_loss"].tolist() == pytest.approx([epoch.val_loss for epoch in told])
    assert trace.loc[trace["kept"], "epoch"].tolist() == [values["best_epoch"]]


@pytest.mark.parametrize("method", ["abmil", "graph-abmil+jigsaw"])
def test_the_model_of_a_job_gives_its_predictions_again(job_of: JobOf, cohort: Cohort, method: str) -> None:
    job = job_of(method)
    run_job(job)
    model, card = load_model(job.folder)
    assert card.classes == ("normal", "tumour")
    assert card.training is not None
    assert card.training["settings"]["method"] == method
    feed = Feed(cohort, card.graph if job.settings.needs_graph else None, card.model.raster)
    table, *_ = predict_table(model, feed, feed.bags_of(job.split.test), job.settings)
    assert table.to_csv(index=False) == (job.folder / "predictions.csv").read_text()


def test_a_job_cut_by_ctrl_c_goes_on_to_the_same_bytes(job_of: JobOf, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(fit_module, "SAVE_SECONDS", -1.0)
    job = job_of(epochs=5, patience=2, dropout=0.2)
    other = replace(job, folder=tmp_path / "undisturbed" / "job")
    run_job(other)

    def cut(epoch: Epoch) -> None:
        if epoch.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(job, cut)
    assert not job.folder.exists()
    assert len(left(job)) == 1
    assert left(job)[0].endswith(".state")
    told: list[Epoch] = []
    run_job(job, told.append)
    assert told[0].epoch == 3
    assert left(job) == []
    for name in ("predictions.csv", "model.safetensors"):
        assert (job.folder / name).read_bytes() == (other.folder / name).read_bytes()


def test_a_state_of_other_settings_is_not_gone_on_from(job_of: JobOf, monkeypatch: Any) -> None:
    monkeypatch.setattr(fit_module, "SAVE_SECONDS", -1.0)

    def cut(epoch: Epoch) -> None:
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(job_of(epochs=4), cut)
    told: list[Epoch] = []
    other = job_of(epochs=4, lr=0.01)
    run_job(other, told.append)
    assert told[0].epoch == 1
    assert left(other) == []  # and it is not left behind


@pytest.mark.skipif(sys.platform == "win32", reason="whether a process lives is not asked there")
def test_what_a_killed_process_left_is_swept_away(job_of: JobOf) -> None:
    job = job_of("abmil")
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    with new_folder(job.folder) as name:  # as such a process would have named it
        pass
    owner = name.name.split(".")[-2].replace(str(os.getpid()), str(dead.pid))
    partial = job.folder.with_name(f".{job.folder.name}.{owner}.partial")
    partial.mkdir()
    (partial / "predictions.csv").write_text("half")
    job.folder.with_name(f".{job.folder.name}.0123456789ab.state.{owner}.partial").write_bytes(b"half")
    neighbour = job.folder.with_name(f".seed0-fold11.{owner}.partial")
    neighbour.mkdir()
    run_job(job)
    assert left(job) == [neighbour.name]


@pytest.mark.parametrize("winner", ["early", "late"])
def test_two_attempts_at_once_leave_one_whole_job(job_of: JobOf, monkeypatch: Any, winner: str) -> None:
    """As after a node was cut off: its job was started again elsewhere, and it lives. Each is held in its writing."""
    monkeypatch.setattr(fit_module, "SAVE_SECONDS", -1.0)
    job, errors = job_of("abmil", attention=True), []
    writing, ended = ({name: threading.Event() for name in ("early", "late")} for _ in range(2))
    save = run.save_model

    def attempt() -> None:
        try:
            run_job(job)
        except BaseException as error:
            errors.append(error)
        ended[threading.current_thread().name].set()

    def save_in_turn(folder: Path, *args: Any) -> None:
        name = threading.current_thread().name
        writing[name].set()
        assert writing["late"].wait(60)  # the late one has swept, fitted and begun to write
        assert name == winner or ended[winner].wait(60)
        save(folder, *args)

    monkeypatch.setattr(run, "save_model", save_in_turn)
    threads = {name: threading.Thread(target=attempt, name=name) for name in writing}
    threads["early"].start()
    assert writing["early"].wait(60)
    threads["late"].start()
    for thread in threads.values():
        thread.join(120)
    assert errors == []
    assert sorted(path.name for path in job.folder.iterdir()) == sorted([*FILES, "attention.safetensors"])
    assert left(job) == []


def test_a_folder_that_lost_a_file_does_not_become_a_job(job_of: JobOf, monkeypatch: Any) -> None:
    job, save = job_of("abmil"), run.save_model

    def cleared(folder: Path, *args: Any) -> None:
        (folder / "predictions.csv").unlink()
        save(folder, *args)

    monkeypatch.setattr(run, "save_model", cleared)
    with pytest.raises(StudyError, match=r"predictions\.csv missing after writing.*Run again"):
        run_job(job)
    assert not job.folder.exists()
    assert not [name for name in left(job) if name.endswith(".partial")]


def test_a_job_that_fails_in_writing_leaves_no_folder(job_of: JobOf, monkeypatch: Any) -> None:
    job = job_of("abmil")

    def full(*args: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(run, "save_model", full)
        with pytest.raises(OSError, match="no space left"):
            run_job(job)
    assert not job.folder.exists()
    assert not job.done
    run_job(job)
    assert job.done


def test_labels_that_change_after_the_plan_are_noticed(job_of: JobOf, own: Path) -> None:
    job = job_of("abmil", own)
    table = (own / "labels.csv").read_text()
    (own / "labels.csv").write_text(table.replace("tumour", "zebra"))
    with pytest.raises(StudyError, match=r"changed after the study started. Run again"):
        run_job(job)


# --- what a result depends on


def test_the_spec_holds_every_setting_but_the_device(job_of: JobOf) -> None:
    job = job_of()
    assert {"k", "lr", "lambda_", "method", "level", "seed", "shuffled", "folds", "cohort"} <= job.spec.keys()
    for change in ({"k": 7}, {"lr": 0.5}, {"level": "patient"}, {"lambda_": 0.5}):
        assert replace(job, settings=job.settings.replace(**change)).spec != job.spec
    assert replace(job, settings=job.settings.replace(device="cpu")).spec == job.spec
    assert replace(job, shuffled=True).spec != job.spec
    swapped = Fold(train=job.split.test, test=job.split.train)
    assert replace(job, split=swapped).spec != job.spec
    assert json.loads(json.dumps(job.spec)) == job.spec  # as it comes back from job.json


def test_the_fingerprint_of_a_cohort_is_its_content(cohort: Cohort) -> None:
    mark = fingerprint(cohort)
    assert fingerprint(replace(cohort, slides=cohort.slides[::-1])) == mark
    first, *rest = cohort.slides
    for change in ({"label": 1 - first.label}, {"patient_id": "x"}, {"slide_id": "x"}, {"patches": 1}):
        assert fingerprint(replace(cohort, slides=(replace(first, **change), *rest))) != mark
    assert fingerprint(replace(cohort, slides=tuple(rest))) != mark
    assert fingerprint(replace(cohort, classes=cohort.classes[::-1])) != mark
    assert fingerprint(replace(cohort, dim=17)) != mark


# --- the inner validation


def parts_of(cohort: Cohort, split: Fold, settings: Any, monkeypatch: Any, seed: int = 0) -> tuple[set[str], set[str]]:
    """(slides fitted to, slides watched), as the loop receives them."""
    seen: list[Any] = []
    monkeypatch.setattr(fold, "fit", lambda model, feed, *bags, **_: seen.extend(bags[:2]))
    fit_split(Feed(cohort, None, 3), split, settings, seed, 0)
    train, val = ({str(cohort.slide_ids[bag]) for bag in bags} for bags in seen)
    return train, val


def halves(cohort: Cohort) -> Fold:
    patients = list(dict.fromkeys(cohort.patients))[:2]
    test = [s for s, p in zip(cohort.slide_ids, cohort.patients, strict=True) if p in patients]
    return Fold(train=tuple(map(str, set(cohort.slide_ids) - set(test))), test=tuple(map(str, test)))


def test_validation_comes_out_of_the_training_patients(cohort: Cohort, small: Any, monkeypatch: Any) -> None:
    split = halves(cohort)
    train, val = parts_of(cohort, split, small(patience=2, validation=0.3), monkeypatch)
    assert train | val == set(split.train)
    patient_of = dict(zip(cohort.slide_ids, cohort.patients, strict=True))
    assert not {patient_of[s] for s in train} & {patient_of[s] for s in val}
    label_of = dict(zip(cohort.slide_ids, cohort.labels, strict=True))
    assert {label_of[s] for s in val} == {0, 1}
    others = [parts_of(cohort, split, small(patience=2, validation=0.3), monkeypatch, seed)[1] for seed in range(1, 5)]
    assert any(other != val for other in others)  # drawn from the seed


def test_without_patience_everything_is_fitted_to(cohort: Cohort, small: Any, monkeypatch: Any) -> None:
    split = halves(cohort)
    assert parts_of(cohort, split, small(patience=0), monkeypatch) == (set(split.train), set())
    given = Fold(train=split.train[2:], val=split.train[:2], test=split.test)
    assert parts_of(cohort, given, small(patience=0), monkeypatch) == (set(split.train), set())


def test_a_validation_part_that_is_given_is_used(cohort: Cohort, small: Any, monkeypatch: Any) -> None:
    split = halves(cohort)
    given = Fold(train=split.train[2:], val=split.train[:2], test=split.test)
    assert parts_of(cohort, given, small(patience=1), monkeypatch) == (set(given.train), set(given.val))


def test_too_few_patients_for_a_validation_say_what_to_do(cohort: Cohort, small: Any, monkeypatch: Any) -> None:
    label = cohort.labels
    one_each = [str(cohort.slide_ids[np.flatnonzero(label == c)[0]]) for c in (0, 1)]
    with pytest.raises(SplitError, match=r"too few patients for an inner validation.*\(patience = 0 does that\.\)"):
        parts_of(cohort, Fold(train=tuple(one_each), test=()), small(patience=1), monkeypatch)


# --- SIGKILL

DRIVER = """
import os, random, shutil, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from jigsawmil.study.job import run_job
from jigsawmil.study.plan import plan
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.train import fit
from jigsawmil.train.settings import Settings

data, out = map(Path, sys.argv[1:])
fit.SAVE_SECONDS = -1.0  # save after every epoch
settings = Settings(
    method="abmil+jigsaw", hidden=16, attention_dim=8, grid=3, epochs=8, patience=3, lr=1e-2, dropout=0.2
)  # no graph: Numba's threads do not outlive a fork
study = Study(cohorts={"c": cohort_spec({"labels": data / "labels.csv", "features": data / "features"})},
              variants={"v": settings}, folds=2, attention=True)
replace = os.replace


def child(job, moment):
    '''Run the job in a process of its own that dies as told: after seconds, or around the n-th rename.'''
    pid = os.fork()
    if pid:
        if isinstance(moment, float):
            time.sleep(moment)
            os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    calls = [0]

    def dying(source, target):
        calls[0] += 1
        if moment == (calls[0], "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
        if moment == (calls[0], "after"):
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = dying
    try:
        run_job(job)
        (out / "renames").write_text(str(calls[0]))
        os._exit(0)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)


def content(job):
    return {path.name: path.read_bytes() for path in job.folder.iterdir()}


def check(job, wanted, code, moment):
    assert code in (0, -signal.SIGKILL), (moment, code)
    assert job.folder.exists() == job.done, moment
    if job.done:
        found = content(job)
        assert found.keys() == wanted.keys(), (moment, found.keys())
        for name in ("predictions.csv", "model.safetensors", "attention.safetensors"):
            assert found[name] == wanted[name], (moment, name)
        return True
    return False


def beside(job):
    return [path.name for path in job.folder.parent.iterdir() if path != job.folder]


reference = plan(study, out / "reference")[0][0]
run_job(reference)  # here, so that a child need not import what torch imports late
wanted = content(reference)
job = plan(study, out / "run")[0][0]
start = time.monotonic()
assert child(job, None) == 0
took, renames = time.monotonic() - start, int((out / "renames").read_text())
assert check(job, wanted, 0, "undisturbed")
shutil.rmtree(job.folder)

killed = 0
rng = random.Random(int(sys.stdin.readline()))
save = rng.randrange(1, renames - 4)  # of the running training; the results are the last four renames
moments = [(save, "before"), (save, "after"), (renames - 3, "after"), (renames, "before"), (renames, "after")]
for moment in moments:
    code = child(job, moment)
    killed += code == -signal.SIGKILL
    if not check(job, wanted, code, moment):
        assert child(job, None) == 0
        assert check(job, wanted, 0, "again")
        assert not beside(job), beside(job)
    shutil.rmtree(job.folder)
    for path in job.folder.parent.iterdir():
        path.unlink()
assert killed == len(moments), killed

for _ in range(200):  # killed at random until it is through
    moment = rng.uniform(0.2, 1.2) * took
    if check(job, wanted, child(job, moment), moment):
        break
    killed += 1
else:
    raise AssertionError("never through")
print("killed", killed, "of", renames, "renames; a run takes", round(took, 2), "s")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_job_killed_at_any_moment_gives_the_same_bytes_when_run_again(tmp_path: Path, phantom: Path) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, str(tmp_path / "driver.py"), str(phantom), str(tmp_path)]
    shown = subprocess.run(command, input="0\n", capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert shown.stdout.startswith("killed")
