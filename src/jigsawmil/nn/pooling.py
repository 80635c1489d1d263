"""Pooling rho: the hidden states of a bag to one vector. Slides are few, so a loop over bags is plain and exact."""

import torch
from torch import Tensor, nn

from .batch import Spans, pieces


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
