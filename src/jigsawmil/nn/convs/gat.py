"""Graph attention with the distance weight inside the softmax."""

from typing import Self

import torch
from torch import Tensor, nn

from ...graph import SpatialGraph
from ..options import ModelOptions
from ..parts import Conv
from ..sparse import neighbour_attention
from . import CONVS


@CONVS.register("gat")
class GAT(Conv):
    """SpatialGAT: e_jl = LeakyReLU(v . [W x_j || W x_l]); alpha_jl = w_jl exp(e_jl) / sum_m w_jm exp(e_jm);
    h_j = sum_l alpha_jl W x_l. The distance weight stands inside the softmax. Heads are concatenated."""

    phrase = "graph attention discounted by distance (GAT)"
    attends = True

    def __init__(self, in_dim: int, out_dim: int, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(in_dim, out_dim, bias=False)
        self.receive = nn.Parameter(torch.empty(heads, out_dim // heads))  # v's half for j
        self.send = nn.Parameter(torch.empty(heads, out_dim // heads))  # v's half for l
        for parameter in (self.project.weight, self.receive, self.send):
            nn.init.xavier_uniform_(parameter)

    @classmethod
    def of(cls, in_dim: int, out_dim: int, options: ModelOptions) -> Self:
        return cls(in_dim, out_dim, options.heads)

    def forward(self, x: Tensor, graph: SpatialGraph) -> Tensor:
        return self.attend(x, graph)[0]

    def attend(self, x: Tensor, graph: SpatialGraph) -> tuple[Tensor, Tensor]:
        """(patch, d) and the attention of every edge, (head, edge)."""
        y = self.project(x).unflatten(1, (self.heads, -1))  # (patch, head, d / head)
        h, alpha = neighbour_attention(y, self.receive, self.send, graph)
        return h.flatten(1), alpha
