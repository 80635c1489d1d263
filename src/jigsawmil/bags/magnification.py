"""How much of a slide a patch shows: compared between the slides of a cohort, and between a model and new slides."""

from typing import NamedTuple, Protocol

from .tile_spec import TileSpec

OTHER = 1.5  # times as large: another magnification
DIFFERENT = 1.1  # times as large: more than scanners of one magnification differ


class Sized(Protocol):
    """What states how large patches are: headers of features, and bags but for the tiles."""

    @property
    def patch_size(self) -> float | None: ...
    @property
    def mpp(self) -> float | None: ...
    @property
    def unit(self) -> str: ...


class Magnification(NamedTuple):
    """edge: of a patch in microns. pixel: microns of one of its pixels, as the encoder saw them. None if unknown."""

    edge: float | None = None
    pixel: float | None = None

    @property
    def known(self) -> bool:
        return self.edge is not None

    @property
    def words(self) -> str:
        edge = "of unknown size" if self.edge is None else f"of {self.edge:.4g} microns"
        return f"patches {edge}" + ("" if self.pixel is None else f" at {self.pixel:.3g} microns per pixel")


def magnification(patches: Sized, tiles: TileSpec | None = None) -> Magnification:
    """By the size in level-0 pixels and their resolution, else by how the slide was cut."""
    scale = 1.0 if patches.unit == "um" else patches.mpp
    return of_tiles(patches.patch_size * scale if patches.patch_size and scale else None, tiles)


def of_tiles(edge: float | None, tiles: TileSpec | None) -> Magnification:
    pixel = None if tiles is None else tiles.mpp
    if edge is None and tiles is not None and tiles.mpp is not None:
        edge = tiles.patch * tiles.mpp
    return Magnification(edge, pixel)


def ratio(a: Magnification, b: Magnification) -> float:
    """How many times as large, by whatever differs more; 1 for what is unknown."""
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x and y]
    return max((max(x, y) / min(x, y) for x, y in pairs), default=1.0)
