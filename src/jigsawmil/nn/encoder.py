"""Encoders g: patch embeddings, with or without their neighbours, to hidden states."""

import torch.nn.functional as F
from torch import Tensor, nn

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
            h = self.dropout(F.elu(layer(h, batch.graph)))
        return h

    def edge_attention(self, batch: Batch) -> list[Tensor]:
        """What each patch attends to, a (head, edge) tensor a layer; GAT only."""
        found, h = [], batch.features
        for layer in self.layers:
            if not isinstance(layer, GAT) or batch.graph is None:
                raise ConfigError("only conv='gat' attends to neighbours; this model has none.")
            h, alpha = layer.attend(h, batch.graph)
            h = F.elu(h)
            found.append(alpha)
        return found
