"""Curves are the ones whose areas the tables state; bands are the doubt about patients, not about slides."""

import numpy as np
import pytest
from scipy.stats import norm

from jigsawmil.statistics.bands import RESAMPLES, band, curve
from jigsawmil.statistics.intervals import resampled_patients
from jigsawmil.statistics.metrics import auc, average_precision


def cohort(seed: int, n: int = 60, gap: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 2
    return truth, np.round(rng.normal(gap * truth), 1)  # with ties


def area(x: np.ndarray, y: np.ndarray, kind: str) -> float:
    return float((np.diff(x) * (y[1:] if kind == "pr" else (y[1:] + y[:-1]) / 2)).sum())


@pytest.mark.parametrize("seed", range(5))
def test_areas_under_the_curves_are_auc_and_average_precision(seed: int) -> None:
    truth, score = cohort(seed)
    assert area(*curve(truth, score, "roc"), "roc") == pytest.approx(auc(truth, score))
    assert area(*curve(truth, score, "pr"), "pr") == pytest.approx(average_precision(truth, score))


@pytest.mark.parametrize("kind", ["roc", "pr"])
def test_resamples_that_are_the_cohort_itself_give_its_curve(kind: str) -> None:
    truth, score = cohort(0)
    found = band(truth, score, np.ones((3, len(truth))), kind)
    assert found.empty
    expected = auc(truth, score) if kind == "roc" else average_precision(truth, score)
    assert found.area == pytest.approx((expected, expected))
    assert np.trapezoid(found.low, found.x) == pytest.approx(expected, abs=0.02)
    assert found.high.max() <= 1


@pytest.mark.parametrize("kind", ["roc", "pr"])
def test_copies_of_a_patients_slides_add_no_certainty(kind: str) -> None:
    truth, score = cohort(1)
    patients = np.arange(len(truth)) // 2 * 2 + truth  # some with several slides, one label each
    copies = [np.tile(values, 3) for values in (truth, score, patients)]
    once = band(truth, score, resampled_patients(truth, patients, np.random.default_rng(0), RESAMPLES), kind)
    thrice = band(*copies[:2], resampled_patients(copies[0], copies[2], np.random.default_rng(0), RESAMPLES), kind)
    np.testing.assert_allclose(once.low, thrice.low)
    np.testing.assert_allclose(once.high, thrice.high)
    more = cohort(1, n=600)
    narrow = band(*more, resampled_patients(more[0], np.arange(600), np.random.default_rng(0), RESAMPLES), kind)
    assert (narrow.high - narrow.low).mean() < 0.6 * (once.high - once.low).mean()


def test_patients_are_drawn_whole_and_within_their_classes() -> None:
    truth = np.array([0, 0, 0, 1, 1, 0, 1])
    patients = np.array(["a", "a", "b", "c", "d", "both", "both"])
    weight = resampled_patients(truth, patients, np.random.default_rng(0), 200)
    np.testing.assert_array_equal(weight[:, 0], weight[:, 1])
    np.testing.assert_array_equal(weight[:, 0] + weight[:, 2], 2)
    np.testing.assert_array_equal(weight[:, 3] + weight[:, 4], 2)
    np.testing.assert_array_equal(weight[:, 5:], 1)  # the only one of its kind
    assert weight[:, 0].std() > 0


def test_a_perfect_separation_has_no_band_and_says_so() -> None:
    truth = np.arange(40) % 2
    weight = resampled_patients(truth, np.arange(40), np.random.default_rng(0), 50)
    for kind in ("roc", "pr"):
        assert band(truth, truth + 0.0, weight, kind).empty
    assert not band(truth, np.roll(truth, 3) + np.arange(40) / 10, weight, "roc").empty


def test_nineteen_of_twenty_bands_hold_the_true_curve() -> None:
    """Of two normal distributions one apart, away from the corners, where few cases tell."""
    held = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        truth = np.arange(120) % 2
        found = band(truth, rng.normal(truth), resampled_patients(truth, np.arange(120), rng, 200), "roc", points=11)
        inner = slice(2, 9)
        true = norm.cdf(1 + norm.ppf(found.x[inner]))
        held.append((found.low[inner] <= true) & (true <= found.high[inner]))
    assert 0.92 <= np.mean(held) <= 0.99
