"""Coordinates -> SpatialGraph: which patches are joined, and how strongly.

A graph is a symmetric CSR structure with self-loops. Patches sit on a lattice, so ties are the rule: every patch
at the distance of the k-th neighbour is a neighbour. The rule does not ask for the order of patches in the file,
nor for a direction, and it makes the graph the same under translation and uniform scaling.
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

from .bags.bag import Bag
from .errors import FeatureError
from .graph_config import GraphConfig
from .graph_kernels import reverse_edges, union_of_neighbours

TIE = 1 + 1e-4  # distances within this factor are equal: float32 microns of a 100,000 px slide are no better
MAX_TIES = 16  # a patch with more than this many times k neighbours can only come from stacked coordinates


@dataclass(frozen=True)
class SpatialGraph:
    """Symmetric CSR with self-loops. `reverse[e]` is the position of edge (l, j) where e is (j, l)."""

    indptr: Tensor  # (patch + 1,) int32
    indices: Tensor  # (edge,) int32, ascending within a row
    weight: Tensor  # (edge,) float32, in (0, 1], 1 on the diagonal
    reverse: Tensor  # (edge,) int32

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        return len(self.indices)

    @cached_property
    def log_weight(self) -> Tensor:
        return self.weight.log()

    def to(self, device: torch.device | str) -> "SpatialGraph":
        return SpatialGraph(*(getattr(self, field.name).to(device) for field in fields(self)))

    def row(self, patch: int) -> tuple[Tensor, Tensor]:
        """Neighbours of a patch (itself included) and their weights."""
        span = slice(int(self.indptr[patch]), int(self.indptr[patch + 1]))
        return self.indices[span], self.weight[span]


def build_graph(bag: Bag, config: GraphConfig) -> SpatialGraph:
    """The graph of one slide as the settings say.

    Example: `build_graph(bag, GraphConfig(k=8))`
    """
    if config.kind == "knn":
        return knn_graph(bag.coords, config.k, config.sigma)
    if bag.microns_per_unit is None:
        raise FeatureError(
            f"{bag.slide_id}: a radius graph is in microns, and the file does not state microns per pixel. "
            "Give it with mpp=..., or use kind='knn'."
        )
    return radius_graph(bag.coords, config.radius, microns_per_unit=bag.microns_per_unit)


def knn_graph(coords: Tensor | NDArray, k: int = 50, sigma: str | float = "max-knn") -> SpatialGraph:
    """Edge j-l if either is among the other's k nearest (ties included); w = exp(-|c_j - c_l|^2 / sigma^2).

    Corners serve as well as centroids: within a slide they differ by one shift. Distances are in units of the
    slide's longer side, i.e. of centroids normalised into [0, 1]^2 with the aspect kept.

    Example: `knn_graph(bag.coords, k=50)`
    """
    GraphConfig(k=k, sigma=sigma)
    points = _points(coords)
    n, span = len(points), _span(points)
    indptr, indices, d = union_of_neighbours(*_nearest_with_ties(points, min(k, n - 1)))
    reverse = reverse_edges(indptr, indices)
    if sigma == "max-knn":
        scale = float(d.max()) / span
    elif sigma == "max-nearest":
        nearest = cKDTree(points).query(points, k=2)[0][:, 1] if n > 1 else np.zeros(1)
        scale = float(np.sqrt(nearest.max() / span))
    else:
        scale = float(sigma)
    return _graph(indptr, indices, d, reverse, scale * span)


def radius_graph(coords: Tensor | NDArray, radius: float, *, microns_per_unit: float = 1.0) -> SpatialGraph:
    """Edge between patches at most `radius` microns apart; sigma is the radius, so magnifications agree.

    Example: `radius_graph(bag.coords, 500.0, microns_per_unit=0.25)`
    """
    points = _points(coords) * microns_per_unit
    n = len(points)
    pairs = cKDTree(points).query_pairs(radius * TIE, output_type="ndarray")  # (pair, 2), j < l
    own = np.arange(n)
    row = np.concatenate([pairs[:, 0], pairs[:, 1], own])
    column = np.concatenate([pairs[:, 1], pairs[:, 0], own])
    order = np.lexsort((column, row))
    row, column = row[order], column[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))]).astype(np.int32)
    d = np.linalg.norm(points[row] - points[column], axis=1)
    reverse = np.lexsort((row, column)).astype(np.int32)  # a symmetric pattern: the transpose has the same rows
    return _graph(indptr, column.astype(np.int32), d, reverse, radius)


def spatial_order(coords: Tensor) -> Tensor:
    """Permutation that puts patches along a Hilbert curve: neighbours on the slide become neighbours in memory.

    It also gives every file of the same slide the same order, whatever order its patches were written in.
    """
    points = _points(coords)
    bits = 16
    q = (points / _span(points) * (2**bits - 1)).astype(np.int64)
    x, y = q[:, 0].copy(), q[:, 1].copy()
    key = np.zeros(len(q), dtype=np.int64)
    for bit in reversed(range(bits)):
        s = 1 << bit
        right, down = (x & s) > 0, (y & s) > 0
        key += s * s * ((3 * right) ^ down)
        turn = right & ~down
        x[turn], y[turn] = 2**bits - 1 - x[turn], 2**bits - 1 - y[turn]
        x, y = np.where(down, x, y), np.where(down, y, x)
    return torch.from_numpy(np.lexsort((points[:, 0], points[:, 1], key)))


def _points(coords: Tensor | NDArray) -> NDArray[np.float64]:
    points = torch.as_tensor(coords).to("cpu", torch.float64).numpy()
    if points.ndim != 2 or points.shape[1] != 2 or len(points) == 0:
        raise FeatureError(f"coords of shape {points.shape}; expected (N, 2) with N of at least 1.")
    if not np.isfinite(points).all():
        raise FeatureError("coords hold NaN or infinite values; expected finite positions.")
    return points - points.min(axis=0)  # exact for whole pixels, so translation changes nothing


def _span(points: NDArray) -> float:
    """The slide's longer side; 1 where all patches share a place."""
    return float(points.max()) or 1.0


