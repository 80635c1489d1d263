"""Processes: the same bytes as one process, a failure for a killed worker, and a clean end at Ctrl-C."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from jigsawmil.study import executors
from jigsawmil.study.executors import Event, open_gpus, run_local, use_gpu
from jigsawmil.study.plan import plan
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study

from ..fixtures.disk import full_disk

StudyOf = Callable[..., Study]


def contents(out: Path) -> dict[str, bytes]:
    names = ("predictions.csv", "model.safetensors")
    return {str(path.relative_to(out)): path.read_bytes() for path in out.glob("jobs/**/*") if path.name in names}


def slow(study_of: StudyOf, phantom: Path) -> Study:
    """One method that is done at once, and one that never is."""
    quick, endless = study_of(phantom, ("abmil",)), study_of(phantom, ("abmil",), epochs=10**6)
    variants = {"quick": quick.variants["abmil"], "endless": endless.variants["abmil"]}
    return Study(cohorts=quick.cohorts, variants=variants, folds=2)


def test_two_processes_give_the_bytes_of_one(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    study = study_of(phantom, ("graph-abmil+jigsaw",), dropout=0.2, patience=1)
    events: list[Event] = []
    parallel = cross_validate(study, tmp_path / "two", processes=2, listen=events.append)
    serial = cross_validate(study, tmp_path / "one", processes=1)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert len(contents(tmp_path / "one")) == 4
    assert parallel.predictions.equals(serial.predictions)
    assert parallel.summary.equals(serial.summary)
    assert sorted(event.job.fold for event in events if event.ended) == [0, 1]
    assert {event.epoch.epoch for event in events if event.epoch} == {1, 2}
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(("processes", "threads"), [(1, 4), (2, 2), (8, 1)])
def test_the_last_job_has_the_threads_of_the_others(
    tmp_path: Path, phantom: Path, study_of: StudyOf, monkeypatch: pytest.MonkeyPatch, processes: int, threads: int
) -> None:
    job, seen, before = plan(study_of(phantom, ("abmil",)), tmp_path)[0][0], [], torch.get_num_threads()
    monkeypatch.setattr(executors, "attempt", lambda *_: seen.append(torch.get_num_threads()))
    torch.set_num_threads(4)
    try:
        run_local([job], processes, lambda event: None)
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    assert seen == [threads]


def test_a_full_disk_fails_a_job_in_one_sentence(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    study = study_of(phantom, ("abmil",))
    jobs = plan(study, tmp_path)[0]
    events: list[Event] = []
    with full_disk(after=3000):  # the weights are larger, the tables are not
        run_local(jobs[:1], 1, events.append)
    [error] = [event.error for event in events if event.ended]
    assert error is not None
    assert error.startswith("[Errno 27] File too large: '")
    assert str(jobs[0].folder / "model.safetensors") in error
    assert "Traceback" not in error


def test_a_worker_that_is_killed_is_a_failure_and_not_a_hang(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    jobs = plan(slow(study_of, phantom), tmp_path)[0]
    ended: dict[str, str | None] = {}
    killed: list[float] = []

    def listen(event: Event) -> None:
        if event.ended:
            ended[f"{event.job.variant} {event.job.fold}"] = event.error
        elif event.job.variant == "endless" and not killed:
            killed.append(time.monotonic())
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    run_local(jobs, 2, listen)
    assert time.monotonic() - killed[0] < 10
    assert ended.keys() == {"quick 0", "quick 1", "endless 0", "endless 1"}
    for fold in range(2):
        assert "a worker process was killed (out of memory?). Run the same command again" in str(
            ended[f"endless {fold}"]
        )
    done = {f"{job.variant} {job.fold}" for job in jobs if job.done}
    assert {name for name, error in ended.items() if error is None} <= done <= {"quick 0", "quick 1"}
    assert not multiprocessing.active_children()


def test_threads_are_shared_out(tmp_path: Path, phantom: Path, study_of: StudyOf, monkeypatch: Any) -> None:
    """Each of the processes that were asked for gets its part of what this one may use, and never none."""
    asked: list[tuple[int, int]] = []

    class Pool:
        def __init__(self, processes: int, context: Any, start: Any, args: tuple[int, Any]) -> None:
            asked.append((processes, args[0]))

        def submit(self, work: Any, index: int, job: Any) -> Any:
            raise KeyboardInterrupt

        def shutdown(self, **_: bool) -> None:
            asked.append((0, 0))

    monkeypatch.setattr(executors, "ProcessPoolExecutor", Pool)
    jobs = plan(study_of(phantom, ("abmil",), folds=3), tmp_path)[0]
    for threads, processes in ((6, 2), (1, 2), (8, 16)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        with pytest.raises(KeyboardInterrupt):
            run_local(jobs, processes, lambda event: None)
    assert asked == [(2, 3), (0, 0), (2, 1), (0, 0), (3, 1), (0, 0)]


def test_what_the_listener_raises_ends_the_run(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    def listen(event: Event) -> None:
        raise KeyboardInterrupt

    jobs = plan(study_of(phantom, ("abmil",)), tmp_path)[0]
    with pytest.raises(KeyboardInterrupt):
        run_local(jobs, 1, listen)
    assert not any(job.done for job in jobs)


DRIVER = """
import sys, time
from pathlib import Path
from jigsawmil.study import executors
from jigsawmil.study.plan import plan
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.train.progress import Epoch
from jigsawmil.train.settings import Settings


