"""The weight of the jigsaw: each rule against its formula by hand."""

import math
from collections.abc import Sequence

import pytest

from jigsawmil.errors import ConfigError
from jigsawmil.train.config import LambdaConfig
from jigsawmil.train.lambdas import Lambda
from jigsawmil.train.policies import POLICIES, Fixed

RULES = {
    "em": lambda mil, jigsaw: 2.0 / (0.5 + jigsaw),
    "em-per-slide": lambda mil, jigsaw: 2.0 / (0.5 + jigsaw),
    "balanced": lambda mil, jigsaw: mil / jigsaw,
    0.3: lambda mil, jigsaw: 0.3,
}


def make(policy: str | float, every: int = 1, unit: str = "epochs") -> Lambda:
    return Lambda(LambdaConfig(policy=policy, a=2.0, b=0.5, every=every, unit=unit))


def step(lam: Lambda, slides: str, mil: Sequence[float], jigsaw: Sequence[float]) -> list[float]:
    return lam(list(slides), mil, jigsaw).tolist()


@pytest.mark.parametrize("policy", RULES)
def test_until_the_first_update_the_first_step_stands_in(policy: str | float) -> None:
    lam, rule = make(policy, every=2), RULES[policy]
    start = rule(0.5, 3.0)
    assert step(lam, "ab", [0.4, 0.6], [2.0, 4.0]) == pytest.approx([start] * 2)
    assert step(lam, "cd", [9.0, 9.0], [9.0, 9.0]) == pytest.approx([start] * 2)
    lam.end_epoch()
    assert lam.mean == pytest.approx(start)
    assert step(lam, "a", [0.1], [0.1]) == pytest.approx([start])


@pytest.mark.parametrize("policy", ["em", "balanced"])
def test_updates_come_every_n_epochs_from_the_mean_since_the_last(policy: str | float) -> None:
    lam, rule = make(policy, every=2), RULES[policy]
    step(lam, "ab", [1.0, 2.0], [3.0, 4.0])
    lam.end_epoch()
    step(lam, "ab", [3.0, 4.0], [5.0, 8.0])
    lam.end_epoch()
    first = rule(2.5, 5.0)
    assert lam.mean == pytest.approx(first)
    assert step(lam, "ba", [0.5, 0.5], [1.0, 1.0]) == pytest.approx([first] * 2)
    lam.end_epoch()
    assert step(lam, "ab", [0.7, 0.7], [2.0, 2.0]) == pytest.approx([first] * 2)
    lam.end_epoch()
    assert lam.mean == pytest.approx(rule(0.6, 1.5))  # what was before the last update counts no more


def test_slides_of_uneven_batches_weigh_the_same() -> None:
    lam = make("em")
    step(lam, "abc", [1.0] * 3, [1.0, 2.0, 3.0])
    step(lam, "d", [1.0], [10.0])
    lam.end_epoch()
    assert lam.mean == pytest.approx(2.0 / (0.5 + 4.0))


def test_em_per_slide_keeps_one_value_a_slide() -> None:
    lam = make("em-per-slide")
    step(lam, "ab", [1.0, 1.0], [1.0, 3.0])
    lam.end_epoch()
    a, b = 2.0 / 1.5, 2.0 / 3.5
    assert step(lam, "ba", [1.0, 1.0], [0.0, 0.0]) == pytest.approx([b, a])
    assert lam.mean == pytest.approx((a + b) / 2)
    lam.end_epoch()
    assert step(lam, "ab", [1.0, 1.0], [1.0, 1.0]) == pytest.approx([4.0, 4.0])
    assert step(lam, "c", [1.0], [1.0]) == pytest.approx([2.0 / 2.5])  # not seen before: the very first step's


def test_a_slide_not_seen_in_a_period_keeps_its_value() -> None:
    lam = make("em-per-slide")
    step(lam, "ab", [1.0, 1.0], [1.0, 3.0])
    lam.end_epoch()
    step(lam, "b", [1.0], [1.5])
    lam.end_epoch()
    assert step(lam, "ab", [1.0, 1.0], [1.0, 1.0]) == pytest.approx([2.0 / 1.5, 1.0])


