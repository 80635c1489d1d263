"""Sums over neighbours of values in bfloat16 on the CPU, by the kernels of `kernels16.py`; `sparse.py` calls them.

Scores, attention and their gradients are float32; values and their gradients are rounded to bfloat16 once, at the end.
"""

import torch
from torch import Tensor

from ..graph import SpatialGraph
from . import kernels, kernels16
from .kernels16 import bits
from .tiles import WIDE, split_order


def fits(x: Tensor) -> bool:
    """Whether the kernels can take values of this width."""
    return x.shape[-1] % WIDE == 0


def neighbour_sum(x: Tensor, graph: SpatialGraph) -> Tensor:
    out, blocks = torch.empty_like(x), graph.blocks
    kernels.launch(kernels16.weighted_sum, graph.indptr, *blocks, graph.weight, bits(x)[:, None], bits(out)[:, None])
    return out


def attention(
    y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum, alpha, and the two halves s and t of the scores."""
    out, alpha = torch.empty_like(y), torch.empty(y.shape[1], graph.edges)
    s, t = torch.empty(y.shape[:2]), torch.empty(y.shape[:2])
    kernels.launch(kernels16.halves, bits(y), receive.float(), send.float(), s, t)
    scores = (s, t, _single(slope), alpha)
    kernels.launch(kernels.edge_scores, graph.indptr, graph.indices, graph.log_weight, *scores)
    alpha.exp_()
    kernels.launch(kernels16.normalise_and_sum, graph.indptr, *graph.blocks, alpha, bits(y), bits(out))
    return out, alpha, s, t


def attention_backward(
    g: Tensor,
    y: Tensor,
    receive: Tensor,
    send: Tensor,
    out: Tensor,
    alpha: Tensor,
    s: Tensor,
    t: Tensor,
    graph: SpatialGraph,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of y, whole, and of s and t."""
    dy, ds, dt = torch.empty_like(y), torch.empty_like(s), torch.empty_like(t)
    inner, de = torch.empty_like(s), torch.empty_like(alpha)
    kernels.launch(kernels16.inner_products, bits(g), bits(out), inner)
    kernels.launch(
        kernels16.attention_backward_scores, graph.indptr, graph.indices, graph.reverse, *graph.blocks,
        s, t, _single(slope), alpha, bits(y), bits(g), inner, dt, de,
    )  # fmt: skip
    order = torch.from_numpy(split_order(y.shape[2]))
    kernels.launch(
        kernels16.attention_backward_values, graph.indptr, graph.reverse, *graph.blocks,
        alpha, de, bits(g), receive.float()[:, order], send.float()[:, order], dt, bits(dy), ds,
    )  # fmt: skip
    return dy, ds, dt


def _single(value: float) -> object:
    return torch.tensor(value).numpy()[()]
