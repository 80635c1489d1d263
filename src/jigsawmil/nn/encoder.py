"""Encoders g: patch embeddings, with or without their neighbours, to hidden states."""

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ConfigError
from .activations import elu
from .batch import Batch
from .convs import CONVS
from .options import ModelOptions
from .parts import Conv


class MLP(nn.Module):
    """ABMIL's encoder: linear layers with ReLU; every patch by itself."""

    def __init__(self, in_dim: int, options: ModelOptions) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d, options.hidden) for d in _widths(in_dim, options))
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, features: Tensor, batch: Batch) -> Tensor:
        h = features
        for layer in self.layers:
            h = self.dropout(F.relu(layer(h)))
        return h


class GraphEncoder(nn.Module):
    """Graph convolutions with ELU; every patch among its neighbours."""

    def __init__(self, in_dim: int, options: ModelOptions) -> None:
        super().__init__()
        conv = CONVS[options.conv]
        self.layers = nn.ModuleList(conv.of(d, options.hidden, options) for d in _widths(in_dim, options))
        self.dropout = nn.Dropout(options.dropout)
        self.attends = conv.attends

    def forward(self, features: Tensor, batch: Batch) -> Tensor:
        if batch.graph is None:
            raise ConfigError("a graph method was given a batch without graphs; build it with Batch.of(bags).")
        h = features
        for layer in self.layers:
            h = self.dropout(elu(layer(h, batch.graph)))
        return h

    def edge_attention(self, batch: Batch) -> list[Tensor]:
        """What each patch attends to, one (head, edge) tensor per layer; of convolutions that attend."""
        if not self.attends or batch.graph is None:
            raise ConfigError("this model does not attend to neighbours; expected one with conv='gat' and a graph.")
        found, h = [], batch.features
        for layer in self.layers:
            assert isinstance(layer, Conv)
            h, alpha = layer.attend(h, batch.graph)
            h = elu(h)
            found.append(alpha)
        return found


def _widths(in_dim: int, options: ModelOptions) -> list[int]:
    """Columns that each layer takes."""
    return [in_dim] + [options.hidden] * (options.layers - 1)
