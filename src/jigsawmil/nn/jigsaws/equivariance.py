"""Do the hidden states move along with the patches?"""

import torch
from torch import Tensor

from ..batch import Batch, pieces
from ..parts import Encode, Jigsaw, permutation
from . import JIGSAWS


@JIGSAWS.register("equivariance")
class Equivariance(Jigsaw):
    """|| g(SX) - S g(X) ||_F^2, as a mean over patches and columns: moving patches should move their states along.

    The Siamese form that the paper contrasts itself with: it rewards ignoring the neighbours.
    """

    phrase = "the encoder is penalised where permuting patches and encoding them do not commute"
    encodes_twice = True

    def __init__(self, hidden: int, grid: int, share: float) -> None:
        super().__init__()

    def forward(
        self, encode: Encode, batch: Batch, hidden: Tensor, logits: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        moved = permutation(batch, generator)
        gap = (encode(batch.features[moved]) - hidden[moved]).square()
        return torch.stack([part.mean() for part in pieces(gap, batch.slides)])
