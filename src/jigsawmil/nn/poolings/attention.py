"""Attention pooling."""

from typing import Self

import torch
from torch import Tensor, nn

from ..batch import Spans, pieces
from ..options import ModelOptions
from ..parts import Pooling
from . import POOLINGS


@POOLINGS.register("attention")
class AttentionPool(Pooling):
    """a_j = softmax(mu . tanh(V h_j)); z = sum_j a_j h_j. Gated: tanh(V h) * sigmoid(U h) (Ilse et al. 2018)."""

    phrase = "attention pooling"

    def __init__(self, hidden: int, attention_dim: int, *, bias: bool = True, gated: bool = False) -> None:
        super().__init__()
        self.view = nn.Linear(hidden, attention_dim, bias)
        self.gate = nn.Linear(hidden, attention_dim, bias) if gated else None
        self.score = nn.Linear(attention_dim, 1, bias=False)  # mu; a bias would cancel in the softmax

    @classmethod
    def of(cls, options: ModelOptions) -> Self:
        return cls(options.hidden, options.attention_dim, bias=options.attention_bias)

    def forward(self, h: Tensor, bags: Spans) -> tuple[Tensor, Tensor]:
        view = torch.tanh(self.view(h))
        if self.gate is not None:
            view = view * torch.sigmoid(self.gate(h))
        score = self.score(view).squeeze(1)
        parts = [part.softmax(0) for part in pieces(score, bags)]
        z = torch.stack([a @ part for a, part in zip(parts, pieces(h, bags), strict=True)])
        return z, torch.cat(parts)  # (bag, d), (patch,)
