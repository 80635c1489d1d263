"""Coordinates -> SpatialGraph: which patches are joined, and how strongly.

A graph is a symmetric CSR structure with self-loops. Patches sit on a lattice, so ties are the rule: by default every
patch at the distance of the k-th neighbour is a neighbour. That depends neither on the order of patches in the file
nor on a direction, and it makes the graph the same under translation and uniform scaling.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

from .bags.bag import FARTHEST, Bag
from .errors import FeatureError
from .graph_config import GraphConfig
from .graph_kernels import Blocks, blocks_of, reverse_edges, union_of_neighbours

TIE = 1 + 1e-4  # distances within this factor are equal: float32 microns of a 100,000 px slide are no better
MAX_TIES = 16  # a patch with more than this many times k neighbours can only come from stacked coordinates


@dataclass(frozen=True)
class SpatialGraph:
    """Symmetric CSR with self-loops. `reverse[e]` is the position of edge (l, j) where e is (j, l)."""

    indptr: Tensor  # (patch + 1,) int32
    indices: Tensor  # (edge,) int32, ascending within a row
    weight: Tensor  # (edge,) float32, in (0, 1], 1 on the diagonal
    reverse: Tensor  # (edge,) int32

    def __post_init__(self) -> None:
        """The kernels believe every index, and would write wherever a wrong one leads."""
        if self.indices.device.type != "cpu":
            return
        edges, ends = len(self.indices), self.indptr[[0, -1]].tolist()
        fits = ends == [0, edges] and len(self.reverse) == len(self.weight) == edges
        for values, end in ((self.indptr, edges + 1), (self.indices, len(self)), (self.reverse, edges)):
            fits = fits and (not len(values) or 0 <= int(values.min()) <= int(values.max()) < end)
        if not fits or bool((self.indptr.diff() < 0).any()):
            raise FeatureError("a graph whose indices are out of range; make graphs with knn_graph or radius_graph.")

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"SpatialGraph({len(self):,} patches, {self.edges:,} edges)"

    @property
    def edges(self) -> int:
        return len(self.indices)

    @cached_property
    def log_weight(self) -> Tensor:
        return self.weight.log()

    @cached_property
    def blocks(self) -> Blocks:
        return blocks_of(self.indptr.numpy(), self.indices.numpy(), self.log_weight.numpy())

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    @property
    def nbytes(self) -> int:
        """With `log_weight` and `blocks`, which the kernels keep: about as much again."""
        return 2 * sum(tensor.nbytes for tensor in self.tensors)

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The graph of its changed tensors."""
        return type(self)(*map(change, self.tensors))

    def to(self, device: torch.device | str) -> Self:
        """Itself if it is there, with the `blocks` that it has."""
        if self.indices.device == torch.device(device):
            return self
        return self.each(lambda tensor: tensor.to(device))

    @property
    def transposed(self) -> "SpatialGraph":
        """With the weight of edge (l, j) on (j, l)."""
        return self

    @cached_property
    def with_second_copy(self) -> "DirectedGraph":
        """Every patch twice. The first copy is the graph itself; patch n + j, in the second copy, has a self-loop and
        receives from the neighbours of j in the first copy. Nothing is received from the second copy."""
        n, device = len(self), self.indices.device
        column = self.indices.cpu().numpy().astype(np.int64)
        row = np.repeat(np.arange(n), self.indptr.cpu().diff().numpy())
        weight, off = self.weight.cpu().numpy(), row != column
        rows = np.concatenate([row, row[off], row + n])
        columns = np.concatenate([column, column[off] + n, np.where(off, column, column + n)])
        weights = np.concatenate([weight, np.zeros(off.sum(), weight.dtype), weight])
        order = np.lexsort((columns, rows))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=2 * n))]).astype(np.int32)
        indices = columns[order].astype(np.int32)
        parts = (indptr, indices, weights[order], reverse_edges(indptr, indices))
        return DirectedGraph(*map(torch.from_numpy, parts)).to(device)

    @property
    def rows(self) -> Tensor:
        """(edge,): the patch that receives."""
        return torch.repeat_interleave(torch.arange(len(self), device=self.indptr.device), self.indptr.diff())

    def keep_edges(self, keep: Tensor) -> Self:
        """The graph with some of its edges. keep: (edge,) bool, the same for (j, l) and (l, j), true for self-loops."""
        before = torch.cat([self.indptr[:1], keep.cumsum(0, dtype=torch.int32)])  # kept edges before each edge
        place = before[self.reverse[keep].long()]
        return replace(
            self,
            indptr=before[self.indptr.long()],
            indices=self.indices[keep],
            weight=self.weight[keep],
            reverse=place,
        )

    def keep_patches(self, keep: Tensor) -> Self:
        """The graph of some of its patches, with the edges between them. keep: (patch,) bool."""
        graph = self.keep_edges(keep[self.rows] & keep[self.indices.long()])
        number = keep.cumsum(0, dtype=torch.int32) - 1
        indptr = torch.cat([graph.indptr[:-1][keep], graph.indptr[-1:]])  # rows of the other patches are empty
        return replace(graph, indptr=indptr, indices=number[graph.indices.long()])

    def row(self, patch: int) -> tuple[Tensor, Tensor]:
        """Neighbours of a patch (itself included) and their weights."""
        span = slice(int(self.indptr[patch]), int(self.indptr[patch + 1]))
        return self.indices[span], self.weight[span]


