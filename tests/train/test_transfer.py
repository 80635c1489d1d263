"""Batches on their way to a GPU that is not there: the CPU stands in for it, and its streams note what is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import FeatureError
from jigsawmil.graph_config import GraphConfig, Raster
from jigsawmil.nn.batch import Batch
from jigsawmil.train import feed as feeds
from jigsawmil.train.feed import Feed
from jigsawmil.train.transfer import GRAPHS, Transfer

CPU = torch.device("cpu")


@dataclass
class Stream:
    """Counts: an event is the number of copies that were asked for before it."""

    device: torch.device | None = None
    copies: int = 0
    waited: int = 0
    holds: set[int] = field(default_factory=set)  # tensors that it uses, by their place in memory

    def record_event(self) -> int:
        return self.copies

    def wait_event(self, event: int) -> None:
        self.waited = max(self.waited, event)


@dataclass
class Gpu:
    """What `torch.cuda` would be."""

    memory: float = 1e9
    computes: Stream = field(default_factory=Stream)
    copies: Stream = field(default_factory=Stream)
    current: Stream | None = None

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        self.current = stream
        yield
        self.current = None


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu()

    def pinned(tensor: torch.Tensor) -> torch.Tensor:
        assert gpu.current is gpu.copies  # nothing is copied where the model computes
        gpu.copies.copies += 1
        return tensor.clone()

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: gpu.copies)
    monkeypatch.setattr(torch.cuda, "stream", gpu.stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: gpu.computes)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (gpu.memory / GRAPHS, 8 * gpu.memory))
    monkeypatch.setattr(torch.Tensor, "pin_memory", pinned)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: stream.holds.add(tensor.data_ptr()))
    return gpu


@pytest.fixture
def feed(cohort: Cohort) -> Feed:
    return Feed(cohort, GraphConfig(k=4), Raster(3), level="patient")


def sent(feed: Feed, transfer: Transfer, steps: list[list[int]]) -> Iterator[Batch]:
    return transfer.batches(steps, map(feed.parts, steps))


def test_what_arrives_is_what_was_sent(feed: Feed, gpu: Gpu) -> None:
    steps = [[0], [3, 1], [2]]
    for batch, step in zip(sent(feed, Transfer(CPU), steps), steps, strict=True):
        wanted = feed.batch(step)
        assert (batch.slide_ids, batch.slide_ptr, batch.bag_ptr) == (wanted.slide_ids, wanted.slide_ptr, wanted.bag_ptr)
        assert batch.features.dtype == torch.float32
        for one, other in zip(tensors(batch), tensors(wanted), strict=True):
            assert torch.equal(one, other)
        assert gpu.computes.waited > 0  # before the batch is used
        gpu.computes.waited = 0
        assert {tensor.data_ptr() for tensor in tensors(batch)} <= gpu.computes.holds


def tensors(batch: Batch) -> list[Any]:
    assert batch.graph is not None
    return [batch.features, batch.bins, *batch.graph.tensors]


@pytest.mark.parametrize("room", [0.0, 0.5, 1.0])
def test_graphs_stay_while_there_is_room(feed: Feed, gpu: Gpu, room: float) -> None:
    bags = [[bag] for bag in range(6)]
    sizes = [part.graph.nbytes for (part,) in map(feed.parts, bags) if part.graph]
    gpu.memory = room * sum(sizes)
    transfer = Transfer(CPU)
    first, second = list(sent(feed, transfer, bags)), list(sent(feed, transfer, bags))  # both alive: places are unique
    pairs = zip(sizes, first, second, strict=True)
    kept = [size for size, one, two in pairs if one.graph.indices.data_ptr() == two.graph.indices.data_ptr()]
    before = gpu.copies.copies
    list(sent(feed, transfer, bags))
    again = gpu.copies.copies - before - 2 * len(bags)  # features and bins are copied each time
    assert sum(kept) <= gpu.memory
    assert again == 4 * (len(bags) - len(kept))
    assert len(kept) == {0.0: 0, 1.0: 6}.get(room, len(kept))
    assert room != 0.5 or 0 < len(kept) < 6


def test_a_feed_sends_to_a_gpu_and_to_nothing_else(feed: Feed, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(feeds, "Transfer", lambda device: Transfer(CPU))
    assert next(feed.stream([[1]])) is not None
    assert not gpu.copies.copies
    names = [item.name for item in feed.prepared([1, 0], "cuda")]
    first = gpu.copies.copies
    assert names == [feed.names[1], feed.names[0]]
    assert first == 2 * 6
    list(feed.prepared([1, 0], "cuda"))
    assert gpu.copies.copies == first + 2 * 2  # the graphs are there


def test_a_slide_that_cannot_be_read_stops_it(feed: Feed, gpu: Gpu) -> None:
    def parts() -> Iterator[list[Batch]]:
        yield feed.parts([0])
        raise FeatureError("damaged")

    with pytest.raises(FeatureError, match="damaged"):
        list(Transfer(CPU).batches([[0], [1]], parts()))
