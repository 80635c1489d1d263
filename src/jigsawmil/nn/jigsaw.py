"""Jigsaw tasks: three ways to ask of every patch whether it knows where it belongs.

Each gives one loss a slide. None sees a coordinate: only the hidden states do the answering.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from .batch import Batch

Encode = Callable[[Tensor], Tensor]  # features over the batch's fixed graph -> hidden


def position_bins(coords: Tensor, grid: int) -> Tensor:
    """Cell of a grid x grid raster over the slide's bounding box, row by row; the last edge belongs to the last cell.

    Each axis fills the grid (unlike the distances, which keep the aspect), so that a narrow slide uses all cells.
    """
    low = coords.min(dim=0).values
    span = coords.max(dim=0).values - low
    unit = (coords - low) / torch.where(span > 0, span, 1.0)
    column, row = (unit * grid).long().clamp_(max=grid - 1).T
    return row * grid + column


class Position(nn.Module):
    """The paper's task: name your own bin. Cross-entropy on a random share of the patches, drawn anew each step."""

    def __init__(self, hidden: int, grid: int, share: float) -> None:
        super().__init__()
        self.head = nn.Linear(hidden, grid * grid)
        self.share = share

    def logits(self, hidden: Tensor) -> Tensor | None:
        return self.head(hidden)

    def forward(
        self, encode: Encode, batch: Batch, hidden: Tensor, logits: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        assert logits is not None
        losses = []
        for start, end in batch.slides:
            drawn = torch.randperm(end - start, generator=generator)[: max(1, round(self.share * (end - start)))]
            target = torch.full((end - start,), -100)  # cross_entropy's mark for "not asked"
            target[drawn] = batch.bins[start:end].cpu()[drawn]
            losses.append(F.cross_entropy(logits[start:end], target.to(hidden.device)))
        return torch.stack(losses)


class Consistency(nn.Module):
    """The same encoder on features permuted over the fixed graph; a discriminator tells real from imposter (BCE)."""

    def __init__(self, hidden: int, grid: int, share: float) -> None:
        super().__init__()
        self.head = nn.Linear(hidden, 1)

    def logits(self, hidden: Tensor) -> Tensor | None:
        return None

    def forward(
        self, encode: Encode, batch: Batch, hidden: Tensor, logits: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        imposter = encode(batch.features[permutation(batch, generator)])
        real, fake = self.head(hidden).squeeze(1), self.head(imposter).squeeze(1)
        loss = (F.softplus(-real) + F.softplus(fake)) / 2  # BCE of 1 and 0
        return torch.stack([loss[start:end].mean() for start, end in batch.slides])


class Equivariance(nn.Module):
    """|| g(SX) - S g(X) ||_F^2, as a mean over patches and columns: moving patches should move their states along.

    The Siamese form that the paper contrasts itself with: it rewards ignoring the neighbours.
    """

    def __init__(self, hidden: int, grid: int, share: float) -> None:
        super().__init__()

    def logits(self, hidden: Tensor) -> Tensor | None:
        return None

    def forward(
        self, encode: Encode, batch: Batch, hidden: Tensor, logits: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        moved = permutation(batch, generator)
        gap = (encode(batch.features[moved]) - hidden[moved]).square()
        return torch.stack([gap[start:end].mean() for start, end in batch.slides])


def permutation(batch: Batch, generator: torch.Generator) -> Tensor:
    """A random permutation of the patches within each slide."""
    parts = [start + torch.randperm(end - start, generator=generator) for start, end in batch.slides]
    return torch.cat(parts).to(batch.features.device)


JIGSAWS: dict[str, type[Position | Consistency | Equivariance]] = {
    "position": Position,
    "consistency": Consistency,
    "equivariance": Equivariance,
}