class DirectedGraph(SpatialGraph):
    """The pattern is symmetric, the weights are not; an edge of weight 0 carries nothing."""

    @cached_property
    def transposed(self) -> SpatialGraph:
        return replace(self, weight=self.weight[self.reverse.long()])


def build_graph(bag: Bag, config: GraphConfig) -> SpatialGraph:
    """The graph of one slide by the settings.

    Example: `build_graph(bag, GraphConfig(k=8))`
    """
    if config.kind == "knn":
        with naming(bag.slide_id):
            return _knn(bag.coords, config)
    if bag.microns_per_unit is None:
        raise FeatureError(
            f"{bag.slide_id}: a radius graph is in microns, and the file does not state microns per pixel. "
            "Give it with mpp=..., or use kind='knn'."
        )
    return radius_graph(bag.coords, config.radius, microns_per_unit=bag.microns_per_unit)


@contextmanager
def naming(slide_id: str) -> Iterator[None]:
    """Errors of functions that know coordinates only begin with the slide's name."""
    try:
        yield
    except FeatureError as error:
        raise FeatureError(f"{slide_id}: {error}") from error


def most_ties(k: int) -> int:
    """With more patches at one place no kNN graph is built."""
    asked = k + 9  # 8 lattice points share a distance as a rule
    while asked <= MAX_TIES * (k + 1):
        asked *= 2
    return asked - 1


def knn_graph(coords: Tensor | NDArray, k: int = GraphConfig.k, **options: Any) -> SpatialGraph:
    """Edge j-l if either is among the other's k nearest; w = exp(-|c_j - c_l|^2 / sigma^2) in normalised coordinates.

    Corners serve as well as centroids: within a slide they differ by one shift. options: `sigma`, `normalise` and
    `ties` of `GraphConfig`.

    Example: `knn_graph(bag.coords, k=50, sigma="max-nearest")`
    """
    return _knn(coords, GraphConfig(k=k, **options))


def _knn(coords: Tensor | NDArray, config: GraphConfig) -> SpatialGraph:
    points = _points(coords)
    if config.normalise == "per-axis":
        points = unit_axes(points)
    n, span = len(points), _span(points)
    rows, radius = _nearest_with_ties(points, min(config.k, n - 1))
    if config.ties == "exact":
        indptr, indices, d = _exactly_k(rows, radius, points, min(config.k, n - 1))
    else:
        indptr, indices, d = union_of_neighbours(rows, radius)
    reverse = reverse_edges(indptr, indices)
    if config.sigma == "max-knn":
        scale = float(d.max()) / span
    elif config.sigma == "max-knn-squared":
        scale = float(np.sqrt(d.max() / span))
    elif config.sigma == "max-nearest":
        nearest = cKDTree(points).query(points, k=2)[0][:, 1] if n > 1 else np.zeros(1)
        scale = float(np.sqrt(nearest.max() / span))
    else:
        scale = float(config.sigma)
    return _graph(indptr, indices, d, reverse, scale * span)


def radius_graph(coords: Tensor | NDArray, radius: float, *, microns_per_unit: float = 1.0) -> SpatialGraph:
    """Edge between patches at most `radius` microns apart; sigma is the radius, so magnifications agree.

    Example: `radius_graph(bag.coords, 500.0, microns_per_unit=0.25)`
    """
    points = _points(coords) * microns_per_unit
    n = len(points)
    pairs = cKDTree(points).query_pairs(radius * TIE, output_type="ndarray")  # (pair, 2), j < l
    own = np.arange(n)
    row = np.concatenate([pairs[:, 0], own])
    column = np.concatenate([pairs[:, 1], own])
    indptr, indices, d = _joined(row, column, points)
    return _graph(indptr, indices, d, reverse_edges(indptr, indices), radius)


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
    if (farthest := float(np.abs(points).max())) > FARTHEST:  # squares would overflow, and the kd-tree name no patch
        raise FeatureError(f"a coordinate of {farthest:g}; expected positions of at most {FARTHEST:g}.")
    return points - points.min(axis=0)  # exact for whole pixels, so translation changes nothing


