"""One model fitted by several processes of this machine, each with its share of every batch: one a GPU, or a core.

This process is the first of the team; the others are started here, read the cohort for themselves, and end with it.
"""

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from ..cohort.splits import Fold
from ..errors import ConfigError, StudyError
from ..nn.model import Model
from ..train.feed import Feed
from ..train.fit import Epoch, Progress, pick_device
from ..train.settings import Settings
from ..train.team import Team
from .run import CohortSpec, fit_split

PATIENCE = timedelta(minutes=30)  # the others wait so long for a process that reads a huge slide


def fit_together(
    source: CohortSpec,
    feed: Feed,
    split: Fold,
    settings: Settings,
    seed: int,
    devices: int,
    *,
    memory_gb: float,
    on_epoch: Callable[[Epoch], None] | None = None,
    state: Path | None = None,
) -> tuple[Model, Progress]:
    """`fit_split` by `devices` processes: the same model as one process gives with the same batch size, up to the
    order of floating-point sums. feed: this process's own; memory_gb: for the prepared slides of each of the others."""
    if settings.batch_size < devices:
        raise ConfigError(
            f"--devices {devices} with batches of {settings.batch_size}: a batch is shared out, so it needs at least "
            f"as many slides as there are processes. Give --batch-size {devices} or a multiple of it."
        )
    kind = pick_device(settings.device).type
    found = torch.cuda.device_count()
    if kind == "cuda" and devices > found:
        raise ConfigError(f"--devices {devices}, but torch sees {found} CUDA devices here. Give at most that many.")
    context = multiprocessing.get_context("spawn")
    threads = max(1, torch.get_num_threads() // devices)
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        given = (source, split, settings, seed, devices, threads, kind, memory_gb, state, meeting)
        others = [context.Process(target=_other, args=(rank, *given), daemon=True) for rank in range(1, devices)]
        for process in others:
            process.start()
        try:
            with _joined(0, devices, threads, kind, meeting):
                own = replace(settings, device=_device(kind, 0))
                return fit_split(feed, split, own, seed, 0, on_epoch, state, Team(0, devices))
        except RuntimeError as error:  # gloo's and nccl's
            raise StudyError(
                f"one of the {devices} processes failed, see above for its own words ({error}). Run the same command "
                "again; it goes on where it last saved."
            ) from error
        finally:
            for process in others:
                process.terminate()
                process.join()


def _other(
    rank: int,
    source: CohortSpec,
    split: Fold,
    settings: Settings,
    seed: int,
    devices: int,
    threads: int,
    kind: str,
    memory_gb: float,
    state: Path | None,
    meeting: str,
) -> None:
    graph = settings.graph_config() if settings.needs_graph else None
    with _joined(rank, devices, threads, kind, meeting):  # first: if reading fails, the others learn of it
        feed = Feed(source.read(), graph, settings.grid, memory_gb=memory_gb, level=settings.level)
        own = replace(settings, device=_device(kind, rank))
        fit_split(feed, split, own, seed, 0, None, state, Team(rank, devices))


@contextmanager
def _joined(rank: int, size: int, threads: int, kind: str, meeting: str) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    backend = "nccl" if kind == "cuda" else "gloo"
    if kind == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=size, timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()
        torch.set_num_threads(before)


def _device(kind: str, rank: int) -> str:
    return f"cuda:{rank}" if kind == "cuda" else kind
