"""Graph convolutions on one graph with one set of distance weights. Each reads like its equation.

All project first and sum over neighbours after: a linear map commutes with the sum, and 256 columns travel
instead of 1024. The activation belongs to the encoder.
"""

import torch
from torch import Tensor, nn

from ..graph import SpatialGraph
from .sparse import neighbour_attention, neighbour_sum


class GAT(nn.Module):
    """SpatialGAT: e_jl = LeakyReLU(v . [W x_j || W x_l]); alpha_jl = w_jl exp(e_jl) / sum_m w_jm exp(e_jm);
    h_j = sum_l alpha_jl W x_l. The distance weight stands inside the softmax. Heads are concatenated."""

    def __init__(self, in_dim: int, out_dim: int, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(in_dim, out_dim, bias=False)
        self.receive = nn.Parameter(torch.empty(heads, out_dim // heads))  # v's half for j
        self.send = nn.Parameter(torch.empty(heads, out_dim // heads))  # v's half for l
        for parameter in (self.project.weight, self.receive, self.send):
            nn.init.xavier_uniform_(parameter)

    def forward(self, x: Tensor, graph: SpatialGraph) -> Tensor:
        return self.attend(x, graph)[0]

    def attend(self, x: Tensor, graph: SpatialGraph) -> tuple[Tensor, Tensor]:
        """(patch, d) and the attention of every edge, (head, edge)."""
        y = self.project(x).unflatten(1, (self.heads, -1))  # (patch, head, d / head)
        h, alpha = neighbour_attention(y, self.receive, self.send, graph)
        return h.flatten(1), alpha


class GCN(nn.Module):
    """h_j = sum_l w_jl / sqrt(D_j D_l) W x_l + b with D_j = sum_l w_jl (Kipf and Welling 2017)."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(in_dim, out_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_dim))
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, x: Tensor, graph: SpatialGraph) -> Tensor:
        y = self.project(x)
        scale = degree(graph, y).rsqrt()
        return scale * neighbour_sum(scale * y, graph) + self.bias


class SAGE(nn.Module):
    """h_j = U x_j + sum_l w_jl W x_l / sum_l w_jl + b (Hamilton et al. 2017): a patch keeps a term of its own."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.own = nn.Linear(in_dim, out_dim)
        self.project = nn.Linear(in_dim, out_dim, bias=False)
        nn.init.xavier_uniform_(self.own.weight)
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, x: Tensor, graph: SpatialGraph) -> Tensor:
        y = self.project(x)
        return self.own(x) + neighbour_sum(y, graph) / degree(graph, y)


class GIN(nn.Module):
    """h_j = B ReLU(A ((1 + eps) x_j + sum_l w_jl x_l) + a) + b, the sum without j (Xu et al. 2019)."""

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


CONVS = {"gat": GAT, "gcn": GCN, "gin": GIN, "sage": SAGE}


def degree(graph: SpatialGraph, like: Tensor) -> Tensor:
    """Sum of each patch's weights, (patch, 1)."""
    return torch.segment_reduce(graph.weight, "sum", offsets=graph.indptr.long())[:, None].to(like.dtype)
