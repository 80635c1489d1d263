"""Do the hidden states move along with the patches?"""

import torch
from torch import Tensor

from ..batch import Batch, pieces
from ..parts import Encode, Jigsaw, permutation
from . import JIGSAWS


@JIGSAWS.register("equivariance")
class Equivariance(Jigsaw):
    """|| g(SX) - S g(X) ||_F^2, as a mean over patches and columns: moving patches should move their states along.

    The Siamese loss of Chen et al. (2025), which the paper describes as related work (Appendix A.1) and contrasts with
    its own task. The paper says that it teaches spatial correlation. Over a fixed graph it does not: an encoder that
    ignores the neighbours, such as ABMIL's MLP, has loss 0, and a graph encoder can lower it by ignoring them.
    """

    phrase = "the encoder is penalised where permuting patches and encoding them do not commute"
    encodes_twice = True

    def __init__(self, hidden: int, grid: int, share: float) -> None:
        super().__init__()

    def forward(
        self, encode: Encode, batch: Batch, hidden: Tensor, logits: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        moved = permutation(batch, generator)
        gap = (encode(batch.features[moved], batch) - hidden[moved]).square()
        return torch.stack([part.mean() for part in pieces(gap, batch.slides)])
