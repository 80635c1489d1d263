"""Slides as the model sees them: one block-diagonal concatenation, a batch of one being the same thing."""

import dataclasses
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from ..bags.bag import Bag
from ..errors import FeatureError
from ..graph import GraphConfig, SpatialGraph, build_graph, naming, spatial_order
from ..graph_config import Raster

GRAPH, RASTER = GraphConfig(), Raster()
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Batch:
    """Patches of several slides, each slide along its own Hilbert curve, with no edge between slides.

    A bag is what is pooled into one prediction: a slide, or all slides of a patient (`as_one_bag`).

    Example: `Batch.of([bag, other])`
    """

    features: Tensor  # (patch, d); of two bytes each where slides wait for their turn, see `to`
    graph: SpatialGraph | None  # None where no method asks for it
    bins: Tensor  # (patch,) jigsaw target: the cell of the grid in which the patch lies
    order: Tensor  # (patch,) the patch's row in its own file
    coords: Tensor  # (patch, 2) float64 as in the bag; no part of the model reads them, so they stay on the CPU
    slide_ptr: tuple[int, ...]  # slide i is patches [slide_ptr[i], slide_ptr[i + 1])
    bag_ptr: tuple[int, ...]
    slide_ids: tuple[str, ...]
    covariates: tuple[Mapping[str, Any] | None, ...] = ()  # of each slide, see `Bag`

    @classmethod
    def of(cls, bags: Sequence[Bag] | Bag, graph: GraphConfig | None = GRAPH, raster: Raster = RASTER) -> "Batch":
        """Prepare bags: order the patches, build the graphs, find the bins."""
        bags = [bags] if isinstance(bags, Bag) else bags
        dims = {bag.dim: bag.slide_id for bag in bags}
        if len(dims) > 1:
            found = ", ".join(f"{dim} ({slide})" for dim, slide in dims.items())
            raise FeatureError(f"slides of one batch have features of several dimensions: {found}; expected one.")
        return cls.cat([cls._of_one(bag, graph, raster) for bag in bags])

    @classmethod
    def _of_one(cls, bag: Bag, config: GraphConfig | None, raster: Raster) -> "Batch":
        if len(bag) == 0:
            raise FeatureError(f"{bag.slide_id}: the slide has no patches; expected at least one.")
        with naming(bag.slide_id):
            order = spatial_order(bag.coords)
        bag = dataclasses.replace(bag, features=bag.features[order], coords=bag.coords[order])
        return cls.of_ordered(bag, order, build_graph(bag, config) if config else None, raster)

    @classmethod
    def of_ordered(cls, bag: Bag, order: Tensor, graph: SpatialGraph | None, raster: Raster) -> "Batch":
        """Of a bag whose patches lie along the Hilbert curve. order: (patch,) the row of each in its file."""
        ptr, bins = (0, len(bag)), position_bins(bag.coords, raster)
        return cls(bag.features, graph, bins, order, bag.coords, ptr, ptr, (bag.slide_id,), (bag.covariates,))

    def prepared_for(self, bags: Sequence[Bag], graph: GraphConfig | None, raster: Raster) -> "Batch":
        """The same patches with another graph and other bins; nothing is copied. bags: those of this batch."""
        ordered = [
            dataclasses.replace(bag, features=self.features[start:end], coords=self.coords[start:end])
            for bag, (start, end) in zip(bags, self.slides, strict=True)
        ]
        graphs = _cat_graphs([build_graph(bag, graph) if graph else None for bag in ordered])
        bins = torch.cat([position_bins(bag.coords, raster) for bag in ordered])
        return dataclasses.replace(self, graph=graphs, bins=bins)

    @classmethod
    def cat(cls, batches: Sequence["Batch"]) -> "Batch":
        """Block-diagonal concatenation."""
        if len(batches) == 1:
            return batches[0]
        return cls(
            torch.cat([b.features for b in batches]),
            _cat_graphs([b.graph for b in batches]),
            torch.cat([b.bins for b in batches]),
            torch.cat([b.order for b in batches]),
            torch.cat([b.coords for b in batches]),
            _cat_ptr([b.slide_ptr for b in batches]),
            _cat_ptr([b.bag_ptr for b in batches]),
            tuple(slide for b in batches for slide in b.slide_ids),
            tuple(values for b in batches for values in b.covariates),
        )

    def as_one_bag(self) -> "Batch":
        """All slides pooled together: a patient. The graphs stay apart."""
        return dataclasses.replace(self, bag_ptr=(0, len(self.features)))

    def keep_patches(self, keep: Tensor) -> "Batch":
        """Some of the patches, with the edges between them; at least one of every slide. keep: (patch,) bool."""
        before = [0, *keep.cumsum(0).tolist()]  # kept patches before each patch
        there = keep.to(self.features.device)
        return dataclasses.replace(
            self,
            features=self.features[there],
            graph=self.graph.keep_patches(there) if self.graph else None,
            bins=self.bins[there],
            order=self.order[keep],
            coords=self.coords[keep],
            slide_ptr=tuple(before[patch] for patch in self.slide_ptr),
            bag_ptr=tuple(before[patch] for patch in self.bag_ptr),
        )

    def to(self, device: torch.device | str) -> "Batch":
        """On a device, ready for a model: features become float32 there."""
        graph = self.graph.to(device) if self.graph else None
        return self.with_tensors(self.features.to(device).float(), graph, self.bins.to(device))

    def with_tensors(self, features: Tensor, graph: SpatialGraph | None, bins: Tensor) -> "Batch":
        """The same with what a model reads in another place."""
        return dataclasses.replace(self, features=features, graph=graph, bins=bins)

    def __len__(self) -> int:
        """Number of bags."""
        return len(self.bag_ptr) - 1

    @property
    def slides(self) -> Spans:
        return tuple(pairwise(self.slide_ptr))

    @property
    def bags(self) -> Spans:
        return tuple(pairwise(self.bag_ptr))

    @property
    def bag_of_slide(self) -> tuple[int, ...]:
        return tuple(bisect_right(self.bag_ptr, start) - 1 for start, _ in self.slides)

    @property
    def nbytes(self) -> int:
        own = sum(tensor.nbytes for tensor in (self.features, self.bins, self.order, self.coords))
        return own + (self.graph.nbytes if self.graph else 0)

    def in_file_order(self, values: Tensor) -> list[Tensor]:
        """Per-patch values (attention, hidden, coords, ...) of each slide, in the order of its file."""
        parts = []
        for start, end in self.slides:
            part = torch.empty_like(values[start:end])
            part[self.order[start:end].to(values.device)] = values[start:end]
            parts.append(part)
        return parts


