"""Slides prepared for the model, and the same on disk, where memory cannot hold the cohort."""

import dataclasses
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..bags.bag import Bag, narrowed
from ..bags.digest import content_digest, digest
from ..bags.disk_cache import machine_cache
from ..cohort.cohort import Cohort
from ..graph import SpatialGraph, build_graph
from ..graph_config import GraphConfig, Raster
from ..nn.batch import Batch
from ..version import __version__

FORMAT = 1  # of the files; another number where preparing gives something else


class Prepare:
    """The slides of a cohort as the model takes them: patches ordered, graph built, bins found.

    What there is no room for in memory goes into the cache of this machine (`spill`): one file for the features in
    their order, one for each graph on them, so that several graphs share the features. Their names are digests of
    the content of the slide's files and of everything that reading and preparing depend on. Bags in memory stay there.

    shuffle: see `Feed`. digests: of the features of slides that were prepared, by their index, see `content_digest`.
    """

    def __init__(self, cohort: Cohort, graph: GraphConfig | None, raster: Raster, shuffle: int | None) -> None:
        self._cohort, self._graph, self._raster, self._shuffle = cohort, graph, raster, shuffle
        self._cache = machine_cache()
        self.digests: dict[int, str] = {}

    def __call__(self, index: int) -> Batch:
        bag, order = self._kept(index) or self._read(index)
        graph = (self._kept_graph(index) or build_graph(bag, self._graph)) if self._graph else None
        return Batch.of_ordered(bag, order, graph, self._raster)

    def spill(self, index: int, batch: Batch) -> None:
        """Keep a slide on disk, if it came from there and is not kept yet."""
        if (name := self._name(index)) is None:
            return
        tensors = {"features": batch.features, "order": batch.order, "coords": batch.coords}
        self._cache.keep(name, tensors, {"digest": self.digests[index]})
        if batch.graph is not None:
            self._cache.keep(self._graph_name(name), _arrays(batch.graph), {})

    def _read(self, index: int) -> tuple[Bag, Tensor]:
        """A slide along its Hilbert curve, its features as narrow as they were stored."""
        bag = self._cohort.bag(index)
        if index not in self.digests:
            self.digests[index] = content_digest(bag.features)
        if self._shuffle is not None:
            bag = shuffle_places(bag, self._shuffle)
        ordered = Batch.of(dataclasses.replace(bag, features=narrowed(bag.features)), None, self._raster)
        return dataclasses.replace(bag, features=ordered.features, coords=ordered.coords), ordered.order

    def _kept(self, index: int) -> tuple[Bag, Tensor] | None:
        """The same from the cache."""
        slide = self._cohort.slides[index]
        if (name := self._name(index)) is None or slide.survey is None or (found := self._cache.read(name)) is None:
            return None
        slide.survey.refuse_change()
        tensors, notes = found
        self.digests[index] = notes["digest"]
        info, known = slide.survey.info, self._cohort.known_of(slide) if self._cohort.covariates else None
        bag = Bag(
            slide_id=slide.slide_id, features=tensors["features"], coords=tensors["coords"], mpp=info.mpp,
            unit=info.unit, patch_size=info.patch_size, covariates=known,
        )  # fmt: skip
        return bag, tensors["order"]

    def _kept_graph(self, index: int) -> SpatialGraph | None:
        if (name := self._name(index)) is None or (found := self._cache.read(self._graph_name(name))) is None:
            return None
        return SpatialGraph(**found[0])

    def _name(self, index: int) -> str | None:
        """Of the file of a slide; None of a bag in memory."""
        slide, shuffle = self._cohort.slides[index], self._shuffle
        if (survey := slide.survey) is None or not survey.content:
            return None
        info, sizes = survey.info, [row[1:] for row in survey.state]  # and times of change
        read = [repr(survey.options), info.format, info.unit, info.mpp, info.patch_size]
        moved = None if shuffle is None else [shuffle, slide.slide_id]
        return _digest(FORMAT, __version__, survey.content, sizes, read, moved)

    def _graph_name(self, name: str) -> str:
        assert self._graph is not None
        return f"{name}-{_digest(dataclasses.asdict(self._graph))}"


def shuffle_places(bag: Bag, seed: int) -> Bag:
    """The same patches and the same places, joined at random."""
    rng = np.random.default_rng([seed, zlib.crc32(bag.slide_id.encode())])
    return dataclasses.replace(bag, coords=bag.coords[torch.from_numpy(rng.permutation(len(bag)))])


def _arrays(graph: SpatialGraph) -> Mapping[str, Tensor]:
    return {field.name: getattr(graph, field.name) for field in dataclasses.fields(graph)}


def _digest(*values: Any) -> str:
    return digest(json.dumps(values, sort_keys=True).encode())
