"""Deletion and insertion: a map that tells what the model uses is found out, and so is one that does not."""

import dataclasses

import numpy as np
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.graph import GraphConfig
from jigsawmil.maps import faithfulness as module
from jigsawmil.maps.faithfulness import (
    ORDERS,
    SHARES,
    Curves,
    curves_of,
    faithfulness,
    judge,
    rankings,
)
from jigsawmil.maps.patch_maps import explain, explain_patient
from jigsawmil.nn.model import Model, build_model
from jigsawmil.train.apply import apply_groups, apply_model
from jigsawmil.train.checkpoint import ModelCard

GRAPH = GraphConfig(k=4)


def card(model: Model, **changes) -> ModelCard:
    return ModelCard(model=model.config, graph=GRAPH, **{"classes": ("a", "b"), **changes})


def counting_model() -> Model:
    """ABMIL whose logit is 8 times the mean of the first feature less 3, and whose attention says nothing of it.

    The first feature is 0 or 1, and the attention looks at the second.
    """
    model = build_model("abmil", 2, hidden=2, layers=1, attention_dim=1)
    with torch.no_grad():
        model.encoder.layers[0].weight.copy_(torch.eye(2))
        model.encoder.layers[0].bias.zero_()
        model.pooling.view.weight.copy_(torch.tensor([[0.0, 1.0]]))
        model.pooling.view.bias.zero_()
        model.pooling.score.weight.fill_(0.01)
        model.head.linear.weight.copy_(torch.tensor([[8.0, 0.0]]))
        model.head.linear.bias.fill_(-3)
    return model.eval()


