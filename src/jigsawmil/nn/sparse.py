"""Sums over neighbours. Nothing here is edges x width: an edge carries one number a head.

Three implementations of the same mathematics (`backends.py`): `kernels.py` on the CPU, `triton_sums.py` on a GPU, and
torch's own CSR operations (`csr.py`) on any other device. Tests hold all to a slow loop in float64 (`loop.py`).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..graph import SpatialGraph
from . import kernels, sparse16
from .backends import Backend, device_backend


def neighbour_sum(x: Tensor, graph: SpatialGraph) -> Tensor:
    """sum_l w_jl x_l over neighbours and self; (patch, d) -> (patch, d)."""
    backend = _backend(x)
    with torch.autocast(x.device.type, enabled=False):
        return _NeighbourSum.apply(backend.widened(x), graph, backend)


def neighbour_attention(
    y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float = 0.2
) -> tuple[Tensor, Tensor]:
    """h_j = sum_l alpha_jl y_l with alpha_jl = w_jl exp(e_jl) / sum_m w_jm exp(e_jm) and
    e_jl = LeakyReLU(receive . y_j + send . y_l), i.e. v = [receive || send].

    y: (patch, head, d); receive, send: (head, d).
    Returns (patch, head, d) and alpha (head, edge), which carries no gradient.
    """
    backend = _backend(y)
    with torch.autocast(y.device.type, enabled=False):
        return _NeighbourAttention.apply(*(backend.widened(x) for x in (y, receive, send)), graph, slope, backend)


def degree(graph: SpatialGraph, like: Tensor) -> Tensor:
    """Sum of each patch's weights, (patch, 1)."""
    return torch.segment_reduce(graph.weight, "sum", offsets=graph.indptr.long())[:, None].to(like.dtype)


class _NeighbourSum(torch.autograd.Function):
    """The weights are constant, so the backward pass is the forward pass on the transposed graph; mostly itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: SpatialGraph, backend: Backend) -> Tensor:
        ctx.graph, ctx.backend = graph, backend
        return backend.sum(x.contiguous(), graph)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.backend.sum(grad.contiguous(), ctx.graph.transposed), None, None


class _NeighbourAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float, backend: Backend
    ) -> tuple[Tensor, Tensor]:
        y, receive, send = y.contiguous(), receive.contiguous(), send.contiguous()
        out, alpha, *scores = backend.attention(y, receive, send, graph, slope)
        ctx.save_for_backward(y, receive, send, out, alpha, *scores)
        ctx.graph, ctx.slope, ctx.backend = graph, slope, backend
        ctx.mark_non_differentiable(alpha)
        return out, alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        y, receive, send, *_ = saved = ctx.saved_tensors
        dy, ds, dt = ctx.backend.attention_backward(g.contiguous(), *saved, ctx.graph, ctx.slope)
        if y.dtype == torch.bfloat16 and y.device.type == "cpu":
            own, other = sparse16.halves_backward(y, ds, dt)
        else:
            own, other = torch.einsum("kph,phd->khd", torch.stack([ds, dt]), y.to(ds.dtype))  # one pass over y for both
        return dy, own.to(receive.dtype), other.to(send.dtype), None, None, None


def _backend(x: Tensor) -> Backend:
    return CPU if x.device.type == "cpu" else device_backend(x)


def sum_cpu(x: Tensor, graph: SpatialGraph) -> Tensor:
    if x.dtype == torch.bfloat16:
        return sparse16.neighbour_sum(x, graph) if sparse16.fits(x) else sum_cpu(x.float(), graph).to(x.dtype)
    out = torch.empty_like(x)
    kernels.launch(kernels.weighted_sum, graph.indptr, graph.indices, graph.weight.to(x.dtype), x, out)
    return out


def attention_cpu(y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float) -> tuple[Tensor, ...]:
    """The sum, alpha, the two halves s and t of the scores, and what else `sparse16` wants back."""
    if y.dtype == torch.bfloat16:
        if sparse16.fits(y):
            return sparse16.attention(y, receive, send, graph, slope)
        out, alpha, s, t = attention_cpu(y.float(), receive.float(), send.float(), graph, slope)
        return out.to(y.dtype), alpha, s, t
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
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of y, whole, and of s and t. rest: what `attention_cpu` gave beside them, graph and slope."""
    if y.dtype == torch.bfloat16:
        if sparse16.fits(y):
            return sparse16.attention_backward(g, y, receive, send, out, alpha, s, t, *rest)
        g, receive, send, values = (x.float() for x in (g, receive, send, y))
        dy, ds, dt = attention_backward_cpu(g, values, receive, send, out.float(), alpha, s, t, *rest)
        return dy.to(y.dtype), ds, dt
    graph, slope = rest
    dy, ds, dt = torch.empty_like(y), torch.empty_like(s), torch.empty_like(t)
    inner, de = torch.empty_like(s), torch.empty_like(alpha)
    structure = (graph.indptr, graph.indices, graph.reverse)
    scores = (s, t, _like(slope, y), alpha)
    kernels.launch(kernels.attention_backward, *structure, *scores, y, out, g, send, inner, dy, dt, de)
    kernels.launch(kernels.attention_backward_own, graph.indptr, graph.reverse, de, receive, dy, ds)
    return dy, ds, dt


def _like(value: float, y: Tensor) -> Any:
    """A scalar of the tensor's precision: a float64 one would widen the whole kernel."""
    return y.new_tensor(value).numpy()[()]


CPU = Backend("numba", "Numba kernels", True, sum_cpu, attention_cpu, attention_backward_cpu)
