"""Weights of the kinds of a committee: near equal, learnt from patients that a member held out."""

from pathlib import Path

import numpy as np
import pytest

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import StudyError
from jigsawmil.maps import explain
from jigsawmil.synthetic.phantom import make_phantom
from jigsawmil.tasks import get_task
from jigsawmil.train.answers import Answers
from jigsawmil.train.apply import apply_model
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_model
from jigsawmil.train.weights import learn_weights, stack

BINARY = get_task("binary")
SMALL = {"hidden": 8, "attention_dim": 4, "epochs": 2, "patience": 1, "lr": 1e-2}


def test_they_stay_near_equal_and_lean_to_the_better_kind() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    good = 4.0 * (2 * truth - 1) + rng.normal(0, 1, 200)
    scores = np.concatenate([good[None], rng.normal(0, 4, (4, 200))])[:, :, None]
    weights = stack(scores, truth, BINARY, 2)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    assert 0.3 < weights[0] < 0.9
    assert stack(1e-6 * scores, truth, BINARY, 2) == pytest.approx([0.2] * 5, abs=1e-3)


def test_the_members_of_a_kind_share_its_weight() -> None:
    """Two kinds of two members, each of which held out half of the cases."""
    kinds = [Settings(method=method) for method in ("abmil", "abmil", "graph-mil", "graph-mil")]
    truth = {f"s{i}": i % 2 for i in range(20)}
    right = {case: np.array([6.0 * label - 3]) for case, label in truth.items()}
    wrong = {case: -scores for case, scores in right.items()}
    first, second = (dict(list(right.items())[part]) for part in (slice(10), slice(10, 20)))
    third, fourth = (dict(list(wrong.items())[part]) for part in (slice(10), slice(10, 20)))
    weights = learn_weights(kinds, [first, second, third, fourth], truth, BINARY, 2)
    assert weights is not None
    assert sum(weights) == pytest.approx(1)
    assert weights[0] == weights[1] > 0.3 > weights[2] == weights[3]


def test_without_kinds_or_without_every_patient_all_members_count_the_same() -> None:
    truth = {"a": 0, "b": 1}
    each = {case: np.array([1.0]) for case in truth}
    same, differing = [Settings(method="abmil")] * 2, [Settings(method="abmil"), Settings(method="graph-mil")]
    assert learn_weights(same, [each, each], truth, BINARY, 2) is None
    assert learn_weights(differing, [each, {"a": each["a"]}], truth, BINARY, 2) is None
    assert learn_weights(differing, [{}, {}], {}, BINARY, 2) is None
    assert learn_weights(differing, [each, each], truth, BINARY, 2) is not None


def test_a_model_keeps_them_and_its_maps_add_up_to_its_logit(tmp_path: Path) -> None:
    phantom = make_phantom("composition", slides=24, dim=16, patches=20, noise=1.0, two_slides=0.0)
    cohort = Cohort.from_bags(list(phantom.bags), list(phantom.labels), list(phantom.patients))
    train_model(cohort, tmp_path / "model", Settings(method="committee", members=3, **SMALL))
    model, card = load_model(tmp_path / "model")
    assert card.member_weights is not None
    assert len(card.member_weights) == len(card.members) == 15
    assert len({round(weight, 12) for weight in card.member_weights}) == 5  # of kinds, which are not equal
    bag = cohort.bag(0)
    [seen] = apply_model(model, card, [bag])
    own = np.stack([member.scores for member in seen.members])
    assert seen.scores == pytest.approx(np.array(card.member_weights) @ own)
    assert seen.scores != pytest.approx(own.mean(axis=0), abs=1e-6)
    [maps] = explain(model, card, bag)
    assert maps.evidence.sum(axis=0) + maps.bias == pytest.approx(seen.scores, abs=1e-5)
    assert maps.attention.sum() == pytest.approx(1, abs=1e-5)
    answers = Answers(card)
    row = answers.add(seen)
    _, [patient] = answers.of_patients({bag.slide_id: "p"})
    assert patient["probability"] == pytest.approx(row["probability"])


@pytest.mark.parametrize("weights", ["[0.5, 0.5]", "[2.0, -1.0, 0.0]", '["a", 0, 0]'])
def test_weights_that_do_not_fit_the_members_are_refused(weights: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(
        '{"format": 2, "members": ["member0", "member1", "member2"], "member_weights": ' + weights + "}"
    )
    with pytest.raises(StudyError, match="expected 3 numbers from 0 that add up to 1"):
        load_model(tmp_path)
