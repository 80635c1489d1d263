"""Sums over neighbours by the equation, one row after the other: slow, in any precision, differentiable.

What every fast implementation is held to, in float64: by the tests, and by `verify.py` on the machine that it runs on.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..graph import SpatialGraph


def sum_by_loop(x: Tensor, graph: SpatialGraph) -> Tensor:
    """sum_l w_jl x_l; (patch, d) -> (patch, d)."""
    rows = []
    for j in range(len(graph)):
        neighbours, weight = graph.row(j)
        rows.append((weight.to(x.dtype)[:, None] * x[neighbours.long()]).sum(dim=0))
    return torch.stack(rows)


def attention_by_loop(
    y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float = 0.2
) -> tuple[Tensor, Tensor]:
    """h_j = sum_l alpha_jl y_l with alpha_jl = w_jl exp(e_jl) / sum_m w_jm exp(e_jm) and
    e_jl = LeakyReLU(receive . y_j + send . y_l). (patch, head, d), and alpha (head, edge).

    Scores must be of a size whose exp is a number. A row without neighbours gets 0.
    """
    rows, alphas = [], []
    for j in range(len(graph)):
        neighbours, weight = graph.row(j)
        others = y[neighbours.long()]  # (edge of the row, head, d)
        score = F.leaky_relu((y[j] * receive).sum(dim=1) + (others * send).sum(dim=2), slope)
        terms = weight.to(y.dtype)[:, None] * score.exp()
        alpha = terms / terms.sum(dim=0)  # (edge of the row, head)
        rows.append((alpha[:, :, None] * others).sum(dim=0))
        alphas.append(alpha.T)
    return torch.stack(rows), torch.cat(alphas, dim=1)
