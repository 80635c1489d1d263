"""Sums over neighbours of values in bfloat16 on the CPU, by the kernels of `kernels16.py`; `sparse.py` calls them.

Scores, attention and their gradients are float32; values and their gradients are rounded to bfloat16 once, at the end.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from llvmlite.binding import llvm_version_info
from numba.core.registry import cpu_target
from numpy.typing import NDArray
from torch import Tensor

from ..graph import SpatialGraph
from . import kernels, kernels16
from .kernels16 import bits
from .tiles import WIDE, split_order


def fits(x: Tensor) -> bool:
    """Whether the kernels can take values of this width."""
    return x.shape[-1] % WIDE == 0


@lru_cache
def share() -> NDArray[Any]:
    """An array of the type in which this processor takes the factors of a sum."""
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    return np.empty(0, share_type(features, llvm_version_info[0]))


def share_type(features: str, llvm: int) -> type:
    """bfloat16, as uint16, if what Numba compiles for multiplies pairs of it and LLVM has the instruction in its
    present form; else float32, by which widened values are multiplied."""
    return np.uint16 if "+avx512bf16" in features.split(",") and llvm >= 17 else np.float32


def neighbour_sum(x: Tensor, graph: SpatialGraph) -> Tensor:
    out = torch.empty_like(x)
    kernels.launch(kernels16.weighted_sum, graph.blocks, share(), bits(x)[:, None], bits(out)[:, None])
    return out


def attention(y: Tensor, receive: Tensor, send: Tensor, graph: SpatialGraph, slope: float) -> tuple[Tensor, ...]:
    """The sum, alpha, the two halves s and t of the scores, and the level that makes rows of alpha sum to 1."""
    out, alpha = torch.empty_like(y), torch.empty(y.shape[1], graph.edges)
    s, t, level = (torch.empty(y.shape[:2]) for _ in range(3))
    kernels.launch(kernels16.halves, bits(y), receive.float(), send.float(), s, t)
    scores = (s, t, _single(slope))
    kernels.launch(kernels16.attention, graph.indptr, graph.blocks, share(), *scores, bits(y), bits(out), alpha, level)
    return out, alpha, s, t, level


def attention_backward(
    g: Tensor,
    y: Tensor,
    receive: Tensor,
    send: Tensor,
    out: Tensor,
    alpha: Tensor,
    s: Tensor,
    t: Tensor,
    level: Tensor,
    graph: SpatialGraph,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of y, whole, and of s and t."""
    dy, ds, dt = torch.empty_like(y), torch.empty_like(s), torch.empty_like(t)
    blocks = graph.transposed.blocks
    inner, parts = torch.empty_like(s), torch.empty(y.shape[1], len(blocks.columns))
    kernels.launch(kernels16.inner_products, bits(g), bits(out), inner)
    given = (blocks, share(), s, t, _single(slope), level)
    kernels.launch(kernels16.attention_backward_scores, *given, bits(y), bits(g), inner, dt, parts)
    order = torch.from_numpy(split_order(y.shape[2]))
    own, other = (x.float()[:, order] for x in (receive, send))
    kernels.launch(kernels16.attention_backward_values, *given, bits(g), own, other, dt, parts, bits(dy), ds)
    return dy, ds, dt


def halves_backward(y: Tensor, ds: Tensor, dt: Tensor) -> Tensor:
    """Gradients of receive and send, (2, head, d), in one pass over y."""
    parts = torch.zeros(max(1, -(-len(y) // kernels16.RUN)), 2, *y.shape[1:])
    kernels.launch(kernels16.halves_backward, bits(y), ds, dt, parts)
    return parts[0]


def _single(value: float) -> object:
    return torch.tensor(value).numpy()[()]
