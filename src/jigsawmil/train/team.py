"""Several processes that fit one model together, each with its share of every batch.

What they compute is what one process with the whole batch would have: losses are divided by the whole batch's counts,
gradients are summed, every process knows every slide's losses, and the random draws of other processes' slides are
drawn and thrown away. Dropout alone differs: each process draws its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """rank: this process among `size`. A team of one is an ordinary training."""

    rank: int = 0
    size: int = 1

    def span(self, count: int) -> tuple[int, int]:
        """This process's part [start, end) of `count` things; some have none where there are fewer than processes."""
        ends = [0, *accumulate(count // self.size + (rank < count % self.size) for rank in range(self.size))]
        return list(pairwise(ends))[self.rank]

    def share(self, items: Sequence[T]) -> Sequence[T]:
        start, end = self.span(len(items))
        return items[start:end]

    def gather(self, own: Tensor, start: int, count: int) -> Tensor:
        """Rows of all processes, in order: this one has those from `start` on, of `count`.

        In single precision at least: all must exchange one type, and one without rows knows nothing of autocast's.
        """
        if self.size == 1:
            return own
        kind = torch.promote_types(own.dtype, torch.float32)
        rows = own.new_zeros(count, *own.shape[1:], dtype=kind)
        rows[start : start + len(own)] = own
        dist.all_reduce(rows)
        return rows

    def sum_gradients(self, model: nn.Module) -> None:
        """One exchange of one flat vector; a process without bags adds zeros."""
        if self.size == 1:
            return
        parameters = list(model.parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)
        for grad, part in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
            grad.copy_(part.view_as(grad))


ALONE = Team()


def skip_draws(patches: Sequence[int], generator: torch.Generator) -> None:
    """Throw away the draws of slides that another process has: a jigsaw task takes one permutation a slide."""
    for count in patches:
        torch.randperm(count, generator=generator)
