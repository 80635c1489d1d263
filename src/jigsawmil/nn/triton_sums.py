"""Sums over neighbours by Triton kernels, on CUDA and ROCm: float32 or bfloat16 values, added up in float32.

Each function takes and gives what its namesake in `csr.py` does; s, t, alpha and their gradients are float32.
"""

from contextlib import nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from ..graph import SpatialGraph
from . import triton_kernels as kernels

TILE = 4096  # numbers that a program gathers at a time: 32 per thread
OPTIONS = {"enable_fp_fusion": True}  # of the compiler: a product and its sum in one step, rounded once


def neighbour_sum(x: Tensor, graph: SpatialGraph) -> Tensor:
    n, d = x.shape
    out, block = torch.empty_like(x), _blocks(min(d, 1024))
    structure = (graph.indptr, graph.indices, graph.weight)
    launch(kernels.weighted_sum, (n, triton.cdiv(d, block["D"])), *structure, x, out, d, **block)
    return out


def attention(
    y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    n, heads, d = y.shape
    out, s, t, alpha = torch.empty_like(y), _single(y, n, heads), _single(y, n, heads), _single(y, heads, graph.edges)
    block, structure = _blocks(d), (graph.indptr, graph.indices, graph.weight)
    launch(kernels.halves, (n * heads,), y, receive, send, s, t, heads, d, D=block["D"])
    sizes = (graph.edges, heads, d, slope)
    launch(kernels.attention, (n, heads), *structure, s, t, y, alpha, out, *sizes, **block)
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
    n, heads, d = y.shape
    dy, part = torch.empty_like(y), torch.empty_like(y, dtype=torch.float32)
    inner, ds, dt, de = torch.empty_like(s), torch.empty_like(s), torch.empty_like(s), torch.empty_like(alpha)
    block, structure = _blocks(d), (graph.indptr, graph.indices, graph.reverse)
    launch(kernels.dots, (n * heads,), g, out, inner, d, D=block["D"])
    values, sizes = (s, t, alpha, inner, y, g, send, part, dt, de), (graph.edges, heads, d)
    launch(kernels.attention_backward, (n, heads), *structure, *values, *sizes, slope, **block)
    own = (graph.indptr, graph.reverse, de, receive, part, dy, ds)
    launch(kernels.attention_backward_own, (n, heads), *own, *sizes, **block)
    return dy, ds, dt


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **sizes: int) -> None:
    """Run a kernel on the GPU of its tensors: Triton by itself takes the process's current one."""
    device = args[0].device
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():  # on the CPU Triton can interpret
        kernel[grid](*args, **sizes, **OPTIONS)


def _blocks(d: int) -> dict[str, int]:
    """Columns that a program holds, and edges that it gathers at a time."""
    columns = triton.next_power_of_2(d)
    return {"D": columns, "E": min(max(TILE // columns, 4), 64)}


def _single(y: Tensor, *shape: int) -> Tensor:
    return y.new_empty(shape, dtype=torch.float32)
