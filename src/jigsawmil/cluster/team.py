"""Several processes that fit one model together, each with its share of every batch.

What they compute is what one process with the whole batch would have: losses are divided by the whole batch's counts,
gradients are summed, every process knows every slide's losses, and the random draws of other processes' slides are
drawn and thrown away. Dropout (of features, edges and patches) alone differs: each process draws its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..nn.batch import Batch
from ..train.feed import Feed
from ..train.training import Losses, Training

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """rank: this process among `size`. device: its own, on which it exchanges tensors. See `train.sharing.Sharing`."""

    rank: int
    size: int
    device: str = "cpu"

    def span(self, count: int) -> tuple[int, int]:
        """This process's part [start, end) of `count` things; empty for some if there are fewer than processes."""
        ends = [0, *accumulate(count // self.size + (rank < count % self.size) for rank in range(self.size))]
        return list(pairwise(ends))[self.rank]

    def share(self, items: Sequence[T]) -> Sequence[T]:
        start, end = self.span(len(items))
        return items[start:end]

    def step(
        self, training: Training, feed: Feed, bags: Sequence[int], batch: Batch | None, generator: torch.Generator
    ) -> Losses:
        start, end = self.span(len(bags))
        slides = [feed.cohort.slides[index] for bag in bags for index in feed.members[bag]]
        first, last = (sum(len(feed.members[bag]) for bag in bags[:bound]) for bound in (start, end))
        labels = feed.labels[list(bags[start:end])]
        mil = jigsaw = torch.zeros(0, device=self.device)
        skip_draws([slide.patches for slide in slides[:first]], generator)
        if batch is not None:
            mil, jigsaw = training.losses(batch, labels, generator)
        skip_draws([slide.patches for slide in slides[last:]], generator)
        seen = Losses(
            self.exchange(mil.detach(), start, len(bags)).tolist(),
            self.exchange(jigsaw.detach(), first, len(slides)).tolist(),
        )
        of_slides = [loss for loss, bag in zip(seen.mil, bags, strict=True) for _ in feed.members[bag]]
        lam = training.lam([slide.slide_id for slide in slides], of_slides, seen.jigsaw)[first:last]
        total = training.total(mil, labels, lam, jigsaw, bags=len(bags), slides=len(slides))
        training.update(None if batch is None else total, self.sum_gradients)
        training.last = tuple(slide.slide_id for slide in slides)
        return seen

    def gather(self, own: Tensor, count: int) -> Tensor:
        return self.exchange(own.to(self.device), self.span(count)[0], count).cpu()

    def exchange(self, own: Tensor, start: int, count: int) -> Tensor:
        """Rows of all processes, in order: this one has those from `start` on, of `count`.

        In single precision at least: all must exchange one type, and one without rows knows nothing of autocast's.
        """
        kind = torch.promote_types(own.dtype, torch.float32)
        rows = own.new_zeros(count, *own.shape[1:], dtype=kind)
        rows[start : start + len(own)] = own
        dist.all_reduce(rows)
        return rows

    def sum_gradients(self, model: nn.Module) -> None:
        """One exchange of one flat vector; a process without bags adds zeros."""
        parameters = list(model.parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)
        for grad, part in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
            grad.copy_(part.view_as(grad))


def skip_draws(patches: Sequence[int], generator: torch.Generator) -> None:
    """Throw away the draws of slides that another process has: a jigsaw task takes one permutation per slide."""
    for count in patches:
        torch.randperm(count, generator=generator)
