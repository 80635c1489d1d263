"""Maps of a model: evidence adds up to the logits, everything lies at its own patch."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import write_bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import ConfigError, FeatureError
from jigsawmil.graph import GraphConfig
from jigsawmil.graph_config import Raster
from jigsawmil.maps.patch_maps import expected_place, explain, explain_patient
from jigsawmil.nn.batch import Batch, position_bins
from jigsawmil.nn.convs import CONVS
from jigsawmil.nn.model import METHODS, Model
from jigsawmil.nn.options import PAPER_METHODS
from jigsawmil.train.apply import apply_model
from jigsawmil.train.checkpoint import ModelCard

GRAPH = GraphConfig(k=4)
TASKS = {"binary": 2, "multiclass": 3, "ordinal": 4}


def card(model: Model, **changes) -> ModelCard:
    classes = tuple(map(str, range(model.config.classes)))
    return ModelCard(model=model.config, graph=GRAPH, **{"classes": classes, "encoder": "phantom-3", **changes})


def task_model(small, method: str = "graph-abmil+jigsaw", task: str = "binary", **options) -> Model:
    """Weights far from their start, so that no two columns of the head and no two thresholds are alike."""
    model = small(method, task=task, classes=TASKS[task], seed=2, **options)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(parameter))))
    return model


@pytest.fixture(scope="module")
def bags(cohort: Cohort) -> list[Bag]:
    return [cohort.bag(i) for i in range(5)]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_evidence_and_bias_add_up_to_the_logits(method: str, task: str, bags: list[Bag], small) -> None:
    model = task_model(small, method, task)
    for bag, maps in zip(bags, explain(model, card(model), bags), strict=True):
        with torch.inference_mode():
            output = model(Batch.of(bag, GRAPH, Raster(3)))
        assert maps.evidence.shape == (len(bag), output.logits.shape[1])
        assert maps.evidence.sum(axis=0) + maps.bias == pytest.approx(output.logits[0].numpy(), abs=2e-5)
        assert maps.logits == pytest.approx(output.logits[0].numpy(), abs=1e-6)
        assert maps.probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_evidence_is_weight_times_what_the_patch_says(method: str, bags: list[Bag], small) -> None:
    """a_j (w . h_j), and w . h_j / N for the mean, patch by patch in the order of the file."""
    model = task_model(small, method)
    batch = Batch.of(bags[0], GRAPH, Raster(3))
    with torch.inference_mode():
        output = model(batch)
        hidden, attention = (batch.in_file_order(x)[0].double() for x in (output.hidden, output.attention))
        said = hidden @ model.head.linear.weight[0].double()
    [maps] = explain(model, card(model), bags[0])
    weight = attention if METHODS[method].pooling == "attention" else torch.full_like(attention, 1 / len(bags[0]))
    assert maps.evidence[:, 0] == pytest.approx((weight * said).numpy(), abs=1e-9)


@pytest.mark.parametrize("conv", CONVS)
def test_evidence_adds_up_with_every_convolution_and_gate(conv: str, bags: list[Bag], small) -> None:
    model = task_model(small, conv=conv, gated=True, heads=2 if conv == "gat" else 1)
    [maps] = explain(model, card(model), bags[0])
    assert maps.evidence.sum() + maps.bias[0] == pytest.approx(maps.logits[0], abs=2e-5)
    assert (maps.neighbours(0) is not None) == (conv == "gat")


def test_what_no_patch_has_a_share_in_is_in_the_bias(bags: list[Bag], small) -> None:
    model = task_model(small, kinds=3)
    [maps] = explain(model, card(model), bags[0])
    assert maps.evidence.sum() + maps.bias[0] == pytest.approx(maps.logits[0], abs=2e-5)
    assert maps.bias[0] != pytest.approx(model.head.linear.bias[0].item(), abs=1e-4)  # who lies beside whom is in it


def test_evidence_of_a_patient_adds_up_over_its_slides(bags: list[Bag], small) -> None:
    names = ["TCGA-AA-0001-01Z-00-DX1", "TCGA-AA-0002-01Z-00-DX1", "TCGA-AA-0001-01Z-00-DX2"]
    slides = [dataclasses.replace(bag, slide_id=name) for bag, name in zip(bags, names, strict=False)]
    model = task_model(small)
    first, second, other = explain(model, card(model, level="patient"), slides)
    assert [maps.bag.slide_id for maps in (first, second, other)] == [names[0], names[2], names[1]]
    assert first.name == second.name == "TCGA-AA-0001"
    total = first.evidence.sum() + second.evidence.sum() + first.bias[0]
    assert total == pytest.approx(first.logits[0], abs=2e-5)
    assert first.attention.sum() + second.attention.sum() == pytest.approx(1, abs=1e-5)
    assert (first.neighbours(0)[0] < len(first)).all()
    assert (second.neighbours(len(second) - 1)[0] < len(second)).all()


def test_a_patient_may_be_named_by_the_caller(bags: list[Bag], small) -> None:
    """The same maps as by barcode; the slides' own names do not matter."""
    model = task_model(small)
    names = ["TCGA-AA-0001-01Z-00-DX1", "TCGA-AA-0001-01Z-00-DX2"]
    barcoded = [dataclasses.replace(bag, slide_id=name) for bag, name in zip(bags, names, strict=False)]
    by_barcode = explain(model, card(model, level="patient"), barcoded)
    by_hand = explain_patient(model, card(model, level="patient"), "somebody", bags[:2])
    for a, b in zip(by_barcode, by_hand, strict=True):
        assert b.name == "somebody"
        assert (a.evidence == b.evidence).all()
        assert (a.probabilities == b.probabilities).all()
    with pytest.raises(FeatureError, match="uni_v1"):
        explain_patient(model, card(model), "x", [dataclasses.replace(bags[0], encoder="uni_v1")])


