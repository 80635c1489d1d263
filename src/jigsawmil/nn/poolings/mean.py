"""Mean pooling."""

import torch
from torch import Tensor

from ..batch import Spans, pieces
from ..parts import Pooling
from . import POOLINGS


@POOLINGS.register("mean")
class MeanPool(Pooling):
    """z = mean_j h_j; every patch has the same attention."""

    phrase = "mean pooling: every patch has the same weight"

    def forward(self, h: Tensor, bags: Spans) -> tuple[Tensor, Tensor]:
        a = torch.cat([h.new_full((end - start,), 1 / (end - start)) for start, end in bags])
        return torch.stack([part.mean(0) for part in pieces(h, bags)]), a
