"""Input attribution adds up to the logits, is exact for a linear model, and agrees with removing patches."""

import dataclasses

import numpy as np
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import ConfigError
from jigsawmil.graph import GraphConfig
from jigsawmil.maps.attribution import PATCHES, attribute, shared_alike
from jigsawmil.maps.patch_maps import explain, explain_patient
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.convs import CONVS
from jigsawmil.nn.model import Model
from jigsawmil.nn.options import PAPER_METHODS
from jigsawmil.train.checkpoint import ModelCard
from jigsawmil.train.ensemble import Ensemble

GRAPH = GraphConfig(k=4)


def card(model: Model, **changes) -> ModelCard:
    return ModelCard(model=model.config, graph=GRAPH, classes=tuple(map(str, range(model.config.classes))), **changes)


def with_strong_head(model: Model) -> Model:
    """Logits of the size that training reaches, and no two columns of the head alike."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.copy_(3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@pytest.fixture(scope="module")
def bags(cohort: Cohort) -> list[Bag]:
    return [cohort.bag(i) for i in range(3)]


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize(("task", "classes"), [("binary", 2), ("multiclass", 3), ("ordinal", 4)])
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_attribution_and_reference_add_up_to_the_logits(
    method: str, task: str, classes: int, share: bool, bags: list[Bag], small
) -> None:
    model = with_strong_head(small(method, task=task, classes=classes))
    batch = Batch.of(bags[0], GRAPH)
    with torch.inference_mode():
        logits = model(batch).logits[0].double()
    found = attribute(model, card(model), batch, share=share)
    assert found.values.shape == (len(bags[0]), len(logits))
    assert (found.values.sum(dim=0) + found.reference + found.gap).numpy() == pytest.approx(logits.numpy(), abs=1e-5)
    size = attribute(model, card(model), batch, share=False).values.abs().sum(dim=0)
    assert (found.gap.abs() < 0.02 * size).all()  # the kinks of ReLU are what the quadrature misses


@pytest.mark.parametrize("conv", CONVS)
def test_more_steps_close_the_gap(conv: str, bags: list[Bag], small) -> None:
    model = with_strong_head(small(conv=conv))
    batch = Batch.of(bags[0], GRAPH)
    coarse, fine = (attribute(model, card(model), batch, steps=steps).gap.abs().item() for steps in (1, 64))
    assert fine < coarse / 10


def test_a_linear_model_has_the_exact_answer(bags: list[Bag], small) -> None:
    """Mean pooling of W x, without an activation: w . W (x_j - m) / N."""
    model = with_strong_head(small("graph-mil", conv="gcn", layers=1))
    weight = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))

    class Linear(torch.nn.Module):
        def forward(self, features: torch.Tensor, batch: Batch) -> torch.Tensor:
            return features @ weight

    model.encoder = Linear()
    batch = dataclasses.replace(Batch.of(bags[0], GRAPH), graph=None)
    found = attribute(model, card(model), batch, steps=1)
    x = batch.features
    expected = (x - x.mean(dim=0)) @ weight @ model.head.linear.weight[0] / len(x)
    assert found.values[:, 0].numpy() == pytest.approx(expected.detach().numpy(), abs=1e-5)
    assert found.gap.abs().item() < 1e-5


def test_small_slides_share_a_pass_with_the_same_result(bags: list[Bag], small, monkeypatch) -> None:
    model = with_strong_head(small())
    batch = Batch.of(bags[:2], GRAPH).as_one_bag()
    assert len(batch.features) * 2 < PATCHES
    together = attribute(model, card(model), batch)
    monkeypatch.setattr("jigsawmil.maps.attribution.PATCHES", 1)
    one_by_one = attribute(model, card(model), batch)
    assert together.values.numpy() == pytest.approx(one_by_one.values.numpy(), abs=1e-5)


def test_a_permuted_file_gives_a_permuted_map(bags: list[Bag], small) -> None:
    model, bag = with_strong_head(small()), bags[0]
    order = torch.randperm(len(bag), generator=torch.Generator().manual_seed(0))
    moved = dataclasses.replace(bag, features=bag.features[order], coords=bag.coords[order])
    [maps], [other] = (explain(model, card(model), item, attribution=True) for item in (bag, moved))
    assert other.attribution == pytest.approx(maps.attribution[order.numpy()], abs=1e-6)
    assert np.ptp(maps.attribution) > 1e-3


def test_one_informative_patch_is_found_by_a_flat_model(small) -> None:
    """A neuron that fires on one direction, which one patch of 60 has."""
    model = small("abmil", layers=1).eval()
    with torch.no_grad():
        for parameter in (*model.encoder.parameters(), *model.head.parameters()):
            parameter.zero_()
        model.encoder.layers[0].weight[0, 5] = 1.0
        model.encoder.layers[0].bias[0] = -3.0
        model.head.linear.weight[0, 0] = 10.0
    generator = torch.Generator().manual_seed(0)
    features = 0.3 * torch.randn(60, 16, generator=generator)
    features[41, 5] = 8.0
    places = torch.stack([torch.arange(60) % 10, torch.arange(60) // 10], dim=1).double()
    [maps] = explain(model, card(model), Bag(slide_id="a", features=features, coords=places), attribution=True)
    values = maps.attribution[:, 0]
    assert values.argmax() == 41
    assert values[41] > 0.95 * (maps.logits[0] - maps.reference[0]) > 0


def test_attribution_agrees_with_replacing_single_patches(bags: list[Bag], small) -> None:
    """Close to the reference the model is nearly linear: a patch's attribution is what putting it there does."""
    model = with_strong_head(small(conv="gat")).double()
    batch = Batch.of(bags[0], GRAPH)
    mean = batch.features.double().mean(dim=0)
    near = mean + 1e-3 * (batch.features.double() - mean)
    batch = dataclasses.replace(batch, features=near)
    mean = near.mean(dim=0).expand_as(near)

    def logit(features: torch.Tensor) -> float:
        with torch.no_grad():
            return model(dataclasses.replace(batch, features=features)).logits.item()

    start, placed = logit(mean), []
    for patch in range(len(near)):
        features = mean.clone()
        features[patch] = near[patch]
        placed.append(logit(features) - start)
    values = attribute(model, card(model), batch, share=False).values[:, 0].numpy()
    assert values == pytest.approx(np.array(placed), abs=2e-2 * np.abs(placed).max())