def test_a_permuted_file_gives_permuted_maps(bags: list[Bag], small) -> None:
    bag, model = bags[1], task_model(small)
    order = np.random.default_rng(0).permutation(len(bag))
    moved = dataclasses.replace(bag, features=bag.features[order], coords=bag.coords[order])
    a, b = explain(model, card(model), [bag, moved])
    for field in ("attention", "evidence", "jigsaw"):
        assert getattr(b, field) == pytest.approx(getattr(a, field)[order], abs=1e-6)
    for patch in range(len(bag)):
        theirs, weight = b.neighbours(patch)
        ours, same = a.neighbours(order[patch])
        assert dict(zip(order[theirs], weight, strict=True)) == pytest.approx(dict(zip(ours, same, strict=True)))


def test_agrees_with_predict_and_leaves_the_model_as_it_was(bags: list[Bag], small) -> None:
    model = task_model(small, dropout=0.3)
    found = explain(model, card(model), bags)
    for maps, prediction in zip(found, apply_model(model, card(model), bags), strict=True):
        assert maps.name == prediction.name
        assert (maps.probabilities == prediction.probabilities).all()
        assert (maps.attention == prediction.attention[0]).all()
    assert not model._forward_hooks


def test_binary_evidence_points_to_the_class_asked_for(bags: list[Bag], small) -> None:
    model = task_model(small)
    [maps] = explain(model, card(model), bags[0])
    assert (maps.evidence_for("1") == maps.evidence[:, 0]).all()
    assert (maps.evidence_for("0") == -maps.evidence[:, 0]).all()
    assert (maps.evidence_for() == maps.evidence_for("1")).all()
    with pytest.raises(ConfigError, match="class 'tumor' is unknown to the model; expected one of 0, 1"):
        maps.evidence_for("tumor")


def test_evidence_foretells_the_logit_without_a_patch(bags: list[Bag], small) -> None:
    """An encoder without neighbours: the other patches say what they said, and share the attention anew."""
    model = task_model(small, "abmil")
    [maps] = explain(model, card(model), bags[0])
    worst = int(maps.evidence[:, 0].argmin())
    kept = np.arange(len(maps)) != worst
    rest = dataclasses.replace(bags[0], features=bags[0].features[kept], coords=bags[0].coords[kept])
    [without] = explain(model, card(model), rest)
    expected = maps.evidence[kept, 0].sum() / (1 - maps.attention[worst]) + maps.bias[0]
    assert without.logits[0] == pytest.approx(expected, abs=2e-5)


def test_multiclass_evidence_is_what_sets_a_class_apart(bags: list[Bag], small) -> None:
    """What all logits share changes no probability, so it is nobody's evidence."""
    model = task_model(small, task="multiclass")
    [before] = explain(model, card(model), bags[0])
    with torch.no_grad():
        model.head.linear.weight.add_(torch.randn(model.config.hidden))
    [after] = explain(model, card(model), bags[0])
    assert after.probabilities == pytest.approx(before.probabilities, abs=1e-5)
    assert after.evidence != pytest.approx(before.evidence, abs=1e-3)
    for name in before.classes:
        assert after.evidence_for(name) == pytest.approx(before.evidence_for(name), abs=1e-5)
    assert sum(before.evidence_for(name) for name in before.classes) == pytest.approx(np.zeros(len(before)), abs=1e-9)
    assert before.shown_class == before.prediction


