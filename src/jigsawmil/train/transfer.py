"""Batches on their way to a GPU: copied from pinned memory while the one before them computes. See docs/gpu.md."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..bags.store import read_ahead
from ..graph import SpatialGraph
from ..nn.batch import Batch

GRAPHS = 0.25  # share of the GPU's free memory that graphs may keep


class Transfer:
    """Copies to one GPU on a stream of their own, in a thread of their own, one batch ahead of the one that computes.

    Graphs stay on the GPU, first come, first kept, while there is room: they are the same in every epoch.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._copies = torch.cuda.Stream(device)
        self._graphs: dict[int, SpatialGraph] = {}  # bag -> its graph
        self._room = GRAPHS * torch.cuda.mem_get_info(device)[0]

    def batches(self, steps: Sequence[Sequence[int]], parts: Iterator[list[Batch]]) -> Iterator[Batch]:
        """Each step's batch on the GPU. steps: its bags; parts: one batch for each of them, on the CPU."""
        for batch, copied in read_ahead(self._send, zip(steps, parts, strict=True), depth=1):
            computes = torch.cuda.current_stream(self._device)
            computes.wait_event(copied)
            for tensor in _tensors(batch):  # its memory serves the next copies when `computes` is done with it
                tensor.record_stream(computes)
            yield batch

    def _send(self, step: tuple[Sequence[int], list[Batch]]) -> tuple[Batch, torch.cuda.Event]:
        with torch.cuda.stream(self._copies):
            batch = Batch.cat([self._sent(bag, part) for bag, part in zip(*step, strict=True)])
            return batch, self._copies.record_event()

    def _sent(self, bag: int, part: Batch) -> Batch:
        graph = self._graphs.get(bag)
        if graph is None and part.graph is not None:
            graph = part.graph.each(self._copied)
            if graph.nbytes <= self._room:
                self._graphs[bag] = graph
                self._room -= graph.nbytes
        return part.with_tensors(self._copied(part.features).float(), graph, self._copied(part.bins))

    def _copied(self, tensor: Tensor) -> Tensor:
        """torch keeps the pinned memory until the copy is done."""
        return tensor.pin_memory().to(self._device, non_blocking=True)


def _tensors(batch: Batch) -> list[Tensor]:
    return [batch.features, batch.bins, *(batch.graph.tensors if batch.graph else ())]