def planted_bag(seed: int, n: int = 100, share: float = 0.5) -> Bag:
    """A share of the patches speaks for b; the second feature is noise."""
    rng = np.random.default_rng(seed)
    features = np.stack([rng.permutation(n) < share * n, rng.random(n)], axis=1)
    coords = np.stack([np.arange(n) % 10, np.arange(n) // 10], axis=1) * 256.0
    return Bag(slide_id=f"{seed}", features=torch.from_numpy(features).float(), coords=torch.from_numpy(coords))


@pytest.fixture(scope="module")
def counted() -> list[Curves]:
    model = counting_model()
    return [
        curves_of(model, card(model), str(seed), [planted_bag(seed)], np.random.default_rng(seed)) for seed in range(6)
    ]


def test_the_attribution_is_judged_where_it_is_asked_for() -> None:
    model = counting_model()
    curves = [
        curves_of(model, card(model), str(seed), [planted_bag(seed)], np.random.default_rng(seed), attribution=True)
        for seed in range(6)
    ]
    verdicts = {verdict.ranking: verdict for verdict in judge(curves)}
    assert list(verdicts) == ["attention", "evidence", "attribution"]
    assert verdicts["attribution"].trusted
    assert not verdicts["attention"].trusted


def test_a_map_of_what_the_model_counts_is_trusted_and_noise_is_not(counted: list[Curves]) -> None:
    verdicts = {verdict.ranking: verdict for verdict in judge(counted)}
    assert verdicts["evidence"].trusted
    assert verdicts["evidence"].deletion.gain > 0.2
    assert verdicts["evidence"].insertion.gain > 0.1
    assert not verdicts["attention"].trusted
    assert abs(verdicts["attention"].deletion.gain) < 0.05


def test_the_curves_are_those_of_the_counted_patches(counted: list[Curves]) -> None:
    """Half of 100 patches speak: all that is left after 60 % went is silent, and 20 % alone are all voices."""

    def p(share: float) -> float:
        return 1 / (1 + np.exp(3 - 8 * share))

    left = [p(0.5), p(45 / 95), p(40 / 90), p(30 / 80), p(10 / 60), *[p(0)] * 4]
    given = [*[p(1)] * 4, p(50 / 60), p(50 / 80), p(50 / 90), p(50 / 95), p(0.5)]
    for curves in counted:
        assert curves.deletion["evidence"] == pytest.approx(left, abs=0.02)
        assert curves.insertion["evidence"] == pytest.approx(given, abs=0.02)
        assert curves.deletion["random"] == pytest.approx([p(0.5)] * 9, abs=0.25)


def test_areas_are_mean_heights() -> None:
    flat = {"random": np.full(9, 0.3), "evidence": np.linspace(1, 0, 9)}
    curves = Curves(name="s", patches=9, deletion=flat, insertion=flat)
    for kind in ("deletion", "insertion"):
        assert curves.areas(kind)["random"] == pytest.approx(0.3)
    x = np.array([0, *SHARES])
    heights = (flat["evidence"][1:] + flat["evidence"][:-1]) / 2
    assert curves.areas("deletion")["evidence"] == pytest.approx((heights * np.diff(x)).sum() / 0.95)


def test_random_shares_serve_both_curves() -> None:
    """A random share that is left is a random share that is given, because the steps mirror each other."""
    assert [1 - share for share in reversed(SHARES)] == pytest.approx(list(SHARES))


def test_removing_rebuilds_bag_and_graph(cohort: Cohort, small, monkeypatch: pytest.MonkeyPatch) -> None:
    """A point of a curve is the prediction on a file that never held the patches."""
    model, bag = small("graph-abmil", seed=4), cohort.bag(0)
    seen: list[list[tuple[str, list[Bag]]]] = []

    def listen(model, card, groups, **options):
        seen.append(list(groups))
        return apply_groups(model, card, seen[-1], **options)

    monkeypatch.setattr(module, "apply_groups", listen)
    curves = curves_of(model, card(model), "s", [bag], np.random.default_rng(0))
    [subsets] = seen
    assert len(subsets) == len(SHARES) * (2 * 2 + ORDERS)
    [maps] = explain(model, card(model), bag)
    class_ = int(maps.probabilities.argmax())
    weakest = np.argsort(-maps.attention, kind="stable")[len(bag) - round(0.2 * len(bag)) :]
    rest = dataclasses.replace(bag, features=bag.features[np.sort(weakest)], coords=bag.coords[np.sort(weakest)])
    [alone] = apply_model(model, card(model), [rest])
    assert curves.deletion["attention"][list(SHARES).index(0.8) + 1] == pytest.approx(alone.probabilities[class_])
    assert curves.deletion["attention"][0] == curves.insertion["attention"][-1]
    assert curves.deletion["attention"][0] == pytest.approx(maps.probabilities[class_])


def test_mean_pooling_ranks_by_evidence_alone(cohort: Cohort, small) -> None:
    model = small("graph-mil", seed=4)
    curves = curves_of(model, card(model), "s", [cohort.bag(0)], np.random.default_rng(0))
    assert list(curves.insertion) == ["evidence", "random"]
    assert [verdict.ranking for verdict in judge([curves])] == ["evidence"]


def test_without_evidence_attention_alone_is_judged(cohort: Cohort, small, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small("abmil", seed=4)
    monkeypatch.setattr(model.pooling, "contributions", lambda *_: None)
    curves = curves_of(model, card(model), "s", [cohort.bag(0)], np.random.default_rng(0))
    assert [verdict.ranking for verdict in judge([curves])] == ["attention"]


def test_patients_lose_patches_across_their_slides(cohort: Cohort, small) -> None:
    """One order through all slides; a slide that has lost all its patches is left out."""
    model = small("graph-abmil", seed=4)
    bags = [cohort.bag(0), cohort.bag(1)]
    curves = curves_of(model, card(model, level="patient"), "p", bags, np.random.default_rng(0))
    assert curves.patches == len(bags[0]) + len(bags[1])
    maps = explain_patient(model, card(model, level="patient"), "p", bags)
    attention = rankings(maps)["attention"]
    first = np.argsort(-attention, kind="stable")[: round(0.05 * len(attention))]
    parts = [first[first < len(bags[0])], first[first >= len(bags[0])] - len(bags[0])]
    rest = [
        dataclasses.replace(bag, features=bag.features[np.sort(part)], coords=bag.coords[np.sort(part)])
        for bag, part in zip(bags, parts, strict=True)
        if len(part)
    ]
    alone = explain_patient(model, card(model, level="patient"), "p", rest)[0]
    class_ = int(maps[0].probabilities.argmax())
    assert curves.insertion["attention"][0] == pytest.approx(alone.probabilities[class_], abs=1e-6)


def test_the_smallest_slide_has_curves() -> None:
    model = counting_model()
    curves = curves_of(model, card(model), "s", [planted_bag(0, n=1, share=1)], np.random.default_rng(0))
    assert np.ptp(curves.deletion["evidence"]) == 0


def test_the_interval_is_students_over_slides() -> None:
    curves = [
        Curves(name=str(i), patches=9, deletion={"evidence": np.full(9, 0.5 - d), "random": np.full(9, 0.5)},
               insertion={"evidence": np.full(9, 0.5 + d), "random": np.full(9, 0.5)})
        for i, d in enumerate((0.1, 0.2, 0.3))
    ]  # fmt: skip
    [verdict] = judge(curves)
    half = 4.302653 * 0.1 / 3**0.5  # t of 0.975 with 2 degrees of freedom
    for gain in (verdict.deletion, verdict.insertion):
        assert (gain.gain, gain.low, gain.high) == pytest.approx((0.2, 0.2 - half, 0.2 + half), abs=1e-5)
    assert not verdict.trusted


def test_one_slide_says_nothing(counted: list[Curves]) -> None:
    assert not any(verdict.trusted for verdict in judge(counted[:1]))


def test_what_is_written_has_verdicts_and_mean_curves(counted: list[Curves]) -> None:
    values = faithfulness(counted)
    assert values["verdicts"]["evidence"]["trusted"] is True
    mean = np.mean([one.deletion["evidence"] for one in counted], axis=0)
    assert values["curves"]["deletion"]["evidence"] == pytest.approx(mean)
    assert values["curves"]["deletion"]["removed"] == [0, *SHARES]
    assert values["slides"] == [str(seed) for seed in range(6)]
