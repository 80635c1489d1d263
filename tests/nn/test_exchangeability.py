"""Section 5 of the paper: what a spatial permutation changes, and what it must not.

The content of location l moves to location j: x~_j = x_l. The graph and the bins stay where they are.
"""

import dataclasses

import pytest
import torch

from jigsawmil.nn.batch import Batch
from jigsawmil.nn.convs import CONVS
from jigsawmil.nn.model import METHODS, Model, build_model
from jigsawmil.nn.options import PAPER_METHODS, ModelOptions
from jigsawmil.nn.poolings import POOLINGS

GRAPH = [name for name in PAPER_METHODS if METHODS[name].graph]
FLAT = [name for name in PAPER_METHODS if not METHODS[name].graph]
ORDER = torch.randperm(40, generator=torch.Generator().manual_seed(9))  # location j receives the content of ORDER[j]


def permuted(batch: Batch) -> Batch:
    return dataclasses.replace(batch, features=batch.features[ORDER])


def model_of(method: str, **options: str) -> Model:
    return build_model(method, 6, hidden=16, attention_dim=8, **options).eval()


def farthest(rows: torch.Tensor, others: torch.Tensor) -> float:
    """0 if every row is one of the others: the largest distance of a row to the nearest of them."""
    return torch.cdist(rows.double(), others.double(), compute_mode="donot_use_mm_for_euclid_dist").amin(1).max().item()


@pytest.mark.parametrize("conv", CONVS)
def test_eq_9_moved_content_has_another_embedding(batch: Batch, conv: str) -> None:
    """h~_j = g(x_l | N_j, y*_j) differs from h_l, for every patch, since every patch has other neighbours."""
    model = model_of("graph-abmil+jigsaw", conv=conv)
    gap = (model(permuted(batch)).hidden - model(batch).hidden[ORDER]).abs().amax(1)
    assert gap.min().item() > 1e-4


def test_eq_9_standard_mil_refines_moved_content_as_before(batch: Batch) -> None:
    """g(x_l) = g(x~_j): the MLP does not see where a patch lies."""
    model = model_of("abmil+jigsaw")
    torch.testing.assert_close(model(permuted(batch)).hidden, model(batch).hidden[ORDER])


@pytest.mark.parametrize("method", GRAPH)
def test_the_set_of_embeddings_changes(batch: Batch, method: str) -> None:
    """H~ differs from H as a set (the statement between Eqs. 9 and 10)."""
    model = model_of(method)
    assert farthest(model(permuted(batch)).hidden, model(batch).hidden) > 1e-3


@pytest.mark.parametrize("method", FLAT)
def test_the_set_of_embeddings_of_standard_mil_stays(batch: Batch, method: str) -> None:
    model = model_of(method)
    assert farthest(model(permuted(batch)).hidden, model(batch).hidden) < 1e-6


@pytest.mark.parametrize("method", GRAPH)
def test_eq_10_the_slide_embedding_and_the_score_are_not_exchangeable(batch: Batch, method: str) -> None:
    """z~ = rho(H~) differs from rho(H) = z, and so does P(y = 1 | B)."""
    model = model_of(method)
    here, moved = model(batch), model(permuted(batch))
    assert (here.embedding - moved.embedding).abs().max().item() > 1e-3
    assert (model.probabilities(here) - model.probabilities(moved)).abs().max().item() > 1e-5


@pytest.mark.parametrize("method", FLAT)
def test_eq_10_has_an_equality_for_standard_mil(batch: Batch, method: str) -> None:
    model = model_of(method)
    here, moved = model(batch), model(permuted(batch))
    torch.testing.assert_close(here.embedding, moved.embedding)
    torch.testing.assert_close(model.probabilities(here), model.probabilities(moved))


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_stays_symmetric(name: str) -> None:
    """rho has the form of Eqs. 1 and 2 in every method: the order of H changes neither z nor a patch's weight."""
    torch.manual_seed(0)
    pool, h = POOLINGS[name].of(ModelOptions(hidden=5, attention_dim=4)), torch.randn(40, 5)
    z, a = pool(h, ((0, 40),))
    moved_z, moved_a = pool(h[ORDER], ((0, 40),))
    torch.testing.assert_close(z, moved_z)
    torch.testing.assert_close(a[ORDER], moved_a)


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_the_encoder_does_not_see_the_bin(batch: Batch, method: str) -> None:
    """h = g(x | N, y*) depends on y* through the weights that training has learnt: it is a target, not an input."""
    model, other = model_of(method), dataclasses.replace(batch, bins=(batch.bins + 37) % 100)
    for one, two in zip(model(batch), model(other), strict=True):
        assert one is two is None or torch.equal(one, two)


def test_training_on_the_bins_conditions_the_embeddings_on_them(batch: Batch) -> None:
    """Trained against other bins, the same patches at the same places get other embeddings."""

    def hidden_after(bins: torch.Tensor) -> torch.Tensor:
        model, own = model_of("graph-abmil+jigsaw"), dataclasses.replace(batch, bins=bins)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(3):
            optimiser.zero_grad()
            model.jigsaw_loss(own, model(own), torch.Generator().manual_seed(1)).sum().backward()
            optimiser.step()
        return model(batch).hidden

    assert torch.equal(hidden_after(batch.bins), hidden_after(batch.bins))
    assert (hidden_after(batch.bins) - hidden_after((batch.bins + 37) % 100)).abs().max().item() > 1e-3
