"""Jigsaw tasks against their equations."""

import dataclasses

import pytest
import torch

from jigsawmil.nn.batch import Batch
from jigsawmil.nn.convs import CONVS
from jigsawmil.nn.model import build_model
from jigsawmil.nn.parts import permutation


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


def test_the_sum_of_both_terms_is_twice_their_mean(batch: Batch) -> None:
    mean, total = (
        model.jigsaw_loss(batch, model(batch), torch.Generator().manual_seed(1))
        for model in (
            build_model("graph-abmil+jigsaw", 6, hidden=8, jigsaw="consistency", imposter_loss=how)
            for how in ("mean", "sum")
        )
    )
    torch.testing.assert_close(total, 2 * mean)


@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize("imposters", ["centre", "neighbours"])
def test_imposters_keep_the_features_of_their_neighbours_or_their_own(batch: Batch, imposters: str, conv: str) -> None:
    """Against one graph per patch, in which only that patch (or all but that patch) has permuted features."""
    model = build_model(
        "graph-abmil+jigsaw", 6, hidden=8, layers=1, conv=conv, jigsaw="consistency", imposters=imposters
    )
    moved = permutation(batch, torch.Generator().manual_seed(1))
    found = model.jigsaw._imposters(model.encoder, batch, torch.Generator().manual_seed(1))
    own, permuted = batch.features, batch.features[moved]
    if imposters == "neighbours":
        own, permuted = permuted, own
    for j in range(len(own)):
        features = own.clone()
        features[j] = permuted[j]
        expected = model.encoder(features, batch)[j]
        torch.testing.assert_close(found[j], expected, rtol=1e-4, atol=1e-5)


def test_centre_imposters_of_two_layers_never_reach_their_neighbours(batch: Batch) -> None:
    """At every layer the neighbours' states are those of the real slide: only the patch's own features matter."""
    model = build_model("graph-abmil+jigsaw", 6, hidden=8, jigsaw="consistency", imposters="centre").double()
    batch = dataclasses.replace(batch, features=batch.features.double())
    graph, n = batch.graph.with_second_copy, len(batch.features)
    both = dataclasses.replace(batch, graph=graph)
    centre = torch.randn(n, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    hidden = model.encoder(torch.cat([batch.features, centre]), both)
    torch.testing.assert_close(hidden[:n], model.encoder(batch.features, batch))
    centre[3] += 1
    other = model.encoder(torch.cat([batch.features, centre]), both)
    changed = (other != hidden).any(1).nonzero().flatten().tolist()
    assert changed == [n + 3]


@pytest.mark.parametrize("conv", CONVS)
def test_gradients_through_the_second_copy(batch: Batch, conv: str) -> None:
    model = build_model("graph-abmil+jigsaw", 6, hidden=4, conv=conv).double()
    both = dataclasses.replace(batch, graph=batch.graph.with_second_copy)
    features = torch.cat([batch.features, batch.features.flip(0)]).double().requires_grad_()
    layer = model.encoder.layers[0]
    assert torch.autograd.gradcheck(lambda x: layer(x, both.graph)[::17], features, atol=1e-4)


def test_the_position_head_can_have_a_hidden_layer(batch: Batch) -> None:
    linear, mlp = (build_model("graph-abmil+jigsaw", 6, hidden=8, jigsaw_head=head) for head in ("linear", "mlp"))
    hidden = torch.randn(5, 8)
    torch.testing.assert_close(
        linear.jigsaw.logits(-hidden) - linear.jigsaw.head.bias, linear.jigsaw.head.bias - linear.jigsaw.logits(hidden)
    )
    first, last = mlp.jigsaw.head[0], mlp.jigsaw.head[2]
    torch.testing.assert_close(mlp.jigsaw.logits(hidden), last(torch.relu(first(hidden))))
    assert mlp(batch).jigsaw_logits.shape == (40, 100)


def test_equivariance_is_free_without_neighbours_and_costs_with_them(batch: Batch) -> None:
    """The loss of Chen et al. (2025) does not ask for spatial correlation: an encoder blind to neighbours has none."""
    g = torch.Generator().manual_seed(1)
    flat = build_model("abmil+jigsaw", 6, hidden=8, jigsaw="equivariance")
    assert flat.jigsaw_loss(batch, flat(batch), g).item() == pytest.approx(0, abs=1e-10)
    graph = build_model("graph-abmil+jigsaw", 6, hidden=8, jigsaw="equivariance")
    assert graph.jigsaw_loss(batch, graph(batch), g).item() > 1e-3
