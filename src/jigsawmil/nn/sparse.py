"""Sums over neighbours. Nothing here is edges x width: an edge carries one number a head.

Two implementations of the same mathematics: `kernels.py` on the CPU, and torch's own CSR operations on any other
device. Tests hold both to a slow loop in float64.
"""

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..graph import SpatialGraph
from . import kernels


def neighbour_sum(x: Tensor, graph: SpatialGraph) -> Tensor:
    """sum_l w_jl x_l over neighbours and self; (patch, d) -> (patch, d)."""
    with torch.autocast(x.device.type, enabled=False):
        return _NeighbourSum.apply(_at_least_single(x), graph)


def neighbour_attention(
    y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float = 0.2
) -> tuple[Tensor, Tensor]:
    """h_j = sum_l alpha_jl y_l with alpha_jl = w_jl exp(e_jl) / sum_m w_jm exp(e_jm) and
    e_jl = LeakyReLU(receive . y_j + send . y_l), i.e. v = [receive || send].

    y: (patch, head, d); receive, send: (head, d).
    Returns (patch, head, d) and alpha (head, edge), which carries no gradient.
    """
    with torch.autocast(y.device.type, enabled=False):
        return _NeighbourAttention.apply(*(_at_least_single(x) for x in (y, receive, send)), graph, slope)


def degree(graph: SpatialGraph, like: Tensor) -> Tensor:
    """Sum of each patch's weights, (patch, 1)."""
    return torch.segment_reduce(graph.weight, "sum", offsets=graph.indptr.long())[:, None].to(like.dtype)


class _NeighbourSum(torch.autograd.Function):
    """The weights are constant, so the backward pass is the forward pass on the transposed graph; mostly itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: SpatialGraph) -> Tensor:
        ctx.graph = graph
        return _sum(x, graph)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _sum(grad, ctx.graph.transposed), None


class _NeighbourAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float
    ) -> tuple[Tensor, Tensor]:
        y, receive, send = y.contiguous(), receive.contiguous(), send.contiguous()
        forward = attention_cpu if y.device.type == "cpu" else attention_torch
        out, alpha, s, t = forward(y, receive, send, graph, slope)
        ctx.save_for_backward(y, receive, send, out, alpha, s, t)
        ctx.graph, ctx.slope = graph, slope
        ctx.mark_non_differentiable(alpha)
        return out, alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        backward = attention_backward_cpu if g.device.type == "cpu" else attention_backward_torch
        y, receive, send, out, alpha, s, t = ctx.saved_tensors
        dy, ds, dt = backward(g.contiguous(), y, receive, send, out, alpha, s, t, ctx.graph, ctx.slope)
        own, other = torch.einsum("kph,phd->khd", torch.stack([ds, dt]), y)  # one pass over y for both
        return dy, own, other, None, None


def _sum(x: Tensor, graph: SpatialGraph) -> Tensor:
    x, weight = x.contiguous(), graph.weight.to(x.dtype)
    if x.device.type != "cpu":
        return sum_torch(x, graph)
    out = torch.empty_like(x)
    kernels.launch(kernels.weighted_sum, graph.indptr, graph.indices, weight, x, out)
    return out


def sum_torch(x: Tensor, graph: SpatialGraph) -> Tensor:
    return _csr(graph, graph.weight.to(x.dtype)) @ x


def attention_cpu(
    y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum, alpha, and the two halves s and t of the scores."""
    out, alpha = torch.empty_like(y), y.new_empty(y.shape[1], graph.edges)
    s, t = y.new_empty(y.shape[:2]), y.new_empty(y.shape[:2])
    log_weight = graph.log_weight.to(y.dtype)
    kernels.launch(kernels.halves, y, receive, send, s, t)
    kernels.launch(kernels.edge_scores, graph.indptr, graph.indices, log_weight, s, t, _like(slope, y), alpha)
    alpha.exp_()  # torch's exp is vectorised, Numba's is not
    kernels.launch(kernels.normalise_and_sum, graph.indptr, graph.indices, alpha, y, out)
    return out, alpha, s, t


def attention_backward_cpu(
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
    structure = (graph.indptr, graph.indices, graph.reverse)
    scores = (s, t, _like(slope, y), alpha)
    kernels.launch(kernels.attention_backward, *structure, *scores, y, out, g, send, inner, dy, dt, de)
    kernels.launch(kernels.attention_backward_own, graph.indptr, graph.reverse, de, receive, dy, ds)
    return dy, ds, dt


def attention_torch(
    y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same by torch's CSR operations: edge softmax and a sparse product."""
    row, column = graph.rows, graph.indices.long()
    s, t = (y * receive).sum(dim=2), (y * send).sum(dim=2)
    log_weight = graph.log_weight.to(y.dtype)
    score = torch.nn.functional.leaky_relu(s[row] + t[column], slope) + log_weight[:, None]  # (edge, head)
    score = (score - _row_reduce(score, graph, "max")[row]).exp()
    alpha = (score / _row_reduce(score, graph, "sum")[row]).T.contiguous()
    return torch.stack([_csr(graph, a) @ y[:, h] for h, a in enumerate(alpha)], dim=1), alpha, s, t


def attention_backward_torch(
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
    """Sampled dense product for the scores, the sparse product of the transpose for the values."""
    row, column, reverse = graph.rows, graph.indices.long(), graph.reverse.long()
    inner = (g * out).sum(dim=2)  # (patch, head)
    blank = _csr(graph, torch.zeros_like(alpha[0]))
    dots = [torch.sparse.sampled_addmm(blank, g[:, h], y[:, h].T).values() for h in range(y.shape[1])]
    de = alpha.T * (torch.stack(dots, dim=1) - inner[row])  # (edge, head)
    de = torch.where(s[row] + t[column] < 0, de * slope, de)
    ds, dt = _row_reduce(de, graph, "sum"), _row_reduce(de[reverse], graph, "sum")
    dy = torch.stack([_csr(graph, a[reverse]) @ g[:, h] for h, a in enumerate(alpha)], dim=1)
    return dy + ds[:, :, None] * receive + dt[:, :, None] * send, ds, dt


def _row_reduce(values: Tensor, graph: SpatialGraph, how: str) -> Tensor:
    return torch.segment_reduce(values, how, offsets=graph.indptr.long(), axis=0)


def _csr(graph: SpatialGraph, values: Tensor) -> Tensor:
    size = (len(graph), len(graph))
    with warnings.catch_warnings():  # "CSR support is in beta", once a process
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(graph.indptr, graph.indices, values, size, check_invariants=False)


def _at_least_single(x: Tensor) -> Tensor:
    """Sums over neighbours stay in single precision under autocast."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _like(value: float, y: Tensor) -> Any:
    """A scalar of the tensor's precision: a float64 one would widen the whole kernel."""
    return y.new_tensor(value).numpy()[()]
