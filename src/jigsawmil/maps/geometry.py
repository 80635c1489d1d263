"""Patches as squares of a slide, and squares as pixels: where a map lies is decided here and nowhere else."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bags.bag import Bag
from ..bags.formats.trident import slide_size
from ..bags.spacing import spacing
from ..errors import FeatureError, SlideError
from ..slides.slide import Slide

Floats = NDArray[np.float64]
Picture = NDArray[np.uint8]


class Squares(NamedTuple):
    """Patches of a slide: top-left corners (patch, 2), x then y, and the edge they share."""

    corners: Floats
    edge: float

    @property
    def low(self) -> Floats:
        return self.corners.min(axis=0)

    @property
    def high(self) -> Floats:
        return self.corners.max(axis=0) + self.edge


class Canvas(NamedTuple):
    """A picture of a part of a slide. Pixel (row, column) shows origin + [column, column + 1) * scale along x, and
    origin + [row, row + 1) * scale along y."""

    picture: Picture  # (height, width, 3)
    origin: tuple[float, float]  # x, y
    scale: float  # level-0 pixels (or the unit of the corners) a pixel

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom, top, as matplotlib wants them; y runs down."""
        height, width = self.picture.shape[:2]
        x, y = self.origin
        return x, x + width * self.scale, y + height * self.scale, y

    def values(self, squares: Squares, values: Floats) -> Floats:
        """(height, width): the patches' values on this canvas, nan beside them."""
        return patch_image(*squares, values, scale=self.scale, shape=self.picture.shape[:2], origin=self.origin)


def squares_of(bag: Bag) -> Squares:
    """In the unit of the bag; patches without a stated edge get the usual distance between neighbours.

    Example: `squares_of(bag)`
    """
    if not bag.placed:
        raise FeatureError(
            f"{bag.slide_id}: features without coordinates, so no map can be drawn. Give patch features that have "
            "coordinates."
        )
    corners = bag.coords.numpy()
    return Squares(corners, bag.patch_size or spacing(corners))


def level0_squares(bag: Bag, mpp: float | None = None) -> Squares:
    """In level-0 pixels. mpp: of the slide, for bags in microns.

    Example: `level0_squares(bag, mpp=0.25)`
    """
    if bag.unit == "px":
        return squares_of(bag)
    mpp = mpp or bag.mpp
    if mpp is None:
        raise FeatureError(
            f"{bag.slide_id}: the coordinates are in microns and the pixel size is unknown; expected level-0 pixels. "
            "State the microns per level-0 pixel with --slide-mpp, or give a slide that states it."
        )
    corners, edge = squares_of(bag)
    return Squares(corners / mpp, edge / mpp)


def patch_image(
    corners: Floats,
    edge: float,
    values: Floats,
    *,
    scale: float,
    shape: tuple[int, int],
    origin: tuple[float, float] = (0.0, 0.0),
) -> Floats:
    """(height, width) of `shape`: each pixel has the value of the patch under its centre, nan where there is none.

    Pixels lie as in `Canvas`; corners, edge and origin are in one unit, of which a pixel is `scale`. Where patches
    overlap, the one with the larger magnitude lies on top. A patch smaller than a pixel has the pixel of its centre.
    No lattice is assumed.
    """
    image = np.full(shape, np.nan)
    low, high = (corners - origin) / scale, (corners + edge - origin) / scale
    first, last = np.ceil(low - 0.5).astype(int), np.ceil(high - 0.5).astype(int)
    thin = last <= first
    first = np.where(thin, np.floor((low + high) / 2).astype(int), first)
    last = np.where(thin, first + 1, last)
    first, last = np.clip(first, 0, None), np.clip(last, 0, None)  # a negative index would wrap around
    for i in np.argsort(np.abs(values), kind="stable"):
        (left, top), (right, bottom) = first[i], last[i]
        image[top:bottom, left:right] = values[i]
    return image


def blend(picture: Picture, colours: Floats, opacity: float) -> Picture:
    """Colours (height, width, 4) in [0, 1] over a picture, which is grey below them: a red stain is no red colour.

    Where a colour's alpha is 0 the picture is untouched.
    """
    result = picture.copy()
    covered = colours[..., 3] > 0
    alpha = colours[covered, 3:] * opacity
    grey = picture[covered] @ np.array([0.299, 0.587, 0.114])
    result[covered] = np.rint(grey[:, None] * (1 - alpha) + colours[covered, :3] * 255 * alpha)
    return result


def blank(shape: tuple[int, int]) -> Picture:
    """A page without a slide: light grey, for white is a colour of the maps."""
    return np.full((*shape, 3), 236, np.uint8)


def canvas_around(squares: Squares, slide: Slide | None, pixels: int = 1000) -> Canvas:
    """The part of a slide that its patches cover, with a margin, at about `pixels` along the longer side.

    The slide's thumbnail where there is a slide, a blank page where there is none.
    """
    margin = max(squares.edge, 0.02 * float((squares.high - squares.low).max()))
    low, high = squares.low - margin, squares.high + margin
    longer = float((high - low).max())
    if slide is None:
        scale = longer / pixels
        width, height = np.ceil((high - low) / scale).astype(int)
        return Canvas(blank((height, width)), (float(low[0]), float(low[1])), scale)
    image, scale = slide.thumbnail(min(5000, int(pixels * max(slide.size) / longer)))
    left, top = np.clip(np.floor(low / scale), 0, None).astype(int)
    right, bottom = np.ceil(high / scale).astype(int)
    return Canvas(image[top:bottom, left:right], (float(left * scale), float(top * scale)), scale)


def check_slide(bag: Bag, slide: Slide, features: Path | None = None) -> Squares:
    """The patches in the slide's pixels; refused where they cannot be the slide's own.

    features: the file of the bag. TRIDENT states the slide's size in it, which must then be this one.
    """
    squares = level0_squares(bag, slide.mpp)
    width, height = slide.size
    stated = None if features is None else slide_size(features)
    if stated is not None and stated != slide.size:
        raise SlideError(
            f"{slide.path.name} has {width} x {height} pixels, but the features of {bag.slide_id} were cut from a "
            f"slide of {stated[0]} x {stated[1]}. Give the slide that these features came from."
        )
    corners = squares.corners
    if (corners < 0).any() or (corners >= slide.size).any():
        outside = int(((corners < 0) | (corners >= slide.size)).any(axis=1).sum())
        raise SlideError(
            f"{slide.path.name} has {width} x {height} pixels, but {outside} of the {len(bag)} patches of "
            f"{bag.slide_id} lie outside (they reach to {squares.high[0]:.0f} x {squares.high[1]:.0f}). Either the "
            "features came from another slide, or --slide-mpp or --unit is wrong."
        )
    return squares
