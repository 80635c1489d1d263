"""Features of many slides, one after the other, and the account of what became of each."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from ..bags.formats.trident import extent
from ..bags.tile_spec import TileSpec
from ..files import guarded, held, replacing, unguarded
from .encoders import encoder_spec, load_encoder
from .extract_one import NO_TISSUE, Extracted, ExtractSettings, check_masks, extract_slide, features_folder, keep_memory
from .find import find_slides
from .scale import fit_tiles

COLUMNS = ("slide", "status", "tiles", "tissue_mm2", "seconds", "error")


def extract_slides(
    slides: str | Path | Iterable[str | Path],
    out: str | Path,
    encoder: str = "efficientnet-lite0",
    *,
    weights: str | Path | None = None,
    trust_code: bool = False,
    settings: ExtractSettings | None = None,
) -> list[Extracted]:
    """What `jigsawmil extract` does: features of slides, one file each, and the outcome of every slide.

    slides: files, or folders of them. encoder, weights, trust_code: as in `load_encoder`. settings: tiles as the
    encoder asks for them by default; in pixels of the image if all slides are plain images of unknown resolution.

    Example: `extract_slides("slides", "features", "uni")`
    """
    spec = encoder_spec(encoder)
    given = [slides] if isinstance(slides, str | Path) else slides
    files = find_slides(given).files
    if settings is None:
        settings = ExtractSettings(tiles=fit_tiles(files, TileSpec(patch=spec.patch, mpp=spec.mpp))[0])
    check_masks(settings.masks, files)
    load = {"name": encoder, "weights": weights, "trust_code": trust_code}
    return list(extract_here(files, Path(out), load, settings))


def extract_here(
    slides: Sequence[Path],
    out: Path,
    load: dict[str, Any],
    settings: ExtractSettings,
    on_tiles: Callable[[Path, int, int], None] = lambda slide, done, total: None,
) -> Iterator[Extracted]:
    """Features of each slide, and `extracted.csv` beside them. load: arguments of `load_encoder`."""
    if settings.device == "cpu":
        keep_memory()
    encoder = load_encoder(**load, device=settings.device)
    waiting, again = deque(slides), set[Path]()
    while waiting:
        slide = waiting.popleft()
        found = extract_slide(slide, out, encoder, settings, partial(on_tiles, slide))
        if found.status == "elsewhere" and slide not in again:  # by the end the other process is done with it, or dead
            again.add(slide)
            waiting.append(slide)
        else:
            write_account(found, features_folder(out, encoder.spec.name, settings))
            yield found


def write_account(one: Extracted, features: Path) -> None:
    """`extracted.csv` beside the features: what became of every slide. Processes that share the folder take turns."""
    refused = one.status == "failed" and any((features / f"{one.slide}{end}").exists() for end in (".h5", NO_TISSUE))
    path = features / "extracted.csv"
    if one.known and not _says(path, one) and one.status == "already":  # by a run that was killed before it said so
        tiles, tissue = extent(features / f"{one.slide}.h5")
        one = replace(one, status="done", tiles=tiles, tissue_mm2=tissue, seconds=math.nan, known=False)
    known = one.known and _says(path, one)
    if known or refused or one.status == "elsewhere":  # what is there stays, and what is said of it
        return
    row = pd.DataFrame([{name: getattr(one, name) for name in COLUMNS}]).round({"tissue_mm2": 4, "seconds": 2})
    features.mkdir(parents=True, exist_ok=True)
    with _turn(features / ".extracted.lock"), replacing(path) as temporary:
        if path.exists():
            before = _read(path)
            new = row.astype(object).where(row.notna(), "").astype(str)
            row = pd.concat([before[before["slide"] != one.slide], new])
        guarded(row.sort_values("slide")).to_csv(temporary, index=False)


def _read(account: Path) -> pd.DataFrame:
    return pd.read_csv(account, dtype=str, keep_default_na=False).map(unguarded)  # a slide may be called NA


def _says(account: Path, one: Extracted) -> bool:
    if not account.exists():
        return False
    status = "done" if one.status == "already" else one.status
    return (one.slide, status) in _said(account, account.stat().st_mtime_ns)


@lru_cache(maxsize=1)  # of a folder that is all done, one reading for all its slides
def _said(account: Path, changed: int) -> set[tuple[str, str]]:
    said = _read(account)
    return set(zip(said["slide"], said["status"], strict=True))


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    while True:
        with held(lock) as mine:
            if mine:
                yield
                return
        time.sleep(0.05)
