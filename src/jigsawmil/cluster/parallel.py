"""One model fitted by several processes of this machine, each with its share of every batch: one a GPU, or a core.

This process is the first of the team; the others are started here, read the cohort for themselves, and end with it.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ..cohort.splits import Fold
from ..errors import ConfigError, StudyError
from ..nn.model import Model
from ..study.executors import block_sigint, end_with_parent
from ..study.study import CohortSpec
from ..train.devices import pick_device
from ..train.feed import Feed
from ..train.fold import fit_split
from ..train.progress import Epoch, Progress
from ..train.settings import Settings
from .team import Team

PATIENCE = timedelta(minutes=30)  # the others wait so long for a process that reads a huge slide
NOTICE = 10.0  # seconds in which a process that failed has ended
GRACE = 30.0  # seconds in which this process finds out by itself that another one ended


def fit_together(
    feed: Feed,
    split: Fold,
    settings: Settings,
    seed: int,
    fold: int,
    on_epoch: Callable[[Epoch], None] | None = None,
    state: Path | None = None,
    *,
    member: int | None = None,
    source: CohortSpec,
    devices: int,
    memory_gb: float,
) -> tuple[Model, Progress]:
    """`fit_split` by `devices` processes: the same model as one process gives with the same batch size, up to the
    order of floating-point sums. feed: this process's own. source, memory_gb: from which the others read the cohort,
    and what each of them may keep of it."""
    if settings.train.batch_size < devices:
        raise ConfigError(
            f"--devices {devices} with batches of {settings.train.batch_size}: each batch is split between the "
            f"processes, so it needs at least one slide per process. Give --batch-size {devices} or a multiple of it."
        )
    kind = pick_device(settings.train.device).type
    found = torch.cuda.device_count()
    if kind == "cuda" and devices > found:
        raise ConfigError(f"--devices {devices}, but torch sees {found} CUDA devices here. Give at most that many.")
    context = multiprocessing.get_context("spawn")
    threads = max(1, torch.get_num_threads() // devices)
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        assigned = Assignment(
            source, split, settings, seed, fold, devices, threads, kind, memory_gb, state, meeting, member
        )
        others, lines = [], []
        for rank in range(1, devices):
            line, theirs = context.Pipe()
            process = context.Process(target=_other, args=(rank, theirs), daemon=True)
            with block_sigint():
                process.start()
            theirs.close()  # the other process holds the only one: when it ends, the line does
            others.append(process)
            lines.append(line)
        try:
            with Watch(others) as watch, ExitStack() as team:
                try:
                    for line in lines:
                        line.recv()  # it is there; an EOFError where it died
                        line.send(assigned)
                    team.enter_context(_joined(0, assigned))
                    own = settings.replace(device=_device(kind, 0))
                    team_of_all = Team(0, devices, own.train.device)
                    return fit_split(feed, split, own, seed, fold, on_epoch, state, team_of_all, member=member)
                except (RuntimeError, EOFError, ConnectionError) as error:  # another process left, or an error of ours
                    if watch.fell.wait(NOTICE):
                        raise StudyError(watch.words) from error
                    raise
        finally:
            for process in others:
                process.terminate()
                process.join()


@dataclass(frozen=True)
class Assignment:
    """What every process of a team is told. kind: of device. meeting: the file by which they find one another."""

    source: CohortSpec
    split: Fold
    settings: Settings
    seed: int
    fold: int
    size: int
    threads: int
    kind: str
    memory_gb: float
    state: Path | None
    meeting: str
    member: int | None = None


class Watch:
    """Sees when another process ends before its work is done; `words` then say which one, and how it ended."""

    def __init__(self, others: Sequence[BaseProcess]) -> None:
        self.others = others
        self.fell, self.words = threading.Event(), ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            running = [process.sentinel for process in self.others if process.exitcode is None]
            failed = [(rank, process.exitcode) for rank, process in enumerate(self.others, 2) if process.exitcode]
            if failed:
                self.words = _how_it_ended(*failed[0], len(self.others) + 1)
                self.fell.set()
                if not self._over.wait(GRACE):  # gloo notices at once; nccl may wait for the dead, and not be stopped
                    print(f"Error: {self.words}", file=sys.stderr, flush=True)
                    os._exit(1)
            elif running:
                wait(running, timeout=0.2)
            else:  # all have done their work
                return


def _how_it_ended(number: int, code: int, size: int) -> str:
    how = f"exit code {code}" + (f", {signal.strsignal(-code)}: out of memory?" if code < 0 else ", see above")
    return (
        f"process {number} of {size} ended before training finished ({how}). Run the same command again to resume from "
        "the last save."
    )


def _other(rank: int, line: Any) -> None:
    """The work of another process, which is told its task once it has imported everything: a long list of slides that
    is handed over at the start, to a process that dies before it has read them, would block the first for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process hears Ctrl-C, and ends this one
    end_with_parent()
    line.send(rank)
    assigned: Assignment = line.recv()
    settings = assigned.settings.replace(device=_device(assigned.kind, rank))
    graph = settings.graph if settings.needs_graph else None
    with _joined(rank, assigned):  # first: if reading fails, the others learn of it
        feed = Feed(
            assigned.source.read(), graph, settings.model.raster, memory_gb=assigned.memory_gb, level=settings.level
        )
        team = Team(rank, assigned.size, settings.train.device)
        numbers = (assigned.seed, assigned.fold)
        fit_split(feed, assigned.split, settings, *numbers, None, assigned.state, team, member=assigned.member)


@contextmanager
def _joined(rank: int, assigned: Assignment) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(assigned.threads)
    backend = "nccl" if assigned.kind == "cuda" else "gloo"
    if assigned.kind == "cuda":
        torch.cuda.set_device(rank)
    where = f"file://{assigned.meeting}"
    dist.init_process_group(backend, init_method=where, rank=rank, world_size=assigned.size, timeout=PATIENCE)
    try:
        # One that fails at once must not leave while another still connects: torch counts the group that failed, and
        # the next one of that process would wait for ever under a number that nobody else has.
        dist.all_reduce(torch.zeros(1, device=_device(assigned.kind, rank)))
        yield
    finally:
        dist.destroy_process_group()
        torch.set_num_threads(before)


def _device(kind: str, rank: int) -> str:
    return f"cuda:{rank}" if kind == "cuda" else kind
