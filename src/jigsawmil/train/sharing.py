"""How processes share a training: a seam, so that the loop knows nothing of them. `cluster.team` fills it."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from ..nn.batch import Batch
from .feed import Feed
from .training import Losses, Training

T = TypeVar("T")


class Sharing(Protocol):
    @property
    def rank(self) -> int:
        """Of this process; the first, 0, saves the state."""

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part, perhaps empty."""

    def step(
        self, training: Training, feed: Feed, bags: Sequence[int], batch: Batch | None, generator: torch.Generator
    ) -> Losses:
        """`Training.step` on all `bags`, of which `batch` holds this process's share; the losses of all."""

    def gather(self, own: Tensor, count: int) -> Tensor:
        """The rows of all processes, in order, of which this one has its share of `count`."""


class Alone:
    """One process that has every batch whole."""

    rank = 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        return items

    def step(
        self, training: Training, feed: Feed, bags: Sequence[int], batch: Batch | None, generator: torch.Generator
    ) -> Losses:
        assert batch is not None  # its share is the whole
        return training.step(batch, feed.labels[list(bags)], generator)

    def gather(self, own: Tensor, count: int) -> Tensor:
        return own


ALONE = Alone()
