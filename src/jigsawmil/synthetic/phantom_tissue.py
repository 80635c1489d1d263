"""Tissue on a lattice: outlines with pieces and holes, and smooth fields over them. No label ever enters here."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree

Cells = NDArray[np.int64]  # (patch, 2): column and row of each patch on the slide's lattice
Field = NDArray[np.float64]  # (patch,)

CHORD = np.pi * np.sqrt(2)  # mean distance between sign changes of white noise smoothed with a Gaussian of sigma 1


def draw_outline(rng: np.random.Generator, n: int) -> Cells:
    """Exactly n lattice cells of tissue: one to three blobs side by side, ragged edges, a few holes.

    Small slides (below 60 patches) are one piece, and below 100 patches there are no holes.
    """
    pieces = int(rng.choice([1, 2, 3], p=[0.45, 0.35, 0.2])) if n >= 60 else 1
    radius = np.sqrt(n / np.pi * rng.dirichlet(np.full(pieces, 8.0)))  # in patches, of each piece were it a disc
    waves = rng.normal(0, 0.3, (pieces, 4, 2)) / np.arange(2, 6)[:, None]
    around = np.linspace(-np.pi, np.pi, 181)
    reach = 1.1 * radius * [_profile(wave, around).max() for wave in waves]  # 1.1: holes push the outline outwards
    x = np.cumsum(2 * reach + 2) - reach  # two patches of glass between pieces
    y = 1.3 * reach.max() + rng.normal(0, 0.15, pieces) * radius
    rows, cols = np.mgrid[0 : int(2.6 * reach.max()) + 3, 0 : int(x[-1] + 1.3 * reach[-1]) + 3]

    score = np.full(rows.shape, np.inf)  # distance from the centre of the nearest piece; 1 = its outline
    for p in range(pieces):
        dx, dy = cols - x[p], rows - y[p]
        score = np.minimum(score, np.hypot(dx, dy) / (radius[p] * _profile(waves[p], np.arctan2(dy, dx))))
    score += 0.05 * gaussian_filter(rng.standard_normal(score.shape), 1.0, mode="wrap")  # ragged edges

    for _ in range(rng.poisson(2) if n >= 100 else 0):
        p = int(rng.integers(pieces))
        at = rng.uniform(0.1, 0.5) * radius[p] * np.exp(1j * rng.uniform(0, 2 * np.pi))
        lumen = max(0.8, rng.uniform(0.08, 0.2) * radius[p])
        score[np.hypot(cols - x[p] - at.real, rows - y[p] - at.imag) < lumen] = np.inf
    tissue = np.argsort(score, axis=None, kind="stable")[:n]
    return np.stack([cols.ravel()[tissue], rows.ravel()[tissue]], axis=1).astype(np.int64)


def _profile(wave: NDArray[np.float64], angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of a blob's outline from its centre in each direction: exp of a Fourier series of orders 2 to 5."""
    series = [a * np.cos(m * angle) + b * np.sin(m * angle) for m, (a, b) in enumerate(wave, start=2)]
    return np.clip(np.exp(np.sum(series, axis=0)), 0.6, 1.6)


def smooth_field(rng: np.random.Generator, cells: Cells, chord: float) -> Field:
    """White noise smoothed until its sign changes every `chord` patches on average; unit variance."""
    sigma = chord / CHORD
    margin = int(np.ceil(3 * sigma))  # keeps the opposite edges of the periodic raster apart
    at = cells - cells.min(axis=0)
    raster = gaussian_filter(rng.standard_normal(tuple(at.max(axis=0) + 1 + 2 * margin)), sigma, mode="wrap")
    return (raster / raster.std())[at[:, 0], at[:, 1]]


def rank(field: Field) -> NDArray[np.int64]:
    """(patch,): 0 for the smallest value, n - 1 for the largest."""
    out = np.empty(len(field), np.int64)
    out[np.argsort(field, kind="stable")] = np.arange(len(field))
    return out


def mosaic(rng: np.random.Generator, cells: Cells, kinds: Sequence[int], chord: float) -> NDArray[np.int64]:
    """(patch,): compartments of the given kinds, each about `chord` patches across."""
    fields = np.stack([smooth_field(rng, cells, chord) for _ in kinds])
    return np.asarray(kinds, np.int64)[fields.argmax(axis=0)]


def layers(rng: np.random.Generator, cells: Cells, count: int) -> tuple[Field, NDArray[np.int64]]:
    """Depth of each patch in (0, 1) from top to bottom of the tissue, and its layer 0 ... count - 1.

    Layers undulate by about one and a half patches, and their shares of the tissue vary from slide to slide.
    """
    wavy = cells[:, 1] + 1.5 * smooth_field(rng, cells, 12.0)
    depth = (rank(wavy) + 0.5) / len(cells)
    floors = np.cumsum(rng.dirichlet(np.full(count, 40.0)))[:-1]
    return depth, np.searchsorted(floors, depth)


def nest(
    rng: np.random.Generator, cells: Cells, band: NDArray[np.bool_], free: NDArray[np.bool_], size: int
) -> NDArray[np.int64]:
    """Indices of a compact nest: the `size` free patches nearest to a centre in the band and well inside the tissue."""
    candidates = np.flatnonzero(band & free)
    tree = cKDTree(cells[free])
    crowding = tree.query(cells[candidates], k=[size])[0][:, 0]  # how far a nest around each would have to reach
    inside = candidates[np.argsort(crowding, kind="stable")[: max(1, len(candidates) // 3)]]
    centre = cells[rng.choice(inside)] + rng.uniform(-0.4, 0.4, 2)  # off the lattice, so that distances do not tie
    return np.flatnonzero(free)[tree.query(centre, k=np.arange(1, size + 1))[1]]
