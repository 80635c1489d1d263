"""Painted slides: H&E-like pictures of a plan that is known to the pixel.

A plan says which type of tissue lies in which cell of a lattice. Types become compartments with wavy borders, but A and
B, whose arrangement can be the label, become nests: each whole inside its cell and set in stroma. So a tile on the
lattice never shows two of them, and which nest lies beside which leaves no trace in any single tile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import binary_dilation, distance_transform_edt, gaussian_filter

from ..config import choose
from ..errors import ConfigError, SlideError
from ..files import replacing
from ..slides.slide import NEEDS, Picture

MPP = 0.5  # microns a level-0 pixel
CELL = 256  # level-0 pixels: one tile at 20x
COARSE = 8  # plans and truths are drawn this many times smaller than level 0, at 4 microns
GLASS = 1  # cells of bare glass around the tissue
LARGEST = 24  # half the edge of the largest nucleus, level-0 pixels
LEVELS = (4, 16)  # of the pyramid

HAEMATOXYLIN = np.array([0.62, 0.74, 0.32])  # optical density of R, G, B at the amount 1
EOSIN = np.array([0.09, 0.88, 0.36])
NEST = ((0.70, 0.92), (-0.06, 0.06), (-0.06, 0.06))  # radius and centre, in halves of a cell
SEPTUM = 0.14  # of half a cell, free of nests at its border: no nucleus of a nest reaches into the next tile
INKS = {"blue": (38, 62, 158), "green": (24, 118, 72), "black": (28, 27, 30)}

Map = NDArray[np.float32]  # (height, width) at COARSE or half size


@dataclass(frozen=True)
class Look:
    """What a type of tissue looks like; lengths in microns, stains as amounts from 0 to about 1.5."""

    eosin: float
    haze: float  # haematoxylin between the nuclei
    fibre: float  # share of fibres in the texture; the rest is grain
    spacing: float  # of nuclei
    length: float  # of a nucleus
    width: float
    vary: float  # standard deviation of the logarithm of size
    dark: float  # haematoxylin of a nucleus
    nest: bool = False
    vacuole: float = 0.0  # diameter of fat cells


LOOKS = {
    "tumour": Look(0.42, 0.26, 0.0, 10.5, 10.5, 8.5, 0.18, 1.05),
    "A": Look(0.36, 0.26, 0.0, 10.0, 9.0, 8.0, 0.08, 1.15, nest=True),
    "B": Look(0.62, 0.08, 0.0, 17.0, 13.0, 11.0, 0.22, 0.72, nest=True),
    "stroma": Look(0.62, 0.03, 0.9, 23.0, 13.0, 3.6, 0.2, 0.95),
    "lymphocytes": Look(0.30, 0.10, 0.2, 7.6, 6.0, 5.7, 0.06, 1.35),
    "necrosis": Look(0.70, 0.05, 0.0, 19.0, 3.4, 3.0, 0.4, 1.1),
    "fat": Look(0.42, 0.02, 0.3, 48.0, 8.0, 3.5, 0.2, 1.0, vacuole=52.0),
}
GROUND = "stroma"  # around nests


@dataclass(frozen=True)
class Plan:
    """Types on a lattice of one slide. cells: (n, 2), column and row; types: (n,), an index into names."""

    cells: NDArray[np.int64]
    types: NDArray[np.int64]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.names:
            choose("tissue type", name, LOOKS)
        if GROUND not in self.names:
            raise ConfigError(
                f"tissue types {', '.join(self.names)}: expected {GROUND} among them, it lies around nests."
            )


@dataclass(frozen=True)
class Painting:
    """A painted slide and its truth."""

    image: Picture  # level 0
    tissue: NDArray[np.bool_]  # true tissue, COARSE times smaller; ink hides what lies under it
    types: NDArray[np.uint8]  # the same size: 0 on glass, 1 + index into the plan's names on tissue


def paint(plan: Plan, rng: np.random.Generator, *, ink: str | None = None, border: bool = False) -> Painting:
    """Paint a plan. ink: a pen stroke, `blue`, `green` or `black`; border: the scanner's black frame on two sides."""
    if ink:
        choose("ink", ink, INKS)
    looks = [LOOKS[name] for name in plan.names]
    tissue, types, nests = _regions(rng, _lattice(plan), looks, plan.names.index(GROUND))
    eosin, blue = _stains(rng, tissue, types, looks)
    _nuclei(rng, eosin, blue, types, nests, looks)
    image = _develop(rng, eosin, blue)
    hidden = np.zeros(tissue.shape, bool)
    if ink:
        hidden |= _stroke(rng, image, ink)
    if border:
        hidden |= _frame(image)
    tissue &= ~hidden
    return Painting(image, tissue, np.where(tissue, types + 1, 0).astype(np.uint8))


