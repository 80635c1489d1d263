"""Poolings against their equations, and what each patch adds to a linear head."""

import pytest
import torch

from jigsawmil.nn.model import build_model
from jigsawmil.nn.options import ModelOptions
from jigsawmil.nn.poolings import POOLINGS
from jigsawmil.nn.poolings.attention import AttentionPool
from jigsawmil.nn.poolings.mean import MeanPool


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_attention_pooling(gated: bool, bias: bool) -> None:
    torch.manual_seed(0)
    pool, h = AttentionPool(5, 3, bias=bias, gated=gated), torch.randn(9, 5)
    z, a = pool(h, ((0, 4), (4, 9)))
    score = torch.tanh(h @ pool.view.weight.T + (pool.view.bias if bias else 0))
    if gated:
        score = score * torch.sigmoid(h @ pool.gate.weight.T + (pool.gate.bias if bias else 0))
    assert [name for name, _ in pool.named_parameters() if "bias" in name] == bias * ["view.bias", "gate.bias"][
        : 1 + gated
    ]
    score = (score @ pool.score.weight[0]).exp()
    expected = torch.cat([score[:4] / score[:4].sum(), score[4:] / score[4:].sum()])
    torch.testing.assert_close(a, expected)
    torch.testing.assert_close(z, torch.stack([expected[:4] @ h[:4], expected[4:] @ h[4:]]))


def test_mean_pooling() -> None:
    h = torch.arange(12.0).view(6, 2)
    z, a = MeanPool()(h, ((0, 2), (2, 6)))
    torch.testing.assert_close(z, torch.stack([h[:2].mean(0), h[2:].mean(0)]))
    torch.testing.assert_close(a, torch.tensor([0.5, 0.5, 0.25, 0.25, 0.25, 0.25]))


@pytest.mark.parametrize("name", POOLINGS)
def test_contributions_add_up_to_the_logits_of_a_linear_head(name: str) -> None:
    torch.manual_seed(0)
    h, weight = torch.randn(9, 5), torch.randn(3, 5)
    z, a = (pool := POOLINGS[name].of(ModelOptions(hidden=5, attention_dim=4)))(h, ((0, 4), (4, 9)))
    shares = pool.contributions(h, a, weight)
    total = torch.stack([shares[:4].sum(0), shares[4:].sum(0)])
    torch.testing.assert_close(total, (z @ weight.T).double(), rtol=1e-5, atol=1e-6)


def test_the_setting_takes_the_bias_out_of_attention_pooling() -> None:
    with_bias, without = (build_model("abmil", 6, attention_bias=on).pooling for on in (True, False))
    assert with_bias.view.bias is not None
    assert without.view.bias is None