def test_ordinal_evidence_is_for_this_grade_or_a_higher_one(bags: list[Bag], small) -> None:
    model = task_model(small, task="ordinal")
    [maps] = explain(model, card(model), bags[0])
    assert maps.evidence.shape[1] == 3
    assert (maps.evidence_for("3") == maps.evidence[:, 2]).all()
    assert (maps.evidence_for("0") == -maps.evidence_for("1")).all()
    assert maps.shown_class == "3"


def test_a_certain_jigsaw_puts_each_patch_into_its_own_bin(bags: list[Bag]) -> None:
    """Expected place = centre of the bin; compared with the bins that training asks for."""
    coords = bags[0].coords * torch.tensor([1.0, 2.5])
    bins = position_bins(coords, Raster(10))
    found = expected_place(torch.nn.functional.one_hot(bins, 100) * 1e4, coords, Raster(10))
    bin_size = (coords.max(0).values - coords.min(0).values) / 10
    assert (np.abs(found - coords.numpy()) <= bin_size.numpy() / 2 + 1e-6).all()
    assert (position_bins(torch.from_numpy(found)) >= 0).all()
    torch.testing.assert_close(expected_place_bins(found, coords), bins)


def expected_place_bins(found: np.ndarray, coords: torch.Tensor) -> torch.Tensor:
    corners = torch.stack([coords.min(0).values, coords.max(0).values])
    return position_bins(torch.cat([torch.from_numpy(found), corners]))[:-2]


def test_an_undecided_jigsaw_puts_every_patch_into_the_middle(bags: list[Bag]) -> None:
    coords = bags[0].coords
    found = expected_place(torch.zeros(len(coords), 100), coords, Raster(10))
    middle = (coords.max(0).values + coords.min(0).values) / 2
    assert found == pytest.approx(np.tile(middle.numpy(), (len(coords), 1)))


@pytest.mark.parametrize(("options", "known"), [({}, True), ({"jigsaw": "consistency"}, False)])
def test_only_a_position_jigsaw_has_a_map(options: dict, known: bool, bags: list[Bag], small) -> None:
    model = task_model(small, **options)
    [maps] = explain(model, card(model), bags[0])
    assert (maps.jigsaw is not None) == known


def test_neighbours_make_up_the_pooled_state(bags: list[Bag], small) -> None:
    """h_j = ELU(sum_l alpha_jl W x_l) in the last layer, from the indices and weights that are handed out."""
    model = task_model(small)
    batch = Batch.of(bags[0], GRAPH, Raster(3))
    with torch.inference_mode():
        hidden = batch.in_file_order(model(batch).hidden)[0].numpy()
        first = torch.nn.functional.elu(model.encoder.layers[0](batch.features, batch.graph))
        y = batch.in_file_order(model.encoder.layers[1].project(first))[0].numpy()
    [maps] = explain(model, card(model), bags[0])
    for patch in (0, 7, len(bags[0]) - 1):
        indices, weight = maps.neighbours(patch)
        assert patch in indices
        assert weight.sum() == pytest.approx(1, abs=1e-5)
        assert (np.diff(weight) <= 0).all()
        total = weight @ y[indices]
        assert np.where(total > 0, total, np.expm1(total)) == pytest.approx(hidden[patch], abs=1e-5)
    with pytest.raises(ConfigError, match=f"patches 0 to {len(bags[0]) - 1}"):
        maps.neighbours(len(bags[0]))


def test_neighbours_are_left_out_where_not_asked_for(bags: list[Bag], small) -> None:
    model = task_model(small)
    [maps] = explain(model, card(model), bags[0], neighbours=False)
    assert maps.neighbours(0) is None
    assert explain(model, card(model), bags[0])[0].neighbours(0) is not None


def test_a_file_by_its_path_or_name(bags: list[Bag], small, tmp_path: Path) -> None:
    model = task_model(small)
    write_bag(bags[0], tmp_path / "a.svs.h5")
    [maps] = explain(model, card(model), str(tmp_path / "a.svs.h5"))
    [same] = explain(model, card(model), bags[0])
    assert maps.bag.slide_id == maps.name == "a"
    assert (maps.evidence == same.evidence).all()


def test_features_of_another_encoder_are_refused(bags: list[Bag], small) -> None:
    model = task_model(small)
    with pytest.raises(FeatureError, match="of the encoder uni_v1, the model was trained on phantom"):
        explain(model, card(model), dataclasses.replace(bags[0], encoder="uni_v1"))
