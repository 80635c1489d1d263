"""The quick ELU is torch's."""

import torch

from jigsawmil.nn.activations import elu


def test_elu_equals_torchs() -> None:
    x = torch.linspace(-30, 30, 601, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(elu(x), torch.nn.functional.elu(x))
    assert torch.autograd.gradcheck(elu, (x[::7] + 0.01,))


def test_elu_of_bfloat16_is_rounded_once() -> None:
    """Forward and backward; what is not a number stays so."""
    x = torch.cat([torch.linspace(-100, 3, 5000), torch.logspace(-9, 1, 1000) * -1]).bfloat16()[:, None].repeat(1, 3)
    x.requires_grad_()
    out, g = elu(x), torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert out.dtype == torch.bfloat16
    exact = torch.nn.functional.elu(x.detach().double())
    torch.testing.assert_close(out.double(), exact, rtol=2**-8, atol=1e-7)
    assert (out == exact.bfloat16()).float().mean() > 0.97
    (dx,) = torch.autograd.grad(out, x, g)
    torch.testing.assert_close(dx.double(), g.double() * (1 + out.double().clamp(max=0)), rtol=2**-8, atol=0)
    odd = torch.tensor([[float("nan"), float("inf"), -float("inf")]]).bfloat16()
    assert elu(odd).tolist()[0][1:] == [float("inf"), -1.0]
    assert elu(odd).isnan().tolist() == [[True, False, False]]
