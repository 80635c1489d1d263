"""Encoders g: patch embeddings, with or without their neighbours, to hidden states."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ConfigError
from ..graph import SpatialGraph
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
        self.input_dropout, self.dropout = nn.Dropout(options.input_dropout), nn.Dropout(options.dropout)

    def forward(self, features: Tensor, batch: Batch) -> Tensor:
        h = self.input_dropout(features)
        for layer in self.layers:
            h = self.dropout(F.relu(layer(h)))
        return h


class GraphEncoder(nn.Module):
    """Graph convolutions with ELU; every patch among its neighbours."""

    def __init__(self, in_dim: int, options: ModelOptions) -> None:
        super().__init__()
        conv = CONVS[options.conv]
        self.layers = nn.ModuleList(conv.of(d, options.hidden, options) for d in _widths(in_dim, options))
        self.input_dropout, self.dropout = nn.Dropout(options.input_dropout), nn.Dropout(options.dropout)
        self.edge_dropout = options.edge_dropout
        self.attends = conv.attends

    def forward(self, features: Tensor, batch: Batch) -> Tensor:
        if batch.graph is None:
            raise ConfigError("a graph method received a batch without graphs; build it with Batch.of(bags).")
        graph = batch.graph
        if self.training and self.edge_dropout:
            graph = drop_edges(graph, self.edge_dropout)
        h = self.input_dropout(features)
        for layer in self.layers:
            h = self.dropout(elu(layer(h, graph)))
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


def drop_edges(graph: SpatialGraph, share: float) -> SpatialGraph:
    """About this share of the edges is left out, each with its reverse; self-loops stay. Draws as dropout does."""
    row, column = graph.rows, graph.indices
    draw = torch.rand(graph.edges, device=column.device)
    draw = torch.where(row < column, draw, draw[graph.reverse.long()])  # one draw per pair
    return graph.keep_edges((draw >= share) | (row == column))


def _widths(in_dim: int, options: ModelOptions) -> list[int]:
    """Columns that each layer takes."""
    return [in_dim] + [options.hidden] * (options.layers - 1)