def write_slide(image: Picture, path: Path, mpp: float = MPP) -> None:
    """A pyramidal tiled TIFF that OpenSlide reads, with its resolution."""
    try:
        from tifffile import TiffWriter
    except ImportError as error:
        raise SlideError(f"{path.name}: writing slides needs tifffile. Install it: {NEEDS}") from error
    whole = Image.fromarray(image)
    with replacing(path) as temporary, TiffWriter(temporary) as file:
        for factor in (1, *LEVELS):
            pixels = np.asarray(whole if factor == 1 else whole.reduce(factor))
            file.write(
                pixels,
                tile=(CELL, CELL),
                photometric="rgb",
                compression="deflate",
                compressionargs={"level": 1},  # noise hardly shrinks further
                resolution=(1e4 / (mpp * factor),) * 2,
                resolutionunit="CENTIMETER",
                subfiletype=int(factor > 1),
                metadata=None,
            )


def _lattice(plan: Plan) -> NDArray[np.int64]:
    """(rows, columns): the type of each cell, -1 on glass."""
    columns, rows = plan.cells.max(axis=0) + 1 + 2 * GLASS
    lattice = np.full((rows, columns), -1, np.int64)
    lattice[plan.cells[:, 1] + GLASS, plan.cells[:, 0] + GLASS] = plan.types
    return lattice


def _regions(
    rng: np.random.Generator, lattice: NDArray[np.int64], looks: Sequence[Look], ground: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64], Map]:
    """On the coarse raster: tissue with ragged edges, the type of each pixel, and nests (above 0 inside)."""
    edge = CELL // COARSE
    shape = (lattice.shape[0] * edge, lattice.shape[1] * edge)
    cover = gaussian_filter(np.kron(lattice >= 0, np.ones((edge, edge))).astype(np.float32), edge / 3)
    tissue = cover + 0.10 * _noise(rng, shape, edge / 5) + 0.04 * _noise(rng, shape, 2) > 0.5

    _, (row, column) = distance_transform_edt(lattice < 0, return_indices=True)
    filled = lattice[row, column]  # ragged edges reach beyond their cells
    nested = np.array([look.nest for look in looks])
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float32) + 0.5
    bent = [at + edge * (0.25 * _noise(rng, shape, edge / 2) + 0.06 * _noise(rng, shape, 3)) for at in (x, y)]
    types = _at(np.where(nested[filled], ground, filled), bent[0] / edge, bent[1] / edge)  # with wavy borders

    radius, *centre = (_at(rng.uniform(*span, lattice.shape), x / edge, y / edge) for span in NEST)
    wave = [0.05 * np.clip(_noise(rng, shape, edge / 6), -2, 2) for _ in range(3)]
    inner = [2 * (at / edge % 1) - 1 for at in (x, y)]  # -1 to 1 across the cell
    across, along = (np.abs(at - c + w) for at, c, w in zip(inner, centre, wave, strict=False))
    nests = radius + wave[2] - (across**2.5 + along**2.5) ** 0.4
    nests = np.minimum(nests, 1 - SEPTUM - np.maximum(*np.abs(inner))).astype(np.float32)
    own = _at(filled, x / edge, y / edge)
    nests[~nested[own] | ~tissue] = -1
    return tissue, np.where(nests > 0, own, types), nests


