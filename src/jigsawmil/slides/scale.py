"""In which pixels slides are cut: by microns if their resolution is known, else, of plain images alone, as they are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..bags.tile_spec import TileSpec
from ..errors import ConfigError, SlideError
from .slide import PLAIN, Resolution, resolution_of

SHOWN = 3  # kinds of resolution that are named


def fit_tiles(
    files: Sequence[Path], tiles: TileSpec, slide_mpp: float | None = None, *, asked: bool = False
) -> tuple[TileSpec, list[str]]:
    """Tiles for these slides, and notes for the user about resolutions.

    If every file is a plain image that states no resolution, tiles are cut in pixels of the image. A single file that
    states one leaves the tiles in microns, and the silent files are refused one by one: scales are never mixed.
    slide_mpp: what the caller states for silent files. asked: the caller asked for tiles in microns.

    Example: `fit_tiles([Path("core.png")], TileSpec(patch=64))`
    """
    if slide_mpp is not None or tiles.mpp is None or not all(file.suffix.lower() in PLAIN for file in files):
        return tiles, []
    found = [one for one in map(_look, files) if one is not None]
    if not found or not all(one.plain for one in found):
        return tiles, []
    if any(one.mpp is not None for one in found):
        return tiles, _taken(found)
    if asked:
        raise ConfigError(
            f"--mpp {tiles.mpp:g}: no resolution in {_count(len(found))}, such as {files[0].name}, so tiles cannot be "
            "cut in microns. State the microns per pixel with --slide-mpp, or leave --mpp out: --patch is then in "
            "pixels of the image."
        )
    inside = replace(tiles, mpp=None)
    return inside, [
        f"Note: no resolution in {_count(len(found))}: tiles are {inside.words}. Images of several resolutions must "
        "not be mixed. State the microns per pixel with --slide-mpp if they are known."
    ]


def _look(file: Path) -> Resolution | None:
    """None for a file that cannot be read; it is refused in its turn."""
    try:
        return resolution_of(file)
    except SlideError:
        return None


def _taken(found: Sequence[Resolution]) -> list[str]:
    kinds = Counter((f"{one.mpp:.4g}", one.where) for one in found if one.mpp is not None)
    notes = [
        f"Note: {mpp} microns per pixel taken from {where} of {_count(count)}."
        for (mpp, where), count in kinds.most_common(SHOWN)
    ]
    more = [f"Note: {len(kinds) - SHOWN} further resolutions were taken."] if len(kinds) > SHOWN else []
    silent = sum(one.mpp is None for one in found)
    return notes + more + ([f"Note: no resolution in {_count(silent)}; give --slide-mpp for these."] if silent else [])


def _count(images: int) -> str:
    return f"{images} image{'s' * (images != 1)}"
