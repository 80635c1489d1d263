"""A trained model on new slides."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import write_bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import ConfigError, FeatureError, NotANumberError
from jigsawmil.graph_config import GraphConfig, Raster
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.model import Model
from jigsawmil.nn.options import PAPER_METHODS
from jigsawmil.train.apply import apply_groups, apply_model, groups_of, size_note
from jigsawmil.train.checkpoint import ModelCard
from jigsawmil.train.ensemble import Ensemble
from jigsawmil.train.feed import Feed
from jigsawmil.train.infer import run_model

GRAPH = GraphConfig(k=4)


def card(model: Model, **changes) -> ModelCard:
    values = {"classes": ("normal", "tumour"), "encoder": "phantom-3", **changes}
    return ModelCard(model=model.config, graph=GRAPH, **values)


@pytest.fixture(scope="module")
def bags(cohort: Cohort) -> list[Bag]:
    return [cohort.bag(i) for i in range(6)]


@pytest.mark.parametrize("method", PAPER_METHODS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_predictions_are_those_of_training(method: str, precision: str, cohort: Cohort, small) -> None:
    """The same model on the same slides, whether they come from a feed or one by one."""
    model = small(method, seed=5)
    feed = Feed(cohort, GRAPH, raster=Raster(3))
    own = card(model, training={"settings": {"precision": precision}})
    found = list(apply_model(model, own, [cohort.bag(i) for i in range(len(cohort))]))
    assert [result.name for result in found] == list(cohort.slide_ids)
    fed = run_model(model, feed.prepared(range(len(feed))), device="auto", precision=precision)
    for result, seen in zip(found, fed, strict=True):
        assert (result.probabilities == seen.probabilities).all()
        assert (result.attention[0] == seen.attention[0]).all()
        assert (seen.coords[0] == result.bags[0].coords.numpy()).all()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_predictions_of_patients_are_those_of_training(precision: str, cohort: Cohort, small) -> None:
    names = [f"TCGA-AA-{i // 2:04}-01Z-00-DX{i % 2}" for i in range(8)]
    slides = [dataclasses.replace(cohort.bag(i), slide_id=name) for i, name in enumerate(names)]
    own = Cohort.from_bags(slides, ["a", "a", "b", "b"] * 2)  # patients by their barcodes
    model = small(seed=5)
    about = card(model, level="patient", training={"settings": {"precision": precision}})
    feed = Feed(own, GRAPH, raster=Raster(3), level="patient")
    found = list(apply_model(model, about, slides))
    assert [result.name for result in found] == [name[:12] for name in names[::2]]
    fed = run_model(model, feed.prepared(range(len(feed))), device="auto", precision=precision)
    for result, seen in zip(found, fed, strict=True):
        assert result.name == seen.name
        assert (result.probabilities == seen.probabilities).all()
        assert all((a == b).all() for a, b in zip(result.attention, seen.attention, strict=True))


def test_attention_is_in_the_order_of_the_file(bags: list[Bag], small) -> None:
    model = small(seed=5)
    [result] = apply_model(model, card(model), bags[:1])
    assert result.attention[0].sum() == pytest.approx(1, abs=1e-5)
    order = np.random.default_rng(1).permutation(len(bags[0]))
    rows = torch.from_numpy(order)
    moved = dataclasses.replace(bags[0], features=bags[0].features[rows], coords=bags[0].coords[rows])
    [other] = apply_model(model, card(model), [moved])
    assert other.attention[0] == pytest.approx(result.attention[0][order], abs=1e-6)
    assert other.probabilities == pytest.approx(result.probabilities, abs=1e-6)


def test_dropout_is_off(bags: list[Bag], small) -> None:
    model = small(dropout=0.5).train()
    first, second = (list(apply_model(model, card(model), bags)) for _ in range(2))
    assert all((a.probabilities == b.probabilities).all() for a, b in zip(first, second, strict=True))


def test_files_are_named_as_in_a_cohort(bags: list[Bag], small, tmp_path: Path) -> None:
    model = small()
    paths = [tmp_path / "007.svs.h5", tmp_path / "b.h5"]
    for bag, path in zip(bags, paths, strict=False):
        write_bag(bag, path)
    found = list(apply_model(model, card(model), paths))
    assert [result.name for result in found] == [result.bags[0].slide_id for result in found] == ["007", "b"]
    known = list(apply_model(model, card(model), bags[:2]))
    assert all((a.probabilities == b.probabilities).all() for a, b in zip(found, known, strict=True))


def test_a_patient_is_one_bag_of_all_its_slides(bags: list[Bag], small) -> None:
    """TCGA barcodes say whose a slide is; the slides need not follow one another."""
    names = ["TCGA-AA-0001-01Z-00-DX1", "TCGA-AA-0002-01Z-00-DX1", "TCGA-AA-0001-01Z-00-DX2"]
    slides = [dataclasses.replace(bag, slide_id=name) for bag, name in zip(bags, names, strict=False)]
    model = small(seed=3)
    first, second = apply_model(model, card(model, level="patient"), slides)
    assert (first.name, second.name) == ("TCGA-AA-0001", "TCGA-AA-0002")
    assert [bag.slide_id for bag in first.bags] == [names[0], names[2]]
    assert [len(part) for part in first.attention] == [len(slides[0]), len(slides[2])]
    assert sum(part.sum() for part in first.attention) == pytest.approx(1, abs=1e-5)
    whole = Batch.of([slides[0], slides[2]], GRAPH, Raster(3)).as_one_bag()
    with torch.inference_mode():
        assert model.probabilities(model.eval()(whole))[0].numpy() == pytest.approx(first.probabilities, abs=1e-6)


def test_slides_by_other_names_are_patients_of_their_own(bags: list[Bag], small) -> None:
    model = small()
    found = apply_model(model, card(model, level="patient"), bags)
    assert [result.name for result in found] == [bag.slide_id for bag in bags]


def narrow(bag: Bag) -> Bag:
    return dataclasses.replace(bag, features=bag.features[:, :8], encoder=None)


WRONG = [
    (narrow, r"features have 8 columns, the model was trained on 16 \(phantom-3\)"),
    (lambda bag: dataclasses.replace(bag, encoder="uni_v1"), "encoder uni_v1, the model was trained on phantom-3"),
    (lambda bag: dataclasses.replace(bag, features=bag.features[:0], coords=bag.coords[:0]), "no patches"),
]


@pytest.mark.parametrize(("spoil", "words"), WRONG, ids=["dimension", "encoder", "empty"])
@pytest.mark.parametrize("from_file", [False, True])
def test_what_does_not_fit_is_refused_before_the_first_prediction(
    spoil, words: str, from_file: bool, bags: list[Bag], small, tmp_path: Path
) -> None:
    model = small()
    items: list[Bag | Path] = [*bags[:3], spoil(bags[3])]
    if from_file:
        for i, bag in enumerate(items):
            write_bag(bag, tmp_path / f"{bag.slide_id}.h5")
            items[i] = tmp_path / f"{bag.slide_id}.h5"
    with pytest.raises(FeatureError, match=rf"^{bags[3].slide_id}: .*{words}"):
        next(iter(apply_model(model, card(model), items)))


def test_an_encoder_that_nobody_named_is_taken_on_trust(bags: list[Bag], small) -> None:
    model = small()
    unnamed = dataclasses.replace(bags[0], encoder=None)
    assert len(list(apply_model(model, card(model), [unnamed]))) == 1
    assert len(list(apply_model(model, card(model, encoder=None), bags[:1]))) == 1


def test_options_of_reading_are_passed_on(bags: list[Bag], small, tmp_path: Path) -> None:
    model = small()
    write_bag(dataclasses.replace(bags[0], mpp=None), tmp_path / "a.h5")
    [result] = apply_model(model, card(model), [tmp_path / "a.h5"], mpp=0.5)
    assert result.bags[0].mpp == 0.5
    with pytest.raises(ConfigError, match="above zero"):
        next(iter(apply_model(model, card(model), [tmp_path / "a.h5"], mpp=0.0)))


def test_a_device_that_is_not_there(bags: list[Bag], small) -> None:
    model = small()
    with pytest.raises(ConfigError, match="device"):
        next(iter(apply_model(model, card(model), bags, device="gpu")))


@pytest.mark.parametrize("members", [1, 2])
def test_an_answer_that_is_no_number_ends_with_the_name_of_the_slide(members: int, bags: list[Bag], small) -> None:
    model = small("abmil")
    with torch.no_grad():
        model.head.linear.bias.fill_(torch.nan)
    whole = model if members == 1 else Ensemble([small("abmil"), model])
    own = card(model) if members == 1 else dataclasses.replace(card(model), members=(card(model), card(model)))
    with pytest.raises(NotANumberError, match=f"{bags[0].slide_id}: the model returned .*nan"):
        list(apply_model(whole, own, bags))


SIZES = [
    ({"patch_size": 512.0, "mpp": 0.25}, "", ""),
    ({"patch_size": 2048.0, "mpp": 0.25}, r"patches of 512 microns, the model was trained on patches of 128 micro", ""),
    (
        {"patch_size": 300.0, "mpp": 0.5},
        "",
        "1 of 1 slides have patches of 150 microns; the model was trained on patches",
    ),
    ({"patch_size": 256.0}, "", "1 of 1 slides do not say how large their patches are in microns"),
]


@pytest.mark.parametrize(("size", "refused", "noted"), SIZES)
def test_the_magnification_is_that_of_the_training(
    bags: list[Bag], small, size: dict[str, float], refused: str, noted: str
) -> None:
    model = small("abmil")
    own = dataclasses.replace(card(model), patch_um=128.0)
    bag = dataclasses.replace(bags[0], **{"patch_size": None, "mpp": None, **size})
    if refused:
        with pytest.raises(FeatureError, match=rf"{bag.slide_id}: {refused}"):
            list(apply_model(model, own, [bag]))
    else:
        assert len(list(apply_model(model, own, [bag]))) == 1
        assert size_note([bag], own).startswith(noted)
        assert bool(noted) == bool(size_note([bag], own))


def test_slides_that_fail_do_not_stop_the_others(bags: list[Bag], small) -> None:
    model, failed = small("abmil"), {}
    bad = dataclasses.replace(bags[1], features=bags[1].features[:, :2])
    groups = groups_of([bags[0], bad, bags[2]], card(model))
    found = apply_groups(model, card(model), groups, on_failure=lambda name, error: failed.update({name: str(error)}))
    assert [seen.name for seen in found] == [bags[0].slide_id, bags[2].slide_id]
    assert list(failed) == [bad.slide_id]
    assert "features have 2 columns" in failed[bad.slide_id]
