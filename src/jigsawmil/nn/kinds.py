"""Which kinds of patches lie beside which: what the option `kinds` adds to the pooled state."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ConfigError
from .batch import Batch, pieces
from .sparse import degree, neighbour_sum


class Enrichment(nn.Module):
    """Which kinds of patches lie beside which, more often than chance: e_ab = log (O_ab + eps) / (E_ab + eps).

    s_j = softmax(A x_j), the patch's share in each kind, x standardised within its slide, so that neither stain nor
    unit matters; m_j = sum_l w_jl s_l / sum_l w_jl over neighbours l without j itself. O = mean_j s_j m_j^T over the
    bag; E = s s^T of the bag's mean s, which O would be if patches were dealt out at random. An average of hidden
    states cannot divide by it. A patch without neighbours counts as chance.

    Kind a starts as feature a: types given as one-hot columns are kept apart, and of an embedding's directions
    none is better than another.
    """

    SHARPNESS = 3.0  # of the first kinds: a standardised one-hot stands out by at least 2, so by 6 in the softmax
    EPS = 1e-3  # pairs rarer than this carry no news

    def __init__(self, in_dim: int, kinds: int) -> None:
        super().__init__()
        self.kind = nn.Parameter(self.SHARPNESS * torch.eye(kinds, in_dim))  # A

    def forward(self, features: Tensor, batch: Batch) -> Tensor:
        """(bag, kinds^2)"""
        if batch.graph is None:
            raise ConfigError(
                "the co-occurrence of kinds needs graphs, and the batch has none; build it with Batch.of(bags)."
            )
        s = torch.cat([self._kinds(part) for part in pieces(features, batch.slides)])  # (patch, kinds)
        around = degree(batch.graph, s) - 1  # the self-loop has weight 1
        m = (neighbour_sum(s, batch.graph) - s) / around.clamp(min=1e-6)
        alone = batch.graph.indptr.diff() == 1
        found = []
        for own, beside, lonely in zip(*(pieces(x, batch.bags) for x in (s, m, alone)), strict=True):
            mean = own.mean(0)
            beside = torch.where(lonely[:, None], mean, beside)
            observed, expected = own.T @ beside / len(own), mean[:, None] * mean
            found.append(((observed + self.EPS) / (expected + self.EPS)).log().flatten())
        return torch.stack(found)

    def _kinds(self, x: Tensor) -> Tensor:
        """softmax(A (x - mean) / std) of one slide; the scaling is folded into A, so no second x is made."""
        variance, mean = torch.var_mean(x, dim=0, correction=0)
        kind = self.kind * (variance + 1e-5).rsqrt()
        return F.linear(x, kind, -(kind @ mean)).softmax(1)
