"""Which code sums over neighbours on a device: implementations of the same mathematics, of which each can stand in.

CPU                numba     kernels.py, called by sparse.py
CUDA and ROCm      triton    triton_sums.py, if triton is installed and its kernels were found right on this GPU
anything else      torch     csr.py
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from ..graph import SpatialGraph
from . import csr


class Backend(NamedTuple):
    """half: bfloat16 is read and written as it is, and added up in float32; else it is widened to float32 before.

    attention: the sum, alpha, and what attention_backward wants back between alpha and the graph; first the halves of
    the scores."""

    name: str
    words: str
    half: bool
    sum: Callable[[Tensor, SpatialGraph], Tensor]
    attention: Callable[[Tensor, Tensor, Tensor, SpatialGraph, float], tuple[Tensor, ...]]
    attention_backward: Callable[..., tuple[Tensor, Tensor, Tensor]]

    def widened(self, x: Tensor) -> Tensor:
        """Sums over neighbours stay in single precision under autocast."""
        narrow = x.dtype == torch.float16 or (x.dtype == torch.bfloat16 and not self.half)
        return x.float() if narrow else x


TORCH = Backend("torch", "torch's CSR operations", False, csr.neighbour_sum, csr.attention, csr.attention_backward)


def device_backend(x: Tensor) -> Backend:
    """For a tensor that is not on the CPU."""
    if x.device.type != "cuda" or x.dtype == torch.float64:  # ROCm's devices are called cuda, too
        return TORCH
    return _trusted(x.device)


def triton_backend() -> Backend | None:
    """None without triton, which comes with torch for CUDA and ROCm."""
    if find_spec("triton") is None:
        return None
    from . import triton_sums as sums

    return Backend("triton", "Triton kernels", True, sums.neighbour_sum, sums.attention, sums.attention_backward)


@lru_cache
def _trusted(device: torch.device) -> Backend:
    """Asked once per process, for the answer may come from a file or from computing."""
    from .verdict import trusted_backend

    return trusted_backend(device)
