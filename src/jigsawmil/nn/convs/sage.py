"""GraphSAGE with the weighted mean of neighbours."""

from torch import Tensor, nn

from ...graph import SpatialGraph
from ..parts import Conv
from ..sparse import degree, neighbour_sum
from . import CONVS


@CONVS.register("sage")
class SAGE(Conv):
    """h_j = U x_j + sum_l w_jl W x_l / sum_l w_jl + b (Hamilton et al. 2017): a patch keeps a term of its own."""

    phrase = "GraphSAGE"

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.own = nn.Linear(in_dim, out_dim)
        self.project = nn.Linear(in_dim, out_dim, bias=False)
        nn.init.xavier_uniform_(self.own.weight)
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, x: Tensor, graph: SpatialGraph) -> Tensor:
        y = self.project(x)
        return self.own(x) + neighbour_sum(y, graph) / degree(graph, y)
