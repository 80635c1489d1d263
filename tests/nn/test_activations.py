"""The quick ELU is torch's."""

import torch

from jigsawmil.nn.activations import elu


def test_elu_equals_torchs() -> None:
    x = torch.linspace(-30, 30, 601, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(elu(x), torch.nn.functional.elu(x))
    assert torch.autograd.gradcheck(elu, (x[::7] + 0.01,))
