"""Features of many slides: one after the other here, or by actors of a Ray cluster that each hold an encoder."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from ..errors import ConfigError, SlideError
from ..files import held, replacing
from .encoders import load_encoder
from .extract import Extracted, ExtractSettings, extract_slide

COLUMNS = ("slide", "status", "tiles", "tissue_mm2", "seconds", "error")


def extract_here(
    slides: Sequence[Path],
    out: Path,
    load: dict[str, Any],
    settings: ExtractSettings,
    on_tiles: Callable[[Path, int, int], None] = lambda slide, done, total: None,
) -> Iterator[Extracted]:
    """load: arguments of `load_encoder`."""
    encoder = load_encoder(**load, device=settings.device)
    for slide in slides:
        yield extract_slide(slide, out, encoder, settings, partial(on_tiles, slide))


def extract_on_ray(
    slides: Sequence[Path], out: Path, load: dict[str, Any], settings: ExtractSettings, *, actors: int | None = None
) -> Iterator[Extracted]:
    """The same files from a cluster that was joined; slides and `out` must be at the same paths on every node.

    An actor holds an encoder and has one slide at a time, so memory stays bounded: one actor a GPU, or one for every
    `workers` CPUs. A slide whose actor died is given to another one.
    """
    import ray

    have = ray.cluster_resources()
    gpus = int(have.get("GPU", 0))
    cpus = settings.workers if not gpus else 1
    count = min(len(slides), actors or gpus or max(1, int(have.get("CPU", 1) // cpus)))
    kind = ray.remote(num_cpus=cpus, num_gpus=1 if gpus else 0, max_restarts=-1, max_task_retries=3)(_Extractor)
    idle: list[Any] = [kind.remote(out, load, settings, bool(gpus)) for _ in range(count)]
    waiting = list(slides)
    running: dict[Any, tuple[Any, Path]] = {}
    while waiting or running:
        while waiting and idle:
            slide, actor = waiting.pop(0), idle.pop()
            running[actor.extract.remote(slide)] = (actor, slide)
        done, _ = ray.wait(list(running))
        for ref in done:
            actor, slide = running.pop(ref)
            idle.append(actor)
            try:
                yield ray.get(ref)
            except ray.exceptions.RayTaskError as error:  # raised by our own code on the worker
                if isinstance(error.cause, ConfigError):
                    raise error.cause from error
                yield Extracted(slide.stem, "failed", error=f"{slide.name}: {error.cause}")
            except ray.exceptions.RayError as error:  # an actor that could not begin, or died too often
                last = str(error).strip().splitlines()[-1].strip()
                yield Extracted(slide.stem, "failed", error=f"{slide.name}: Ray gave it up: {last}")


class _Extractor:
    """An encoder, loaded once, on a worker."""

    def __init__(self, out: Path, load: dict[str, Any], settings: ExtractSettings, gpu: bool) -> None:
        torch.set_num_threads(settings.workers)
        self.out, self.settings = out, replace(settings, device="cuda") if gpu else settings
        self.encoder = load_encoder(**load, device=self.settings.device)

    def extract(self, slide: Path) -> Extracted:
        if not self.out.exists():
            raise SlideError(f"{self.out}: not seen from this node. Extraction needs storage that all nodes share.")
        return extract_slide(slide, self.out, self.encoder, self.settings)


def write_account(one: Extracted, features: Path) -> None:
    """`extracted.csv` beside the features: what became of every slide. Processes that share the folder take turns."""
    if one.status in ("already", "elsewhere"):
        return
    path = features / "extracted.csv"
    row = pd.DataFrame([{name: getattr(one, name) for name in COLUMNS}])
    with _turn(features / ".extracted.lock"), replacing(path) as temporary:
        if path.exists():
            before = pd.read_csv(path, dtype={"slide": str, "error": str})
            row = pd.concat([before[before["slide"] != one.slide].astype(object), row.astype(object)])
        row.sort_values("slide").round({"tissue_mm2": 4, "seconds": 2}).to_csv(temporary, index=False)


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    while True:
        with held(lock) as mine:
            if mine:
                yield
                return
        time.sleep(0.05)
