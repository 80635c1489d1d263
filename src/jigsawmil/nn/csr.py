"""Sums over neighbours by torch's own CSR operations: on every device that has them, and the fallback on a GPU."""

import warnings

import torch
from torch import Tensor

from ..graph import SpatialGraph


def neighbour_sum(x: Tensor, graph: SpatialGraph) -> Tensor:
    return _csr(graph, graph.weight.to(x.dtype)) @ x


def attention(
    y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Edge softmax and a sparse product. Returns the sum, alpha, and the two halves s and t of the scores."""
    row, column = graph.rows, graph.indices.long()
    s, t = (y * receive).sum(dim=2), (y * send).sum(dim=2)
    log_weight = graph.log_weight.to(y.dtype)
    score = torch.nn.functional.leaky_relu(s[row] + t[column], slope) + log_weight[:, None]  # (edge, head)
    score = (score - _row_reduce(score, graph, "max")[row]).exp()
    alpha = (score / _row_reduce(score, graph, "sum")[row]).T.contiguous()
    return torch.stack([_csr(graph, a) @ y[:, h] for h, a in enumerate(alpha)], dim=1), alpha, s, t


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
