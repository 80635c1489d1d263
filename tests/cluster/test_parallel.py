"""One model by two processes is the model of one process."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jigsawmil.cluster import parallel
from jigsawmil.cluster.parallel import fit_together
from jigsawmil.cohort.splits import Fold
from jigsawmil.errors import ConfigError, StudyError
from jigsawmil.study.study import CohortSpec
from jigsawmil.train.feed import Feed
from jigsawmil.train.fold import fit_split
from jigsawmil.train.settings import Settings


def make(source: CohortSpec, settings: Settings) -> tuple[Feed, Fold]:
    cohort = source.read()
    feed = Feed(cohort, settings.graph, settings.model.raster, memory_gb=1, level=settings.level)
    return feed, Fold(train=tuple(map(str, cohort.slide_ids)), test=())


# 12 slides in batches of 5 leave a batch of 1 or 2 (with validation): one of the two then has fewer, or none
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 5, "patience": 5, "validation": 0.3, "lambda_": "em"},
        {"batch_size": 11, "lambda_": "em-per-slide", "level": "patient", "class_weights": True},
        {"batch_size": 11, "jigsaw": "consistency", "precision": "bfloat16", "epochs": 1},
    ],
)
def test_two_processes_fit_the_model_of_one(
    phantom: Path, spec: Callable[..., CohortSpec], small: Callable[..., Settings], options: dict
) -> None:
    source, settings = spec(phantom), small("graph-abmil+jigsaw", **{"epochs": 3, **options})
    feed, everything = make(source, settings)
    one, alone = fit_split(feed, everything, settings, 3, 0)
    two, together = fit_together(feed, everything, settings, 3, 0, source=source, devices=2, memory_gb=1)
    for mine, theirs in zip(alone.epochs, together.epochs, strict=True):
        for name in ("mil", "jigsaw", "lambda_", "val_loss"):
            assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-5, nan_ok=True), name
    off = 0
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        near = torch.isclose(a, b, rtol=1e-3, atol=1e-5)
        if settings.train.precision == "bfloat16":  # a sum near 0 may round to the other side, and Adam steps by sign
            off += int((~near).sum())
            assert float((a - b).abs().max()) <= 2.01 * settings.train.lr, name
        else:
            assert near.all(), name
    assert off <= 3


def test_more_processes_than_slides_a_step_are_refused(
    phantom: Path, spec: Callable[..., CohortSpec], small: Callable[..., Settings]
) -> None:
    source, settings = spec(phantom), small("abmil", batch_size=2)
    feed, everything = make(source, settings)
    with pytest.raises(ConfigError, match="--batch-size 3"):
        fit_together(feed, everything, settings, 0, 0, source=source, devices=3, memory_gb=1)


def test_a_process_that_fails_is_told_and_does_not_leave_the_rest_waiting(
    own: Path, spec: Callable[..., CohortSpec], small: Callable[..., Settings], capfd: pytest.CaptureFixture[str]
) -> None:
    source, settings = spec(own), small("abmil", batch_size=4)
    feed, everything = make(source, settings)
    (own / "labels.csv").unlink()  # the other process reads the cohort for itself
    with pytest.raises(StudyError, match=r"process 2 of 2 ended before training finished .exit code 1, see above"):
        fit_together(feed, everything, settings, 0, 0, source=source, devices=2, memory_gb=1)
    assert "labels.csv" in capfd.readouterr().err


@pytest.mark.parametrize("when", ["at once", "in mid-training"])
def test_a_process_that_is_killed_ends_the_training_soon_and_is_named(
    when: str, phantom: Path, spec: Callable[..., CohortSpec], small: Callable[..., Settings]
) -> None:
    source, settings = spec(phantom), small("abmil", batch_size=4, epochs=10**6)
    feed, everything = make(source, settings)
    killed: list[float] = []

    def kill(epoch: object = None) -> None:
        if not killed:
            while not (others := multiprocessing.active_children()):
                time.sleep(0.001)
            os.kill(others[0].pid, signal.SIGKILL)
            killed.append(time.monotonic())

    if when == "at once":  # long before it could join
        threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(StudyError, match=r"process 2 of 2 ended .*exit code -9, Killed.* Run the same command again"):
        fit_together(feed, everything, settings, 0, 0, on_epoch=kill, source=source, devices=2, memory_gb=1)
    assert time.monotonic() - killed[0] < 8
    assert not multiprocessing.active_children()


def test_an_error_of_the_first_process_is_its_own(
    phantom: Path, spec: Callable[..., CohortSpec], small: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, settings = spec(phantom), small("abmil", batch_size=4)
    feed, everything = make(source, settings)
    monkeypatch.setattr(parallel, "NOTICE", 1.0)

    def fail(epoch: object) -> None:
        raise RuntimeError("no memory left on the device")

    with pytest.raises(RuntimeError, match="no memory left on the device"):
        fit_together(feed, everything, settings, 0, 0, on_epoch=fail, source=source, devices=2, memory_gb=1)
    assert not multiprocessing.active_children()


HANGS = """
import multiprocessing, sys, time
from pathlib import Path
from jigsawmil.cohort.splits import Fold
from jigsawmil.cluster import parallel
from jigsawmil.study.study import cohort_spec
from jigsawmil.train.feed import Feed
from jigsawmil.train.settings import Settings