def _span(points: NDArray) -> float:
    """The slide's longer side; 1 where all patches share a place."""
    return float(points.max()) or 1.0


def unit_axes(points: NDArray) -> NDArray[np.float64]:
    """Each axis in [0, 1] by its own extent; an axis without extent is 0."""
    low, high = points.min(axis=0), points.max(axis=0)
    return (points - low) / np.where(high > low, high - low, 1.0)


def _nearest_with_ties(points: NDArray, k: int) -> tuple[tuple[NDArray, ...], NDArray]:
    """The nearest patches of each, itself included, and the radius up to which they count: the k-th's, with its ties.

    Distances and indices (patch, asked), nearest first. The few rows with more ties than were asked for follow in
    arrays of their own, and `again` says where (-1 for all others).
    """
    n = len(points)
    tree = cKDTree(points)
    workers = torch.get_num_threads()  # a job that was given one core takes one
    ask, most = min(k + 9, n), most_ties(k)
    distance, neighbours = (a.reshape(n, ask) for a in tree.query(points, k=ask, workers=workers))
    if not np.isfinite(distance).all():  # the tree then names patch n, which is none
        raise FeatureError("distances between patches are not finite; expected the positions of one slide.")
    radius = distance[:, k] * TIE
    rows = np.flatnonzero(distance[:, -1] <= radius) if ask < n else np.empty(0, dtype=int)
    wide, wide_neighbours = distance[:0], neighbours[:0]
    while len(rows) and (wide.shape[1] < n) and not (len(wide) and (wide[:, -1] > radius[rows]).all()):
        if wide.shape[1] > most:
            raise FeatureError(
                f"a patch has more than {wide.shape[1]} others at or below the distance of its {k}-th neighbour; "
                "expected about k. Many patches share one position: check the coordinates of this slide."
            )
        wide, wide_neighbours = tree.query(points[rows], k=min(2 * wide.shape[1], n), workers=workers)
    again = np.full(n, -1, dtype=np.int32)
    again[rows] = np.arange(len(rows))
    return (distance, neighbours, again, wide, wide_neighbours), radius


def _exactly_k(rows: tuple[NDArray, ...], radius: NDArray, points: NDArray, k: int) -> tuple[NDArray, NDArray, NDArray]:
    """CSR of "l is among j's k or j among l's": of equally distant ones the first from the top, then from the left."""
    distance, neighbours, again, wide, wide_neighbours = rows
    place = np.lexsort((points[:, 0], points[:, 1])).argsort()  # top-down, left to right
    named, ring = [], radius / TIE**2  # below it: nearer than the k-th by more than rounding
    for some, d, near in ((again < 0, distance, neighbours), (again >= 0, wide, wide_neighbours)):
        j = np.flatnonzero(some)
        d, near = (d[j], near[j]) if d is distance else (d, near)
        tied = np.where(d < ring[j, None], 0, np.where(d <= radius[j, None], 1, 2))
        tied = np.where(near == j[:, None], -1, tied)  # a patch itself, which is no neighbour of its own
        order = np.lexsort((place[near], tied), axis=1)[:, : k + 1]
        named.append((np.repeat(j, k + 1), np.take_along_axis(near, order, axis=1).ravel()))
    row, column = (np.concatenate(parts) for parts in zip(*named, strict=True))
    return _joined(row, column, points)


def _joined(row: NDArray, column: NDArray, points: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """CSR with distances of the symmetric closure of some pairs, each of which may be given more than once."""
    n = len(points)
    key = np.unique(np.concatenate([row * n + column, column * n + row]).astype(np.int64))
    row, column = key // n, key % n
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))]).astype(np.int32)
    d = np.linalg.norm(points[row] - points[column], axis=1).astype(np.float32)
    return indptr, column.astype(np.int32), d


def _graph(indptr: NDArray, indices: NDArray, d: NDArray, reverse: NDArray, sigma: float) -> SpatialGraph:
    d = d.astype(np.float32, copy=False)
    weight = np.exp(-np.square(d / np.float32(sigma))) if sigma > 0 else np.ones_like(d)
    return SpatialGraph(*(torch.from_numpy(a) for a in (indptr, indices, weight, reverse)))
