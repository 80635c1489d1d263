"""Jigsaw tasks against their equations."""

import pytest
import torch

from jigsawmil.nn.batch import Batch
from jigsawmil.nn.model import build_model


def test_position_loss_asks_the_stated_share_and_draws_anew(batch: Batch) -> None:
    model = build_model("graph-abmil+jigsaw", 6, hidden=8, share=0.5)
    output, g = model(batch), torch.Generator().manual_seed(1)
    output.jigsaw_logits.retain_grad()
    first = model.jigsaw_loss(batch, output, g)
    first.sum().backward(retain_graph=True)
    asked = (output.jigsaw_logits.grad != 0).any(1)
    assert asked.sum() == 20
    expected = torch.nn.functional.cross_entropy(output.jigsaw_logits[asked], batch.bins[asked])
    torch.testing.assert_close(first[0], expected)
    assert model.jigsaw_loss(batch, output, g).item() != first.item()


def test_consistency_tells_real_from_imposter(batch: Batch) -> None:
    """A discriminator that is right of both has no loss; one that says 'half' has log 2."""
    model = build_model("graph-abmil+jigsaw", 6, hidden=8, jigsaw="consistency")
    torch.nn.init.zeros_(model.jigsaw.head.weight)
    torch.nn.init.zeros_(model.jigsaw.head.bias)
    g = torch.Generator().manual_seed(1)
    loss = model.jigsaw_loss(batch, model(batch), g)
    assert loss.item() == pytest.approx(torch.tensor(2.0).log().item())


def test_equivariance_is_free_without_neighbours_and_costs_with_them(batch: Batch) -> None:
    """The loss of Chen et al. (2025) does not ask for spatial correlation: an encoder blind to neighbours has none."""
    g = torch.Generator().manual_seed(1)
    flat = build_model("abmil+jigsaw", 6, hidden=8, jigsaw="equivariance")
    assert flat.jigsaw_loss(batch, flat(batch), g).item() == pytest.approx(0, abs=1e-10)
    graph = build_model("graph-abmil+jigsaw", 6, hidden=8, jigsaw="equivariance")
    assert graph.jigsaw_loss(batch, graph(batch), g).item() > 1e-3
