"""Where there is tissue: a mask on a thumbnail of about 8 microns per pixel, from the picture alone.

Tissue takes stain, so it has colour, and it has structure; glass has neither, ink the wrong colour.
The limits are for H&E; a mask drawn by hand (`read_geojson`) serves where they do not hold.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from .slide import Picture, Slide

Mask = NDArray[np.bool_]  # (height, width)
Field = NDArray[np.floating]  # (height, width)

MPP = 8.0  # microns per pixel of the thumbnail
SUPPOSED = 0.5  # microns per pixel of a plain image that states none: the mask's lengths need a scale, tiles do not
SATURATED = 0.05  # (max - min) / max of R, G, B against glass: pale eosin has 0.08, glass up to 0.03
INKY = 0.25  # saturation of a pen; the pale blue of a counterstain stays below
COLD = 0.04  # how far green exceeds red in ink, blue or green, by brightness; stained tissue is the other way round
BLUE = 0.44  # red / blue of blue ink over tissue is below; the darkest nuclei have 0.5
BLACK, DARK, GREY = (
    0.2,
    0.33,
    0.25,
)  # black ink and frames: brightness below BLACK, or below DARK and saturation below GREY
ROUGH = 0.006  # standard deviation of green in a window, in most of a piece of tissue; tinted glass stays below


@dataclass(frozen=True)
class TissueSettings:
    """Lengths in microns, diameters of discs where they stand for areas."""

    smooth: float = 6.0  # standard deviation of the blur before colours are judged
    window: float = 64.0  # edge of the window of texture
    gap: float = 56.0  # narrower gaps are closed: fat cells at an edge, cracks
    hole: float = 200.0  # smaller holes are closed
    speck: float = 160.0  # smaller pieces are left out
    ink: float = 48.0  # ink and frames are wider than this; they are left out with a rim of a quarter of it


DEFAULT = TissueSettings()


@dataclass(frozen=True)
class Tissue:
    """A mask with its place: pixel (i, j) is level-0 [i, i + 1) * scale, [j, j + 1) * scale, within the slide."""

    mask: Mask
    scale: float  # level-0 pixels a mask pixel
    size: tuple[int, int] | None = None  # width and height of the slide, level-0 pixels

    def area(self, mpp: float | None) -> float:
        """Square millimetres of tissue on a slide with `mpp` microns per level-0 pixel; nan if that is unknown."""
        return float("nan") if mpp is None else float(self.mask.sum()) * (self.scale * mpp / 1000) ** 2

    def amount(self, mpp: float | None) -> str:
        """How much tissue there is, in words."""
        return (
            f"{self.mask.mean():.0%} of the image is tissue" if mpp is None else f"{self.area(mpp):.2f} mm² of tissue"
        )


def find_tissue(slide: Slide, settings: TissueSettings = DEFAULT) -> Tissue:
    """The tissue of a slide, on its thumbnail.

    Example: `find_tissue(slide)`
    """
    image, scale = slide.reduced(thumbnail_scale(slide))
    if slide.plain:  # of a small region, most may be smaller than a speck of a slide
        settings = replace(settings, speck=min(settings.speck, min(slide.size) * _mpp(slide) / 2))
    return Tissue(tissue_mask(image, scale * _mpp(slide), settings), scale, slide.size)


def thumbnail_scale(slide: Slide) -> float:
    """Level-0 pixels a mask pixel."""
    return max(1.0, MPP / _mpp(slide))


def _mpp(slide: Slide) -> float:
    """Of a plain image of unknown resolution what `SUPPOSED` says; another slide has to say it."""
    return SUPPOSED if slide.plain and slide.mpp is None else slide.needed_mpp


def tissue_mask(image: Picture, mpp: float, settings: TissueSettings = DEFAULT) -> Mask:
    """(height, width): tissue in an RGB picture of `mpp` microns per pixel."""
    channels = _on_clear_glass([_blur(image[..., channel], settings.smooth / mpp) for channel in range(3)])
    (red, green, blue), (bright, saturation) = channels, _brightness_and_saturation(channels)

    cold = (green - red > COLD * bright) | (red < BLUE * blue)
    black = (bright < BLACK) | ((bright < DARK) & (saturation < GREY))
    foreign = _foreign(cold, black, saturation, settings.ink / mpp)
    stained = (saturation > SATURATED) & ~foreign
    joined = _shrink(_grow(stained, settings.gap / mpp), settings.gap / mpp)
    mask = _close_holes(joined, _disc_area(settings.hole / mpp)) & ~foreign
    return _textured_pieces(mask, image[..., 1], settings.window / mpp, _disc_area(settings.speck / mpp))


def _brightness_and_saturation(channels: list[Field]) -> tuple[Field, Field]:
    bright = np.maximum.reduce(channels)
    return bright, 1 - np.minimum.reduce(channels) / np.maximum(bright, np.float32(1e-3))


def _on_clear_glass(channels: list[Field]) -> list[Field]:
    """Without the colour of lamp and glass: the median of what is bright and nearly colourless, if there is any."""
    bright, saturation = _brightness_and_saturation(channels)
    glass = (bright > 0.8) & (saturation < 0.05)
    if glass.mean() < 0.01:
        return channels
    return [channel / np.median(channel[glass]) for channel in channels]


def _foreign(cold: Mask, black: Mask, saturation: Field, width: float) -> Mask:
    """Pen strokes and black frames, with a rim. Coloured ink is followed from its core into its pale edges."""
    core = _grow(_shrink(cold & (saturation > INKY), width), width)
    ink = ndimage.binary_propagation(core, mask=cold & (saturation > SATURATED)) if core.any() else core
    return _grow(ink | _grow(_shrink(black, width), width), width / 2)


def _grow(mask: Mask, width: float) -> Mask:
    """By half of `width` on every side; squares, for their filters are quick at any size."""
    return ndimage.maximum_filter(mask, 2 * round(width / 2) + 1, mode="constant", cval=False)


def _shrink(mask: Mask, width: float) -> Mask:
    """By half of `width` on every side, but not from the edge of the picture."""
    return ndimage.minimum_filter(mask, 2 * round(width / 2) + 1, mode="constant", cval=True)


def _close_holes(mask: Mask, area: float) -> Mask:
    label, count = ndimage.label(~mask)
    sizes = np.bincount(label.ravel(), minlength=count + 1)
    small = sizes < area
    small[0] = False
    for edge in (label[0], label[-1], label[:, 0], label[:, -1]):
        small[edge] = False  # not a hole: open to the outside
    return mask | small[label]


def _textured_pieces(mask: Mask, green: NDArray[np.uint8], window: float, area: float) -> Mask:
    """Pieces that are large enough, and in most of their pixels not as smooth as tinted glass.

    Green is what eosin and haematoxylin both take away.
    """
    label, count = ndimage.label(mask)
    if not count:
        return mask
    size = max(3, round(window))
    value = green.astype(np.float32)
    mean = ndimage.uniform_filter(value, size)
    rough = ndimage.uniform_filter(value * value, size) - mean * mean > (255 * ROUGH) ** 2
    sizes = np.bincount(label.ravel(), minlength=count + 1)
    textured = np.bincount(label[rough], minlength=count + 1)
    keep = (sizes >= area) & (2 * textured > sizes)
    keep[0] = False
    return keep[label]


def _blur(channel: NDArray[np.uint8], sigma: float) -> Field:
    return ndimage.gaussian_filter(channel.astype(np.float32) / np.float32(255), sigma, truncate=3)


def _disc_area(diameter: float) -> float:
    return float(np.pi / 4 * diameter**2)