def endless(job, on_epoch, worker):
    while True:
        on_epoch(Epoch(1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
        time.sleep(0.05)


executors.run_job = endless  # workers import this file too

if __name__ == "__main__":
    data, out = map(Path, sys.argv[1:])
    cohort = cohort_spec({"labels": str(data / "labels.csv"), "features": str(data / "features")})
    jobs = plan(Study(cohorts={"c": cohort}, variants={"v": Settings(method="abmil")}, folds=2), out)[0]
    while True:
        seen = set()

        def tell(event):
            if event.epoch and event.job.fold not in seen:
                seen.add(event.job.fold)
                print("runs", flush=True)

        try:
            print("begins", flush=True)
            executors.run_local(jobs, 2, tell)
            raise SystemExit("endless jobs have ended")
        except KeyboardInterrupt:
            print("stopped", flush=True)
            sys.stdin.readline()  # until we are told to go on
"""


@contextmanager
def driver(tmp_path: Path, phantom: Path) -> Iterator[subprocess.Popen[str]]:
    """Endless jobs in two processes, in a process group of its own as a terminal would have it."""
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, str(tmp_path / "driver.py"), str(phantom), str(tmp_path / "run")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, bufsize=1, start_new_session=True, **pipes)
    try:
        yield process
    finally:
        if group_of(process):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")


def wait_for(process: subprocess.Popen[str], word: str, times: int = 1) -> float:
    """Seconds until the driver has said it so many times."""
    assert process.stdout is not None
    start = time.monotonic()
    while times:
        line = process.stdout.readline()
        assert line, f"ended before {word!r}: {process.stderr.read() if process.stderr else ''}"
        times -= line.strip() == word
    return time.monotonic() - start


def group_of(process: subprocess.Popen[str], word: str = "") -> list[int]:
    """The driver and its children with that word in their command; the dead that nobody waited for do not count."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(group) == process.pid and state != "Z" and word in stat.with_name("cmdline").read_text():
                found.append(int(stat.parent.name))
        except OSError:  # gone in between
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_no_worker_outlives_ctrl_c_or_the_death_of_its_parent(tmp_path: Path, phantom: Path) -> None:
    with driver(tmp_path, phantom) as process:
        wait_for(process, "begins")
        while len(workers := group_of(process, "spawn_main")) < 2:
            time.sleep(0.01)
        time.sleep(0.3)
        for worker in workers:  # it is for the parent to end them, even while they still import
            os.kill(worker, signal.SIGINT)
        wait_for(process, "runs", 2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all alike
        assert wait_for(process, "stopped") < 5
        assert not group_of(process, "spawn_main")

        go_on(process)
        wait_for(process, "runs", 2)
        process.kill()
        end = time.monotonic() + 5
        while group_of(process) and time.monotonic() < end:
            time.sleep(0.05)
        assert not group_of(process)
        assert "Traceback" not in process.communicate()[1]


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, phantom: Path, study_of: StudyOf) -> None:
    study = study_of(phantom, ("abmil", "graph-mil"))

    def stop(event: Event) -> None:
        if event.job.variant == "graph-mil":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_validate(study, tmp_path / "run", listen=stop)
    before = contents(tmp_path / "run")
    assert len(before) == 4  # what is done stays
    assert not (tmp_path / "run" / "summary.csv").exists()
    cross_validate(study, tmp_path / "run")
    cross_validate(study, tmp_path / "undisturbed")
    after = contents(tmp_path / "run")
    assert before.items() <= after.items()
    assert after == contents(tmp_path / "undisturbed")


def test_gpus_are_open_to_jobs_whose_device_is_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert [open_gpus([device]) for device in ("auto", "cuda", "cpu", "cuda:1", "mps")] == [3, 3, 0, 0, 0]
    assert open_gpus(["cpu", "auto"]) == 3
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert open_gpus(["auto"]) == 0


def test_processes_are_spread_over_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for gpus, expected in ((0, []), (1, []), (3, [0, 1, 2, 0])):
        taken.clear()
        for number in range(4):
            use_gpu(number, gpus)
        assert taken == expected


def test_a_script_without_a_main_guard_is_told_what_is_missing(tmp_path: Path, phantom: Path) -> None:
    file, script = tmp_path / "study.toml", tmp_path / "script.py"
    cohort = f"labels = {str(phantom / 'labels.csv')!r}\nfeatures = {str(phantom / 'features')!r}"
    file.write_text(f"folds = 2\n[cohorts.c]\n{cohort}\n[variants.abmil]\nepochs = 1\n")
    script.write_text(
        "from jigsawmil import read_study, run_study\n"
        f"run_study(read_study({str(file)!r}), {str(tmp_path / 'run')!r}, processes=2)\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "no worker process could start; see its message above. Each" in ended.stderr
    assert 'below `if __name__ == "__main__":`' in ended.stderr
