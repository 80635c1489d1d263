"""slideflow: `<slide>.pt` beside `<slide>.index.npz` (or `.npy`) with tile centres, level-0 pixels.

`bags_config.json` gives the tile edge in microns, or as a magnification ("20x"); level-0 pixels need the slide's mpp.
The edge follows slideflow's own rounding, so that corners come out where it cut them.
"""

import json
import re
from pathlib import Path
from typing import Any

from ...errors import FeatureError
from . import siblings
from .arrays import stored_pt
from .opened import Opened
from .source import Options, Source

SUFFIXES = (".pt",)


def matches(file: Opened) -> bool:
    return file.path.suffix == ".pt" and _index_file(file.path) is not None


def scan(file: Opened, options: Options) -> Source:
    path, slide_id = file.path, file.slide_id
    where = _index_file(path) if options.coords is None else siblings.named_by_caller(options.coords, slide_id)
    if where is None:
        raise siblings.missing(path, f"{slide_id}.index.npz and {slide_id}.index.npy beside it")
    config = _config(path.parent / "bags_config.json")
    return Source(
        path=path,
        slide_id=slide_id,
        features=stored_pt(path),
        coords=siblings.stored_coords(where),
        unit="px",
        centred=True,
        patch_size=None if options.mpp is None else tile_edge(config, options.mpp),
        encoder=_encoder(config),
    )


def tile_edge(config: dict[str, Any], mpp: float) -> float | None:
    """Tile edge in level-0 pixels of a slide of that resolution; None where the folder says nothing."""
    tile_um, tile_px = config.get("tile_um"), config.get("tile_px")
    if isinstance(tile_um, int | float):
        return float(int(tile_um / mpp))
    magnification = re.fullmatch(r"([\d.]+)x", str(tile_um).lower())
    if magnification and isinstance(tile_px, int):
        # slideflow reads the pyramid level nearest to it, taking 10x as one micron a pixel.
        downsample = round(10 / (float(magnification[1]) * mpp))
        return float(tile_px * max(downsample, 1))
    return None


def _index_file(path: Path) -> Path | None:
    return siblings.first_existing(path.with_name(f"{path.stem}.index{ending}") for ending in (".npz", ".npy"))


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise FeatureError(f"{path}: not valid JSON ({error}). Export the bags again, or remove the file.") from error
    return config if isinstance(config, dict) else {}


def _encoder(config: dict[str, Any]) -> str | None:
    extractor = config.get("extractor")
    name = extractor.get("class") if isinstance(extractor, dict) else None
    return name.rsplit(".", 1)[-1] if isinstance(name, str) else None
