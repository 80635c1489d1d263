"""Encoders g: patch embeddings, with or without their neighbours, to hidden states."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..errors import ConfigError
from .batch import Batch
from .convs import CONVS, GAT


class MLP(nn.Module):
    """ABMIL's encoder: linear layers with ReLU; every patch by itself."""

    def __init__(self, in_dim: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d, hidden) for d in [in_dim] + [hidden] * (layers - 1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, batch: Batch) -> Tensor:
        h = features
        for layer in self.layers:
            h = self.dropout(F.relu(layer(h)))
        return h


class GraphEncoder(nn.Module):
    """Graph convolutions with ELU; every patch among its neighbours."""

    def __init__(self, in_dim: int, hidden: int, layers: int, dropout: float, conv: str, heads: int) -> None:
        super().__init__()
        options = {"heads": heads} if conv == "gat" else {}
        self.layers = nn.ModuleList(CONVS[conv](d, hidden, **options) for d in [in_dim] + [hidden] * (layers - 1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, batch: Batch) -> Tensor:
        if batch.graph is None:
            raise ConfigError("a graph method was given a batch without graphs; build it with Batch.of(bags).")
        h = features
        for layer in self.layers:
            h = self.dropout(elu(layer(h, batch.graph)))
        return h

    def edge_attention(self, batch: Batch) -> list[Tensor]:
        """What each patch attends to, a (head, edge) tensor a layer; GAT only."""
        found, h = [], batch.features
        for layer in self.layers:
            if not isinstance(layer, GAT) or batch.graph is None:
                raise ConfigError("only conv='gat' attends to neighbours; this model has none.")
            h, alpha = layer.attend(h, batch.graph)
            h = elu(h)
            found.append(alpha)
        return found


class _ELU(torch.autograd.Function):
    """max(x, exp(min(x, 0)) - 1). torch's own takes the exponential twice, and twice the time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = x.clamp(max=0).exp_().sub_(1)
        torch.maximum(x, out, out=out)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        return out.clamp(max=0).add_(1).mul_(g)


def elu(x: Tensor) -> Tensor:
    return _ELU.apply(x)
