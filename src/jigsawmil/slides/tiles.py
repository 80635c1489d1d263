"""Tiles: one lattice a slide, kept where there is enough tissue."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..bags.tile_spec import DEFAULT_TILES, TileSpec
from ..errors import SlideError
from .slide import Picture, Slide
from .tissue import Tissue

SNAP = 0.03  # a resolution this close to a whole fraction of the slide's own is taken as that: no pixel is blurred
ENLARGED = 1.25  # the most that a slide's pixels are enlarged
CONTOUR, TILE = (0, 130, 60), (20, 60, 200)


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Tiles of one slide, row by row. coords: (n, 2), top-left corners, x and y, level-0 pixels."""

    coords: NDArray[np.int64]
    patch_size_level0: int  # edge of a tile in level-0 pixels
    spec: TileSpec
    level0_mpp: float | None  # None if unknown
    slide_size: tuple[int, int]  # width and height, level-0 pixels

    def __len__(self) -> int:
        return len(self.coords)

    def read(self, slide: Slide, index: int) -> Picture:
        """Tile `index` as (patch, patch, 3); white beyond the slide."""
        x, y = self.coords[index].tolist()
        return slide.read(x, y, self.patch_size_level0, self.spec.patch)


def make_tiles(slide: Slide, tissue: Tissue, spec: TileSpec = DEFAULT_TILES) -> Tiles:
    """The tiles with enough tissue, on a grid that starts at the corner of the scanned area.

    The level-0 edge is a whole number of pixels, so the lattice is exact.

    Example: `make_tiles(slide, find_tissue(slide)).coords  # (tile, 2)`
    """
    edge, step = (_edge(pixels, spec, slide) for pixels in (spec.patch, spec.patch - spec.overlap))
    if edge * ENLARGED < spec.patch:
        own = slide.needed_mpp
        raise SlideError(
            f"{slide.path.name}: scanned at {own:.3g} microns per pixel, tiles were requested at "
            f"{spec.mpp:.3g}; tiles cannot be finer than the scan. Ask for tiles at {own:.3g} or coarser (--mpp)."
        )
    x0, y0, width, height = slide.bounds
    columns, rows = (
        max(0, -(-(side - edge) // step)) + 1 for side in (width, height)
    )  # to the last one that is needed
    y, x = np.mgrid[0:rows, 0:columns].reshape(2, -1) * step + np.array([[y0], [x0]])
    enough = coverage(tissue, x, y, edge) >= spec.share - 1e-9
    return Tiles(
        coords=np.stack([x[enough], y[enough]], axis=1).astype(np.int64),
        patch_size_level0=edge,
        spec=spec,
        level0_mpp=slide.mpp,
        slide_size=slide.size,
    )


def _edge(pixels: int, spec: TileSpec, slide: Slide) -> int:
    return pixels if spec.mpp is None else level0_edge(pixels, spec.mpp, slide.needed_mpp)


def level0_edge(pixels: int, mpp: float, level0_mpp: float) -> int:
    """Level-0 pixels that `pixels` at `mpp` span: 512 for 256 at 0.5 on a slide of 0.25, or of 0.2527."""
    ratio = mpp / level0_mpp
    whole = max(1, round(ratio))
    return max(1, round(pixels * (whole if abs(ratio - whole) <= SNAP * whole else ratio)))


def coverage(tissue: Tissue, x: NDArray[np.int64], y: NDArray[np.int64], edge: int) -> NDArray[np.float64]:
    """(tile,): share of each square's area that is tissue; what lies beyond the slide is none."""
    total = np.pad(np.cumsum(np.cumsum(tissue.mask, axis=0, dtype=np.float64), axis=1), ((1, 0), (1, 0)))

    def below(x: NDArray, y: NDArray) -> NDArray[np.float64]:
        """Mask pixels above and to the left of a fractional place."""
        x, y = (
            np.clip(at / tissue.scale, 0, side) for at, side in ((x, tissue.mask.shape[1]), (y, tissue.mask.shape[0]))
        )
        column, row = (np.minimum(at.astype(int), side - 2) for at, side in ((x, total.shape[1]), (y, total.shape[0])))
        u, v = x - column, y - row
        upper = (1 - u) * total[row, column] + u * total[row, column + 1]
        return (1 - v) * upper + v * ((1 - u) * total[row + 1, column] + u * total[row + 1, column + 1])

    inside = below(x + edge, y + edge) - below(x, y + edge) - below(x + edge, y) + below(x, y)
    return inside * (tissue.scale / edge) ** 2


def preview(slide: Slide, tissue: Tissue, tiles: Tiles, max_side: int = 1600) -> Picture:
    """The slide with the outline of its tissue and its tiles, for a look."""
    from PIL import Image, ImageDraw

    from .geojson_mask import polygons

    image, scale = slide.thumbnail(max_side)
    picture = Image.fromarray(image)
    draw = ImageDraw.Draw(picture, "RGBA")
    for x, y in (tiles.coords / scale).tolist():
        edge = tiles.patch_size_level0 / scale
        draw.rectangle((x, y, x + edge, y + edge), outline=(*TILE, 130), fill=(*TILE, 18))
    for ring in (ring for piece in polygons(tissue) for ring in piece):
        draw.line([tuple(corner) for corner in (ring / scale).tolist()], fill=(*CONTOUR, 255), width=2)
    return np.asarray(picture)