def _stains(
    rng: np.random.Generator, tissue: NDArray[np.bool_], types: NDArray[np.int64], looks: Sequence[Look]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Eosin and diffuse haematoxylin of every level-0 pixel, 100 at the amount 1."""
    soft = gaussian_filter(tissue.astype(np.float32), 0.7)
    level, haze, fibre = (
        gaussian_filter(np.array([getattr(look, field) for look in looks], np.float32)[types], 0.6) * soft
        for field in ("eosin", "haze", "fibre")
    )
    level *= 1 + 0.12 * _noise(rng, level.shape, 30)  # uneven sections
    half = tuple(side * COARSE // 2 for side in tissue.shape)
    level, haze, fibre, bend = (_resize(a, half) for a in (level, haze, fibre, _bundles(rng, level.shape)))
    y, x = np.mgrid[0 : half[0], 0 : half[1]].astype(np.float32)
    grain = _noise(rng, half, 1.3)
    strands = np.sin(0.30 * x + 0.18 * y + bend + 0.8 * grain) * (1 + 0.35 * grain)  # 16 microns a bundle
    texture = 0.16 * grain * (1 - fibre) + 0.30 * strands * fibre
    eosin = 100 * level * np.clip(1 + texture, 0.25, 2)
    for t, look in enumerate(looks):
        if look.vacuole:
            _vacuoles(rng, eosin, types == t, look.vacuole)
    full = (half[0] * 2, half[1] * 2)
    red, blue = (_resize(np.clip(a, 0, 255).astype(np.uint8), full) for a in (eosin, 100 * haze))
    return red, blue.copy()  # nuclei will be written into it


def _bundles(rng: np.random.Generator, shape: Sequence[int]) -> Map:
    """How far strands swerve, in radians of their phase: waves within sweeps."""
    return 4 * _noise(rng, shape, 10) + 14 * _noise(rng, shape, 40)


def _vacuoles(rng: np.random.Generator, eosin: Map, where: NDArray[np.bool_], diameter: float) -> None:
    """Empty fat cells with thin walls, in place, on the half-size raster."""
    step = diameter / MPP / 2
    for x, y in _scatter(rng, where, diameter, COARSE // 2, shake=0.16):
        r = step * rng.uniform(0.44, 0.54)
        top, left = max(0, int(y - r)), max(0, int(x - r))
        part = eosin[top : int(y + r) + 1, left : int(x + r) + 1]
        yy, xx = np.ogrid[top : top + part.shape[0], left : left + part.shape[1]]
        part *= np.clip(np.hypot(xx - x, (yy - y) * rng.uniform(0.95, 1.1)) - r + 2, 0.03, 1)


def _nuclei(
    rng: np.random.Generator,
    eosin: NDArray[np.uint8],
    blue: NDArray[np.uint8],
    types: NDArray[np.int64],
    nests: Map,
    looks: Sequence[Look],
) -> None:
    """Nuclei into the haematoxylin of level 0, in place, where there is eosin: not on glass, not in vacuoles."""
    height, width = eosin.shape
    for t, look in enumerate(looks):
        stamps = [_stamp(rng, look) for _ in range(48)]
        where = (types == t) & ((nests > 0.05) if look.nest else (nests < 0))
        at = _scatter(rng, where, look.spacing, COARSE).astype(int)
        for (x, y), k in zip(at, rng.integers(0, len(stamps), len(at)), strict=True):
            reach = len(stamps[k]) // 2
            if eosin[y, x] > 12 and reach <= x < width - reach and reach <= y < height - reach:
                part = blue[y - reach : y + reach + 1, x - reach : x + reach + 1]
                np.maximum(part, stamps[k], out=part)


def _stamp(rng: np.random.Generator, look: Look) -> NDArray[np.uint8]:
    """One nucleus: an ellipse with a soft rim and clumped chromatin; along the fibres where there are any."""
    size = np.exp(look.vary * rng.standard_normal())
    a, b = (side * size / MPP / 2 for side in (look.length, look.width * np.exp(0.1 * rng.standard_normal())))
    reach = min(LARGEST, int(max(a, b)) + 2)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float32)
    turn = -1.03 + 0.35 * rng.standard_normal() if look.fibre > 0.5 else rng.uniform(0, np.pi)
    u, v = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    inside = np.clip((1 - np.hypot(u / a, v / b)) * min(a, b) / 1.5 + 0.5, 0, 1)
    chromatin = 1 + 0.13 * _noise(rng, x.shape, 1.2)
    return np.clip(100 * look.dark * rng.uniform(0.8, 1.15) * inside * chromatin, 0, 255).astype(np.uint8)


def _develop(rng: np.random.Generator, eosin: NDArray[np.uint8], blue: NDArray[np.uint8]) -> Picture:
    """Stains to colours by Beer and Lambert, with the slide's own staining, lamp, vignette and a little noise."""
    strength = np.exp(0.08 * rng.standard_normal(2))  # of haematoxylin and eosin: laboratories differ
    tint = 1 + 0.03 * rng.standard_normal((2, 3))
    amount = np.arange(256) / 100
    density = (strength[0] * tint[0] * HAEMATOXYLIN) * amount[:, None, None] + (strength[1] * tint[1] * EOSIN) * amount[
        :, None
    ]  # (blue, eosin, RGB)
    lamp = np.array([246, 244, 246])
    shades = 1 - 0.004 * np.arange(8)
    colours = np.zeros((8, 256, 256, 4), np.uint8)
    colours[..., :3] = np.rint(lamp * shades[:, None, None, None] * np.exp(-density))
    table = colours.view(np.uint32).ravel()  # a colour in one word is looked up three times as fast

    height, width = eosin.shape
    y, x = np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    shade = (2.5 * (x**2 + y**2)).astype(np.uint8) + rng.integers(0, 3, eosin.shape, np.uint8)
    index = shade.astype(np.int32)
    index <<= 8
    index |= blue
    index <<= 8
    index |= eosin
    return np.ascontiguousarray(table[index].view(np.uint8).reshape(height, width, 4)[..., :3])


def _stroke(rng: np.random.Generator, image: Picture, ink: str) -> NDArray[np.bool_]:
    """A felt-tip line across the slide, in place; the coarse pixels that it hides."""
    height, width = (side // COARSE for side in image.shape[:2])
    drawn = Image.new("L", (width, height))
    x = np.linspace(0.1, 0.9, 9) * width
    y = height * (rng.uniform(0.25, 0.75) + 0.06 * rng.standard_normal(9))
    ImageDraw.Draw(drawn).line([*zip(x, y, strict=True)], fill=255, width=int(180 / MPP / COARSE), joint="curve")
    cover = gaussian_filter(np.asarray(drawn, np.float32) / 255, 1) * (1 + 0.06 * _noise(rng, (height, width), 3))
    cover = _resize(np.clip(0.93 * cover, 0, 1), image.shape[:2])
    rows = slice(*_reach(cover.max(axis=1) > 0.01))
    part = image[rows].astype(np.float32)
    part *= 1 - cover[rows, :, None] * (1 - np.array(INKS[ink], np.float32) / 255)
    image[rows] = part.astype(np.uint8)
    return binary_dilation(np.asarray(drawn) > 0, iterations=2)


def _frame(image: Picture) -> NDArray[np.bool_]:
    """Black at the top and on the left, in place; the coarse pixels that it hides."""
    wide = CELL // 2
    hidden = np.zeros([side // COARSE for side in image.shape[:2]], bool)
    for part, edge in ((image, wide), (hidden, wide // COARSE)):
        part[:edge] = 4 if part is image else True
        part[:, :edge] = 4 if part is image else True
    return hidden


def _scatter(
    rng: np.random.Generator, where: NDArray[np.bool_], spacing: float, fine: int, shake: float = 0.38
) -> NDArray[np.float32]:
    """(n, 2): x, y about `spacing` microns apart where the coarse mask allows, in pixels `fine` times smaller."""
    step = spacing / MPP / COARSE
    rows, columns = (int(side / step) for side in where.shape)
    y, x = np.mgrid[0:rows, 0:columns].astype(np.float32)
    x += 0.5 * (y % 2)  # a hexagonal lattice, shaken
    x, y = ((at + 0.5 + rng.uniform(-shake, shake, at.shape)) * step for at in (x, y))
    keep = _at(where, x, y) & (x < where.shape[1]) & (y < where.shape[0]) & (rng.random(x.shape) < 0.94)
    return (fine * np.stack([x[keep], y[keep]], axis=1)).astype(np.float32)


def _noise(rng: np.random.Generator, shape: Sequence[int], sigma: float) -> Map:
    """White noise smoothed over `sigma` pixels, unit variance."""
    field = gaussian_filter(rng.standard_normal(shape, np.float32), sigma, mode="wrap", truncate=3)
    return (field / field.std()).astype(np.float32)


def _at(raster: NDArray, x: Map, y: Map) -> NDArray:
    """The raster's values at fractional places; beyond its edge the nearest."""
    rows = np.clip(y.astype(np.int64), 0, raster.shape[0] - 1)
    return raster[rows, np.clip(x.astype(np.int64), 0, raster.shape[1] - 1)]


def _resize(raster: NDArray, shape: Sequence[int]) -> NDArray:
    image = Image.fromarray(np.ascontiguousarray(raster))
    return np.asarray(image.resize((shape[1], shape[0]), Image.Resampling.BILINEAR))


def _reach(where: NDArray[np.bool_]) -> tuple[int, int]:
    found = np.flatnonzero(where)
    return int(found[0]), int(found[-1]) + 1
