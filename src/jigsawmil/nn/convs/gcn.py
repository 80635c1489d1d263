"""The graph convolution of Kipf and Welling."""

import torch
from torch import Tensor, nn

from ...graph import SpatialGraph
from ..parts import Conv
from ..sparse import degree, neighbour_sum
from . import CONVS


@CONVS.register("gcn")
class GCN(Conv):
    """h_j = sum_l w_jl / sqrt(D_j D_l) W x_l + b with D_j = sum_l w_jl (Kipf and Welling 2017)."""

    phrase = "graph convolution (GCN)"

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(in_dim, out_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_dim))
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, x: Tensor, graph: SpatialGraph) -> Tensor:
        y = self.project(x)
        scale = degree(graph, y).rsqrt()
        return scale * neighbour_sum(scale * y, graph) + self.bias
