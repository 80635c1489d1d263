"""The graph isomorphism network."""

import torch
from torch import Tensor, nn

from ...graph import SpatialGraph
from ..parts import Conv
from ..sparse import neighbour_sum
from . import CONVS


@CONVS.register("gin")
class GIN(Conv):
    """h_j = B ReLU(A ((1 + eps) x_j + sum_l w_jl x_l) + a) + b, the sum without j (Xu et al. 2019)."""

    phrase = "graph isomorphism (GIN)"

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(in_dim, out_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_dim))
        self.out = nn.Linear(out_dim, out_dim)
        self.eps = nn.Parameter(torch.zeros(()))
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, x: Tensor, graph: SpatialGraph) -> Tensor:
        y = self.project(x)
        total = neighbour_sum(y, graph) + self.eps * y  # the self-loop has weight 1
        return self.out(torch.relu(total + self.bias))