if __name__ == "__main__":
    data, step = Path(sys.argv[1]), sys.argv[2]
    source = cohort_spec({"labels": str(data / "labels.csv"), "features": str(data / "features")})
    cohort, settings = source.read(), Settings(method="abmil", batch_size=4)
    everything = Fold(train=tuple(map(str, cohort.slide_ids)), test=())

    def hang(*_, **__):
        [other] = multiprocessing.active_children()
        if step == "other is killed":
            other.kill()
        print(other.pid, flush=True)
        time.sleep(1000)

    parallel.GRACE = 0.5
    parallel.dist.init_process_group = hang  # the other process waits in its own
    feed = Feed(cohort, None, settings.model.raster, memory_gb=1)
    parallel.fit_together(feed, everything, settings, 0, 0, source=source, devices=2, memory_gb=1)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("killed", ["first is killed", "other is killed"])
def test_no_process_outlives_another_however_it_hangs(killed: str, tmp_path: Path, phantom: Path) -> None:
    (tmp_path / "hangs.py").write_text(HANGS)
    command = [sys.executable, str(tmp_path / "hangs.py"), str(phantom), killed]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        try:
            assert first.stdout is not None
            other = int(first.stdout.readline())
            if killed == "first is killed":
                first.kill()
                assert ends(other, within=5)
            else:
                assert "Error: process 2 of 2 ended" in first.communicate(timeout=10)[1]
                assert first.returncode == 1
        finally:
            first.kill()


def ends(process: int, within: float) -> bool:
    """The dead that nobody waited for have ended too."""
    stat, end = Path(f"/proc/{process}/stat"), time.monotonic() + within
    while time.monotonic() < end:
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_ctrl_c_while_the_others_still_import_is_the_first_ones_alone(tmp_path: Path, phantom: Path) -> None:
    """A terminal sends it to all; a traceback of each would bury the one word that counts."""
    (tmp_path / "hangs.py").write_text(HANGS.replace("[other] = multiprocessing.active_children()", "return"))
    command = [sys.executable, str(tmp_path / "hangs.py"), str(phantom), "none is killed"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as first:
        try:
            end = time.monotonic() + 60
            while not (others := started_by(first.pid)) and time.monotonic() < end:
                time.sleep(0.02)
            time.sleep(0.3)  # the other one imports
            os.killpg(first.pid, signal.SIGINT)
            assert first.communicate(timeout=30)[1].count("Traceback") == 1  # of the first, which no verb caught
            assert all(ends(other, within=5) for other in others)
        finally:
            first.kill()


def started_by(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]