def _nearest_with_ties(points: NDArray, k: int) -> tuple[tuple[NDArray, ...], NDArray]:
    """The nearest patches of each, itself included, and the radius up to which they count: the k-th's, with its ties.

    Distances and indices (patch, asked), nearest first. The few rows with more ties than were asked for follow in
    arrays of their own, and `again` says where (-1 for all others).
    """
    n = len(points)
    tree = cKDTree(points)
    workers = torch.get_num_threads()  # a job that was given one core takes one
    ask = min(k + 9, n)  # 8 lattice points share a distance as a rule
    distance, neighbours = (a.reshape(n, ask) for a in tree.query(points, k=ask, workers=workers))
    radius = distance[:, k] * TIE
    rows = np.flatnonzero(distance[:, -1] <= radius) if ask < n else np.empty(0, dtype=int)
    wide, wide_neighbours = distance[:0], neighbours[:0]
    while len(rows) and (wide.shape[1] < n) and not (len(wide) and (wide[:, -1] > radius[rows]).all()):
        if wide.shape[1] > MAX_TIES * (k + 1):
            raise FeatureError(
                f"a patch has more than {wide.shape[1]} others at or below the distance of its {k}-th neighbour; "
                "expected about k. Many patches share one position: are the coordinates of this file right?"
            )
        wide, wide_neighbours = tree.query(points[rows], k=min(2 * wide.shape[1], n), workers=workers)
    again = np.full(n, -1, dtype=np.int32)
    again[rows] = np.arange(len(rows))
    return (distance, neighbours, again, wide, wide_neighbours), radius


def _graph(indptr: NDArray, indices: NDArray, d: NDArray, reverse: NDArray, sigma: float) -> SpatialGraph:
    d = d.astype(np.float32, copy=False)
    weight = np.exp(-np.square(d / np.float32(sigma))) if sigma > 0 else np.ones_like(d)
    return SpatialGraph(*(torch.from_numpy(a) for a in (indptr, indices, weight, reverse)))
