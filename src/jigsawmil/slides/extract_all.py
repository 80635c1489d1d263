"""Features of many slides: one after the other here, or by actors of a Ray cluster that each hold an encoder."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from ..errors import SlideError
from ..files import replacing
from .encoders import load_encoder
from .extract import Extracted, ExtractSettings, extract_slide, features_folder

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
            except ray.exceptions.RayError as error:
                first = str(error).strip().splitlines()[0]
                yield Extracted(slide.stem, "failed", error=f"{slide.name}: Ray gave it up: {first}")


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


def write_account(found: Sequence[Extracted], out: Path, encoder: str, settings: ExtractSettings) -> Path:
    """`extracted.csv` beside the features: what became of every slide; earlier rows of other slides are kept."""
    path = features_folder(out, encoder, settings) / "extracted.csv"
    rows = pd.DataFrame([{name: getattr(row, name) for name in COLUMNS} for row in found], columns=list(COLUMNS))
    told = rows[~rows["status"].isin(["already", "elsewhere"])]
    if path.exists():
        before = pd.read_csv(path, dtype={"slide": str, "error": str})
        kept = before[~before["slide"].isin(told["slide"])]
        told = pd.concat([part for part in (kept, told) if len(part)]) if len(kept) or len(told) else told
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        told.sort_values("slide").to_csv(temporary, index=False)
    return path