def test_fixed_never_moves() -> None:
    lam = make(0.3)
    for loss in (100.0, 0.0, math.nan):
        assert step(lam, "ab", [loss] * 2, [loss] * 2) == pytest.approx([0.3] * 2)
        assert lam.mean == pytest.approx(0.3)
        lam.end_epoch()
    assert lam.mean == pytest.approx(0.3)


@pytest.mark.parametrize("policy", ["em", "balanced"])
def test_a_jigsaw_that_is_solved_gives_a_finite_weight(policy: str | float) -> None:
    lam = Lambda(LambdaConfig(policy=policy, b=0.0))
    assert math.isfinite(step(lam, "a", [0.5], [0.0])[0])


@pytest.mark.parametrize("policy", RULES)
def test_its_state_can_be_put_down_and_taken_up(policy: str | float) -> None:
    one, other = make(policy, every=2), make(policy, every=2)
    step(one, "ab", [0.1, 0.7], [1.1, 2.3])
    one.end_epoch()
    step(one, "ab", [0.2, 0.3], [1.7, 0.9])
    other.load(one.state())
    for lam in (one, other):
        lam.end_epoch()
    assert step(one, "abc", [1.0] * 3, [1.0] * 3) == step(other, "abc", [1.0] * 3, [1.0] * 3)
    assert one.mean == other.mean


@pytest.mark.parametrize(("text", "value"), [("0.5", 0.5), (0.25, 0.25), (1, 1.0), ("0", 0.0), ("1e-2", 0.01)])
def test_a_number_is_a_fixed_lambda(text: str | float, value: float) -> None:
    rule = LambdaConfig(policy=text).rule()
    assert isinstance(rule, Fixed)
    assert rule.value == value


@pytest.mark.parametrize("name", ["em", "em-per-slide", "balanced"])
def test_a_name_is_a_policy(name: str) -> None:
    assert type(LambdaConfig(policy=name).rule()) is POLICIES[name]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("balnced", "lambda: found 'balnced', expected one of a number, .*Did you mean 'balanced'"),
        ("em-per-side", "Did you mean 'em-per-slide'"),
        ("constant", "lambda: found 'constant', expected one of a number, em"),
        ("EM", "expected one of a number, em"),
        ("fixed", "lambda: found 'fixed', expected one of a number"),  # a number it must be
        ("", "expected one of a number"),
        ("-1", "lambda value: found -1.0, expected a number of at least 0"),
        ("nan", "lambda value: found nan"),
        ("inf", "lambda value: found inf"),
    ],
)
def test_nonsense_is_refused_with_the_nearest(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        LambdaConfig(policy=text)


@pytest.mark.parametrize(("name", "value"), [("a", 0.0), ("b", -1.0), ("every", 0), ("every", 1.5), ("a", math.inf)])
def test_impossible_values_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"lambda {name}: found {value!r}, expected"):
        LambdaConfig(**{name: value})


def test_updates_can_come_every_n_steps() -> None:
    lam, rule = make("em", every=2, unit="steps"), RULES["em"]
    start = rule(1.0, 3.0)
    assert step(lam, "a", [1.0], [3.0]) == pytest.approx([start])
    assert step(lam, "b", [1.0], [5.0]) == pytest.approx([start])
    assert step(lam, "c", [1.0], [7.0]) == pytest.approx([rule(1.0, 4.0)])  # the mean of the two steps before
    lam.end_epoch()
    assert step(lam, "d", [1.0], [1.0]) == pytest.approx([rule(1.0, 4.0)])  # an epoch's end changes nothing
    assert lam.mean == pytest.approx(rule(1.0, 4.0))  # of the steps with 7 and 1
    fresh = make("em", every=2, unit="steps")
    fresh.load(lam.state())
    assert step(fresh, "e", [1.0], [2.0]) == step(lam, "e", [1.0], [2.0])
