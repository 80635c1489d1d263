"""Are the features of a patch its own, given its neighbours?"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..batch import Batch, pieces
from ..parts import Encode, Jigsaw, permutation
from . import JIGSAWS


@JIGSAWS.register("consistency")
class Consistency(Jigsaw):
    """The same encoder on features permuted over the fixed graph; a discriminator tells real from imposter (BCE)."""

    phrase = "a discriminator tells patches in their own places from patches whose features were permuted"
    encodes_twice = True

    def __init__(self, hidden: int, grid: int, share: float) -> None:
        super().__init__()
        self.head = nn.Linear(hidden, 1)

    def forward(
        self, encode: Encode, batch: Batch, hidden: Tensor, logits: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        imposter = encode(batch.features[permutation(batch, generator)])
        real, fake = self.head(hidden).squeeze(1), self.head(imposter).squeeze(1)
        loss = (F.softplus(-real) + F.softplus(fake)) / 2  # BCE of 1 and 0
        return torch.stack([part.mean() for part in pieces(loss, batch.slides)])
