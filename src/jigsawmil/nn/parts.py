"""What a convolution, a pooling and a jigsaw task have to provide.

A new one is a subclass in a file of its own: in `convs/`, `poolings/` or `jigsaws/`, where it is found by its name, or
anywhere else if that code is imported first. It registers itself, and brings the words by which a report describes it.
"""

from collections.abc import Callable
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from ..graph import SpatialGraph
from .batch import Batch, Spans
from .options import ModelOptions

Encode = Callable[[Tensor, Batch], Tensor]  # features over the graph of a batch -> hidden


class Part(nn.Module):
    """phrase: what a report calls the part; override `describe` if it depends on the options."""

    phrase: ClassVar[str] = ""

    @classmethod
    def describe(cls, options: ModelOptions) -> str:
        return cls.phrase or cls.__name__


class Conv(Part):
    """(patch, in_dim) -> (patch, out_dim) on one graph. Sum over neighbours with `nn/sparse.py`: nothing may be
    edges x width.

    attends: has `attend`, which also returns what each patch attends to.
    """

    attends: ClassVar[bool] = False

    @classmethod
    def of(cls, in_dim: int, out_dim: int, options: ModelOptions) -> Self:
        """Override to take more of the options."""
        return cls(in_dim, out_dim)

    def forward(self, x: Tensor, graph: SpatialGraph) -> Tensor:
        raise NotImplementedError

    def attend(self, x: Tensor, graph: SpatialGraph) -> tuple[Tensor, Tensor]:
        """(patch, d) and the attention of every edge, (head, edge)."""
        raise NotImplementedError


class Pooling(Part):
    """Hidden states of bags -> z (bag, d), and the weight a of every patch (patch,), which sums to 1 within a bag."""

    @classmethod
    def of(cls, options: ModelOptions) -> Self:
        """Override to take some of the options."""
        return cls()

    def forward(self, h: Tensor, bags: Spans) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def contributions(self, hidden: Tensor, attention: Tensor, weight: Tensor) -> Tensor | None:
        """(patch, logit), double: what each patch adds to the logits W z of a linear head; their sum is W z.

        weight: W (logit, d). This is the rule of z = sum_j a_j h_j. A pooling of another form overrides it; if it
        cannot state such shares it returns None, and maps show attention only.
        """
        return attention.double()[:, None] * (hidden.double() @ weight.double().T)


class Jigsaw(Part):
    """A loss per slide, (slide,). encodes_twice: runs the encoder again, on other features; that takes memory."""

    encodes_twice: ClassVar[bool] = False

    @classmethod
    def of(cls, options: ModelOptions) -> Self:
        """Override to take others of the options."""
        return cls(options.hidden, options.grid, options.share)

    def logits(self, hidden: Tensor) -> Tensor | None:
        """(patch, grid^2): in which cell each patch lies; None for tasks that do not ask this."""
        return None

    def forward(
        self, encode: Encode, batch: Batch, hidden: Tensor, logits: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        raise NotImplementedError


def permutation(batch: Batch, generator: torch.Generator) -> Tensor:
    """A random permutation of the patches within each slide."""
    parts = [start + torch.randperm(end - start, generator=generator) for start, end in batch.slides]
    return torch.cat(parts).to(batch.features.device)