def test_sharing_keeps_the_sum_of_every_slide_and_the_sign_of_a_lone_patch(bags: list[Bag]) -> None:
    batch = Batch.of(bags, GRAPH)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn((len(batch.features), 2), generator=generator, dtype=torch.float64)
    shared = shared_alike(values, batch)
    for start, end in batch.slides:
        assert shared[start:end].sum(dim=0).numpy() == pytest.approx(values[start:end].sum(dim=0).numpy())
    lone = torch.zeros_like(values[:, :1])
    lone[7] = 1.0
    assert shared_alike(lone, batch).argmax() == 7
    assert (shared_alike(lone, batch) >= 0).all()


def test_slides_with_few_or_equal_patches_are_fine(small) -> None:
    model = with_strong_head(small())
    for features in (torch.randn(3, 16), torch.ones(20, 16)):
        places = torch.stack([torch.arange(len(features)), torch.zeros(len(features))], dim=1).double()
        bag = Bag(slide_id="a", features=features, coords=places)
        values = attribute(model, card(model), Batch.of(bag, GRAPH)).values
        assert values.isfinite().all()
    assert values.abs().max() < 1e-6  # every patch is the mean


def test_maps_carry_the_attribution_of_each_slide_of_a_patient(bags: list[Bag], small) -> None:
    model = with_strong_head(small())
    maps = explain_patient(model, card(model, level="patient"), "p", bags[:2], attribution=True)
    total = sum(part.attribution.sum(axis=0) for part in maps)
    assert total + maps[0].reference + maps[0].gap == pytest.approx(maps[0].logits, abs=1e-5)
    assert [len(part.attribution) for part in maps] == [len(bag) for bag in bags[:2]]
    assert maps[0].attribution_for("1") == pytest.approx(-maps[0].attribution_for("0"))


def test_an_ensemble_has_the_mean_attribution_which_adds_up_to_its_logit(bags: list[Bag], small) -> None:
    found = [with_strong_head(small(seed=seed)) for seed in range(3)]
    cards = tuple(card(model) for model in found)
    members = [explain(model, own, bags[0], attribution=True)[0] for model, own in zip(found, cards, strict=True)]
    [maps] = explain(Ensemble(found), card(found[0], members=cards), bags[0], attribution=True)
    assert maps.attribution == pytest.approx(np.mean([own.attribution for own in members], axis=0), abs=1e-9)
    assert maps.attribution.sum(axis=0) + maps.reference + maps.gap == pytest.approx(maps.logits, abs=1e-5)


def test_maps_without_attribution_say_how_to_get_it(bags: list[Bag], small) -> None:
    model = small()
    [maps] = explain(model, card(model), bags[0])
    assert maps.attribution is None
    with pytest.raises(ConfigError, match="attribution=True"):
        maps.attribution_for()
