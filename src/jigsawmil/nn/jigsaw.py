"""Jigsaw tasks: three ways to ask of every patch whether it knows where it belongs.

Each gives one loss a slide. None sees a coordinate: only the hidden states do the answering.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .batch import Batch, pieces

Encode = Callable[[Tensor], Tensor]  # features over the batch's fixed graph -> hidden


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
        for part, bins in zip(pieces(logits, batch.slides), pieces(batch.bins, batch.slides), strict=True):
            unasked = torch.randperm(len(bins), generator=generator)[max(1, round(self.share * len(bins))) :]
            target = bins.index_fill(0, unasked.to(bins.device), -100)  # cross_entropy's mark for "not asked"
            losses.append(F.cross_entropy(part, target))
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
        return torch.stack([part.mean() for part in pieces(loss, batch.slides)])


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
        return torch.stack([part.mean() for part in pieces(gap, batch.slides)])


def permutation(batch: Batch, generator: torch.Generator) -> Tensor:
    """A random permutation of the patches within each slide."""
    parts = [start + torch.randperm(end - start, generator=generator) for start, end in batch.slides]
    return torch.cat(parts).to(batch.features.device)


JIGSAWS: dict[str, type[Position | Consistency | Equivariance]] = {
    "position": Position,
    "consistency": Consistency,
    "equivariance": Equivariance,
}