def position_bins(coords: Tensor, raster: Raster = RASTER) -> Tensor:
    """Cell of the raster in which each patch lies, row by row; the last edge belongs to the last cell.

    axes `per-axis`: each axis fills the grid, so that a narrow slide uses all cells; `aspect`: cells are squares, and
    a narrow slide uses some of them.
    """
    low, span = raster_extent(coords, raster.axes)
    unit = (coords - low) / torch.where(span > 0, span, 1.0)
    column, row = (unit * raster.cells).long().clamp_(max=raster.cells - 1).T
    return row * raster.cells + column


def raster_extent(coords: Tensor, axes: str) -> tuple[Tensor, Tensor]:
    """Corner and size (x, y) of the rectangle that the raster covers; an axis may have no extent."""
    low = coords.min(dim=0).values
    span = coords.max(dim=0).values - low
    if axes == "aspect":
        span = span.max().expand(2)
    return low, span


def pieces(x: Tensor, spans: Spans) -> tuple[Tensor, ...]:
    """x by bags or slides. A slice's gradient is a tensor of zeros as large as x; a split's is not."""
    return (x,) if len(spans) == 1 else x.split([end - start for start, end in spans])


def _cat_ptr(ptrs: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    sizes = [end - start for ptr in ptrs for start, end in pairwise(ptr)]
    return (0, *accumulate(sizes))


def _cat_graphs(graphs: Sequence[SpatialGraph | None]) -> SpatialGraph | None:
    if any(graph is None for graph in graphs):
        return None
    known = [graph for graph in graphs if graph is not None]
    indptr, indices, reverse = [known[0].indptr[:1]], [], []
    patches = edges = 0
    for graph in known:
        indptr.append(graph.indptr[1:] + edges)
        indices.append(graph.indices + patches)
        reverse.append(graph.reverse + edges)
        patches, edges = patches + len(graph), edges + graph.edges
    weight = torch.cat([graph.weight for graph in known])
    return SpatialGraph(torch.cat(indptr), torch.cat(indices), weight, torch.cat(reverse))
