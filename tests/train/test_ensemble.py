"""An ensemble: members that hold out patients of their own, and answer by their mean logit."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.splits import Fold
from jigsawmil.errors import ConfigError, StudyError
from jigsawmil.maps.patch_maps import explain
from jigsawmil.nn.model import build_model
from jigsawmil.synthetic.phantom import make_phantom
from jigsawmil.tasks import TASKS
from jigsawmil.train import fit as fitting
from jigsawmil.train.apply import apply_model
from jigsawmil.train.checkpoint import ensemble_of, load_model, save_model
from jigsawmil.train.ensemble import Ensemble, combine, splits_of_members
from jigsawmil.train.estimator import SlideClassifier
from jigsawmil.train.seeds import fold_seed
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_model

SMALL: dict[str, Any] = {
    "method": "graph-abmil+jigsaw",
    "hidden": 8,
    "attention_dim": 4,
    "grid": 3,
    "k": 4,
    "epochs": 3,
    "patience": 2,
    "lr": 1e-3,
}
MADE = make_phantom("composition", slides=16, dim=16, patches=20, seed=3)


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return Cohort.from_bags(list(MADE.bags), list(MADE.labels), list(MADE.patients))


@pytest.fixture(scope="module")
def folder(cohort: Cohort, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ensemble") / "model"
    assert len(train_model(cohort, out, Settings(members=3, **SMALL))) == 3
    return out


def test_the_answer_is_the_mean_of_the_members_logits(folder: Path) -> None:
    model, card = load_model(folder)
    assert isinstance(model, Ensemble)
    assert len(model) == len(card.members) == 3
    single = [load_model(folder / f"member{number}") for number in range(3)]
    for bag in MADE.bags[:4]:
        [seen] = apply_model(model, card, [bag])
        own = [next(apply_model(*member, [bag])) for member in single]
        logits = np.array([each.scores[0] for each in own])
        assert seen.scores[0] == pytest.approx(logits.mean(), abs=1e-12)
        assert seen.probabilities[1] == pytest.approx(1 / (1 + np.exp(-logits.mean())), abs=1e-12)
        assert seen.spread == pytest.approx(logits.std(ddof=1), abs=1e-12)
        assert seen.spread > 0
        np.testing.assert_allclose(seen.attention[0], np.mean([each.attention[0] for each in own], axis=0), rtol=1e-6)


def test_maps_of_an_ensemble_add_up_to_its_logit(folder: Path) -> None:
    model, card = load_model(folder)
    bag = MADE.bags[0]
    [maps] = explain(model, card, bag)
    members = [explain(*load_model(folder / f"member{number}"), bag)[0] for number in range(3)]
    np.testing.assert_allclose(maps.evidence, np.mean([own.evidence for own in members], axis=0))
    assert maps.evidence.sum() + maps.bias[0] == pytest.approx(maps.logits[0], abs=1e-6)  # float32
    assert maps.attention.sum() == pytest.approx(1)
    assert maps.edges is not None  # all attend along the same graph


def test_members_of_different_graphs_and_methods_answer_together(cohort: Cohort, tmp_path: Path) -> None:
    kinds = [
        {"method": "abmil"},
        {"method": "graph-abmil", "k": 8, "conv": "sage"},
        {"method": "graph-abmil+jigsaw", "bins": "aspect", "normalise": "per-axis"},
    ]
    for number, own in enumerate(kinds):
        train_model(cohort, tmp_path / str(number), Settings(**{**SMALL, **own}))
    single = [load_model(tmp_path / str(number)) for number in range(3)]
    model, card = ensemble_of(single)
    save_model(tmp_path / "all", model, card)
    bag = MADE.bags[1]
    [seen] = apply_model(*load_model(tmp_path / "all"), [bag])
    logits = [next(apply_model(*member, [bag])).scores for member in single]
    np.testing.assert_array_equal(np.mean(logits, axis=0), seen.scores)
    [maps] = explain(model, card, bag)
    assert maps.evidence.sum() + maps.bias[0] == pytest.approx(maps.logits[0], abs=1e-6)  # float32
    assert maps.edges is None


@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if task.of_classes])
def test_probabilities_of_the_mean_logits_are_those_of_the_head(task: str) -> None:
    classes = 2 if task == "binary" else 4
    head = TASKS[task].head(3, classes)
    logits = torch.stack([head(torch.randn(5, 3)) for _ in range(4)]).double().detach()
    found = combine(logits.numpy(), task, classes)
    expected = head.probabilities(logits.mean(dim=0)).numpy()
    np.testing.assert_allclose(found.probabilities, expected)
    assert found.spread.shape == (5,)
    assert (found.spread > 0).all()
    assert (combine(logits[:1].numpy().repeat(2, axis=0), task, classes).spread == 0).all()


def test_combining_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    combine(np.zeros((2, 3, 1)), "binary", 2)
    assert torch.equal(before, torch.random.get_rng_state())


def test_each_member_has_its_own_seed_and_stops_by_its_own_patients(cohort: Cohort) -> None:
    whole = Fold(train=tuple(cohort.slide_ids), test=())
    parts = splits_of_members(cohort, whole, Settings(members=4, **SMALL), seed=0)
    held = [slide for part in parts for slide in part.val]
    assert sorted(held) == sorted(cohort.slide_ids)  # each patient is held out once
    assert len({fold_seed(0, 0, member) for member in (None, 0, 1, 2)}) == 4
    single = splits_of_members(cohort, whole, Settings(**SMALL), seed=0)
    no_stopping = splits_of_members(cohort, whole, Settings(members=2, **{**SMALL, "patience": 0}), seed=0)
    given = dataclasses.replace(whole, train=whole.train[4:], val=whole.train[:4])
    assert (single, no_stopping) == ([whole], [whole] * 2)
    assert splits_of_members(cohort, given, Settings(members=2, **SMALL), seed=0) == [given] * 2


def test_an_interrupted_ensemble_resumes_to_the_same_bytes(
    cohort: Cohort, folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """Ctrl-C in the second member: the first is not trained again."""
    out, epochs, passes = tmp_path / "model", [], []
    monkeypatch.setattr(fitting, "SAVE_SECONDS", 0.0)

    def cut(epoch: object) -> None:
        epochs.append(epoch)
        if len(epochs) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_model(cohort, out, Settings(members=3, **SMALL), on_epoch=cut)
    with pytest.raises(StudyError, match=r"model\.json"):
        load_model(out)
    done = train_model(cohort, out, Settings(members=3, **SMALL), on_epoch=passes.append)
    assert len(passes) == sum(len(own.epochs) for own in done) - 4  # the fifth was cut before it was saved
    files = sorted(path.relative_to(folder) for path in folder.rglob("*.safetensors"))
    assert len(files) == 3
    for file in files:
        assert (out / file).read_bytes() == (folder / file).read_bytes()
    assert not list(out.rglob("*.state"))


def test_the_estimator_takes_members_and_comes_back(tmp_path: Path) -> None:
    bags: list[Bag] = list(MADE.bags)
    fitted = SlideClassifier(members=2, **SMALL).fit(bags, MADE.labels, MADE.patients)
    fitted.save(tmp_path / "m")
    back = SlideClassifier.load(tmp_path / "m")
    assert back.get_params()["members"] == 2
    np.testing.assert_array_equal(back.predict_proba(bags), fitted.predict_proba(bags))


def test_a_card_that_names_folders_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"format": 2, "members": ["../member0"]}')
    with pytest.raises(StudyError, match="not names of folders"):
        load_model(tmp_path)


def test_a_committee_is_one_model_of_each_kind_or_several(cohort: Cohort, tmp_path: Path) -> None:
    small = {name: value for name, value in SMALL.items() if name not in ("method", "k")}  # members have their own
    one, three = (Settings(method="committee", members=members, **small) for members in (1, 3))
    kinds = [(own.method, own.graph.k, own.model.conv, own.model.kinds) for own in one.each_member()]
    assert kinds == [
        *[("abmil", 50, "gat", 0), ("graph-abmil", 8, "gat", 0), ("graph-abmil+jigsaw", 24, "sage", 0)],
        *[("graph-abmil+jigsaw", 50, "gat", 0), ("graph-abmil", 8, "gat", 8)],
    ]
    assert [own.method for own in three.each_member()][:4] == ["abmil"] * 3 + ["graph-abmil"]
    whole = Fold(train=tuple(cohort.slide_ids), test=())
    for settings, per_kind in ((one, 5), (three, 3)):  # every patient is held out once: by the committee, by each kind
        parts = splits_of_members(cohort, whole, settings, 0)
        for start in range(0, len(parts), per_kind):
            held = [slide for part in parts[start : start + per_kind] for slide in part.val]
            assert sorted(held) == sorted(cohort.slide_ids)
    assert len(train_model(cohort, tmp_path / "m", one)) == 5
    model, card = load_model(tmp_path / "m")
    assert [own.model.method for own in card.members] == [own.method for own in one.each_member()]
    [maps] = explain(model, card, MADE.bags[0])
    assert maps.evidence.sum() + maps.bias[0] == pytest.approx(maps.logits[0], abs=1e-6)
    with pytest.raises(ConfigError, match="committee consists of several models"):
        build_model("committee", 16)
