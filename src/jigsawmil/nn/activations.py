"""ELU at half of the time of torch's, and of bfloat16 on the CPU in one pass that rounds once."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import kernels, kernels16


class _ELU(torch.autograd.Function):
    """max(x, exp(min(x, 0)) - 1). torch's own takes the exponential twice, and twice the time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if _narrow(x):
            out = torch.empty_like(x, memory_format=torch.contiguous_format)
            kernels.launch(kernels16.elu, kernels16.bits(x), kernels16.bits(out))
            ctx.save_for_backward(out)
            return out
        out = x.clamp(max=0).exp_().sub_(1)
        torch.maximum(x, out, out=out)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        if _narrow(out):
            dx = torch.empty_like(out)
            kernels.launch(kernels16.elu_backward, *(kernels16.bits(each) for each in (out, g, dx)))
            return dx
        return out.clamp(max=0).add_(1).mul_(g)


def elu(x: Tensor) -> Tensor:
    return _ELU.apply(x)


def _narrow(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype == torch.bfloat16 and x.ndim == 2
