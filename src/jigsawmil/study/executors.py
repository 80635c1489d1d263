"""Where jobs run: in this process, or in several processes of this machine."""

import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import resource_tracker
from typing import Any

import torch

from ..errors import JigsawmilError
from ..train.progress import Epoch
from .job import Job, Worker, run_job


@dataclass(frozen=True)
class Event:
    """What a running study tells: a job that has begun, an epoch of it, a job done, or one that failed and why."""

    job: Job
    epoch: Epoch | None = None
    error: str | None = None
    begun: bool = False

    @property
    def ended(self) -> bool:
        return self.epoch is None and not self.begun


Listener = Callable[[Event], None]


def run_local(jobs: Sequence[Job], processes: int, listen: Listener) -> None:
    """Run jobs; one that fails is reported and does not stop the rest. Ctrl-C stops all, and what is done stays.

    A worker killed from outside ends the others with it, and every unfinished job is reported as failed. A job has its
    share of the threads, however few jobs are left: a resumed one has the threads of one that was not interrupted.
    """
    threads = max(1, torch.get_num_threads() // max(1, processes))
    if processes <= 1 or len(jobs) <= 1:
        worker = Worker()
        with _threads(threads):
            for job in jobs:
                listen(Event(job, begun=True))
                listen(Event(job, error=attempt(job, partial(_tell, listen, job), worker)))
        return
    processes = min(processes, len(jobs))
    context = multiprocessing.get_context("spawn")  # OpenMP does not survive a fork
    reports: Any = context.Queue()
    others = multiprocessing.active_children()
    started = context.Value("i", 0)
    gpus = open_gpus(job.settings.train.device for job in jobs)
    pool = ProcessPoolExecutor(processes, context, _start_worker, (threads, gpus, reports, started))
    try:
        with block_sigint():  # workers are started here, and inherit it
            running = {pool.submit(_work, index, job): job for index, job in enumerate(jobs)}
        while running:
            done, _ = wait(running, timeout=0.2)
            _pass_on(reports, jobs, listen)
            for future in done:
                listen(Event(running.pop(future), error=_outcome(future, bool(started.value))))
    except BaseException:
        for child in set(multiprocessing.active_children()).difference(others):
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tell(listen: Listener, job: Job, epoch: Epoch) -> None:
    listen(Event(job, epoch))


def attempt(job: Job, on_epoch: Callable[[Epoch], None], worker: Worker) -> str | None:
    """None, or what went wrong: a message if the input or the disk is at fault, a traceback if we are."""
    try:
        run_job(job, on_epoch, worker)
    except JigsawmilError as error:
        return str(error)
    except OSError as error:
        return f"{error}. Free space there, or correct the permissions."
    except Exception:
        return traceback.format_exc()
    return None


@contextmanager
def block_sigint() -> Iterator[None]:
    """Ctrl-C reaches the parent, which ends its workers; it waits until this is over."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # the first process starts it, and that would end the deafness
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_reports: Any = None  # in a process of the pool: its way to speak to its parent


def _start_worker(threads: int, gpus: int, reports: Any, started: Any) -> None:
    global _reports
    with started.get_lock():
        number, started.value = started.value, started.value + 1
    use_gpu(number, gpus)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    torch.set_num_threads(threads)
    _reports = reports


def open_gpus(devices: Iterable[str]) -> int:
    """How many GPUs of this machine jobs with such devices can be spread over; 0 where each device is settled."""
    return torch.cuda.device_count() if {"auto", "cuda"}.intersection(devices) else 0


def use_gpu(number: int, gpus: int) -> None:
    """Spread processes over so many GPUs: `auto` and `cuda` mean this one from now on."""
    if gpus > 1:
        torch.cuda.set_device(number % gpus)


def end_with_parent() -> None:
    """From now on this process ends when its parent does. A parent that was killed cannot end its workers, and they
    would write beside those of the next run."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait_and_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_and_end, daemon=True).start()


@cache
def _worker() -> Worker:
    """Of this process of the pool, which works for one study."""
    return Worker()


def _work(index: int, job: Job) -> str | None:
    _reports.put((index, None))
    return attempt(job, lambda epoch: _reports.put((index, epoch)), _worker())


def _pass_on(reports: Any, jobs: Sequence[Job], listen: Listener) -> None:
    while True:
        try:
            index, epoch = reports.get_nowait()
        except queue.Empty:
            return
        listen(Event(jobs[index], epoch, begun=True))


def _outcome(future: Future[str | None], started: bool) -> str | None:
    """started: whether any worker has got as far as taking jobs; if not, it died while it read the caller's script."""
    try:
        return future.result()
    except BrokenProcessPool:
        if not started:
            return (
                "no worker process could start; see its message above. Each of them reads the script that "
                'started it: call this below `if __name__ == "__main__":`, or in one process.'
            )
        return (
            "a worker process was killed (out of memory?). Run the same command again, perhaps with fewer processes "
            "or less memory_gb: only what is missing runs."
        )
