"""Where jobs run: in this process, or in several processes of this machine."""

import multiprocessing
import os
import queue
import signal
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import JigsawmilError
from ..train.fit import Epoch
from .run import Job, run_job


@dataclass(frozen=True)
class Event:
    """What a running study tells: an epoch of a job, a job done, or a job that failed and why."""

    job: Job
    epoch: Epoch | None = None
    error: str | None = None

    @property
    def ended(self) -> bool:
        return self.epoch is None


Listener = Callable[[Event], None]


def run_local(jobs: Sequence[Job], processes: int, listen: Listener) -> None:
    """Run jobs; one that fails is told and does not stop the rest. Ctrl-C stops all, and what is done stays."""
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            listen(Event(job, error=_attempt(job, lambda epoch, job=job: listen(Event(job, epoch)))))  # type: ignore[misc]
        return
    processes = min(processes, len(jobs))
    context = multiprocessing.get_context("spawn")  # OpenMP does not survive a fork
    told: Any = context.Queue()
    threads = max(1, (os.cpu_count() or 1) // processes)
    pool = ProcessPoolExecutor(processes, context, _start_worker, (threads, told))
    try:
        running: dict[Future[str | None], Job] = {pool.submit(_work, index, job): job for index, job in enumerate(jobs)}
        while running:
            done, _ = wait(running, timeout=0.2)
            _pass_on(told, jobs, listen)
            for future in done:
                listen(Event(running.pop(future), error=_outcome(future)))
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _attempt(job: Job, on_epoch: Callable[[Epoch], None]) -> str | None:
    """None, or what went wrong: a message where the input is at fault, a traceback where we are."""
    try:
        run_job(job, on_epoch)
    except JigsawmilError as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    return None


_told: Any = None  # the worker's way to speak to its parent


def _start_worker(threads: int, told: Any) -> None:
    global _told
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers
    torch.set_num_threads(threads)
    _told = told


def _work(index: int, job: Job) -> str | None:
    return _attempt(job, lambda epoch: _told.put((index, epoch)))


def _pass_on(told: Any, jobs: Sequence[Job], listen: Listener) -> None:
    while True:
        try:
            index, epoch = told.get_nowait()
        except queue.Empty:
            return
        listen(Event(jobs[index], epoch))


def _outcome(future: Future[str | None]) -> str | None:
    try:
        return future.result()
    except BrokenProcessPool:
        return "a worker process was killed (out of memory?). Run the same command again: it does what is missing."
