"""The paper's jigsaw task: in which cell of its slide does a patch lie?"""

from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..batch import Batch, pieces
from ..options import ModelOptions
from ..parts import Encode, Jigsaw
from . import JIGSAWS


@JIGSAWS.register("position")
class Position(Jigsaw):
    """The paper's task: name your own bin. Cross-entropy on a random share of the patches, drawn again at each step."""

    def __init__(self, hidden: int, grid: int, share: float, head: str = "linear") -> None:
        super().__init__()
        last = nn.Linear(hidden, grid * grid)
        self.head = last if head == "linear" else nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), last)
        self.share = share

    @classmethod
    def of(cls, options: ModelOptions) -> Self:
        return cls(options.hidden, options.grid, options.share, options.jigsaw_head)

    @classmethod
    def describe(cls, options: ModelOptions) -> str:
        cells, share = f"{options.grid} x {options.grid} cells", f"{options.share:.0%} of the patches per step"
        return f"the model predicts for every patch in which of {cells} of its slide it lies ({share})"

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
