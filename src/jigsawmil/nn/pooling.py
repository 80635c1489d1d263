"""Pooling rho: the hidden states of a bag to one vector. Slides are few, so a loop over bags is plain and exact."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ConfigError
from .batch import Batch, Spans, pieces
from .convs import degree
from .sparse import neighbour_sum


class AttentionPool(nn.Module):
    """a_j = softmax(mu . tanh(V h_j)); z = sum_j a_j h_j. Gated: tanh(V h) * sigmoid(U h) (Ilse et al. 2018)."""

    def __init__(self, hidden: int, attention_dim: int, gated: bool) -> None:
        super().__init__()
        self.view = nn.Linear(hidden, attention_dim)
        self.gate = nn.Linear(hidden, attention_dim) if gated else None
        self.score = nn.Linear(attention_dim, 1, bias=False)  # mu; a bias would cancel in the softmax

    def forward(self, h: Tensor, bags: Spans) -> tuple[Tensor, Tensor]:
        view = torch.tanh(self.view(h))
        if self.gate is not None:
            view = view * torch.sigmoid(self.gate(h))
        score = self.score(view).squeeze(1)
        parts = [part.softmax(0) for part in pieces(score, bags)]
        z = torch.stack([a @ part for a, part in zip(parts, pieces(h, bags), strict=True)])
        return z, torch.cat(parts)  # (bag, d), (patch,)


class MeanPool(nn.Module):
    """z = mean_j h_j; every patch has the same attention."""

    def forward(self, h: Tensor, bags: Spans) -> tuple[Tensor, Tensor]:
        a = torch.cat([h.new_full((end - start,), 1 / (end - start)) for start, end in bags])
        return torch.stack([part.mean(0) for part in pieces(h, bags)]), a


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
                "co-occurrence of kinds was asked of a batch without graphs; build it with Batch.of(bags)."
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
