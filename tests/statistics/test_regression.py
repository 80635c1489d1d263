"""Figures of a measured value against scipy, scikit-learn and resampling written out."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mean_absolute_error, r2_score

from jigsawmil.errors import StudyError
from jigsawmil.statistics import mae, pearson, r2, regression_difference, regression_interval, spearman

FIGURES = {"pearson": pearson, "spearman": spearman, "r2": r2, "mae": mae}


def draw(seed: int, n: int = 60, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    target = rng.normal(50, 10, n)
    found = target + rng.normal(0, 10, n)
    return (target.round(-1), found.round(-1)) if ties else (target, found)


@pytest.mark.parametrize("ties", [False, True])
def test_figures_are_those_of_scipy_and_scikit_learn(ties: bool) -> None:
    y, p = draw(0, ties=ties)
    expected = stats.pearsonr(y, p)[0], stats.spearmanr(y, p)[0], r2_score(y, p), mean_absolute_error(y, p)
    assert tuple(figure(y, p) for figure in FIGURES.values()) == pytest.approx(expected)


@pytest.mark.parametrize("figure", FIGURES)
def test_an_interval_is_that_of_cohorts_with_copies(figure: str) -> None:
    y, p = draw(1, 40, ties=True)
    patients = np.arange(40) // 2
    found = regression_interval(figure, y, p, patients, 7, resamples=50)
    values = []
    for counts in np.random.default_rng(7).multinomial(20, np.full(20, 1 / 20), size=50):
        rows = np.repeat(np.arange(40), counts[patients])
        values.append(FIGURES[figure](y[rows], p[rows]))
    assert found == pytest.approx((FIGURES[figure](y, p), *np.quantile(values, [0.025, 0.975])))


@pytest.mark.parametrize("figure", FIGURES)
def test_a_difference_is_found_if_there_is_one_and_only_then(figure: str) -> None:
    y, p = draw(2, 100)
    worse = np.random.default_rng(0).permutation(p)
    found = regression_difference(figure, y, p, worse, np.arange(100), 0)
    assert found.difference == pytest.approx(FIGURES[figure](y, p) - FIGURES[figure](y, worse))
    assert found.p < 0.01
    assert regression_difference(figure, y, p, p, np.arange(100), 0) == (0, 0, 0, 0, 1)


def test_a_constant_is_not_defined_but_has_an_error() -> None:
    y, p = draw(3)
    for figure in ("pearson", "spearman", "r2"):
        assert np.isnan(FIGURES[figure](np.full(60, 3.3), p))
        assert np.isnan(regression_interval(figure, np.full(60, 3.3), p, np.arange(60), 0)).all()
    assert np.isnan(pearson(y, np.full(60, 0.1)))
    assert r2(y, np.full(60, y.mean())) == pytest.approx(0)
    assert mae(np.full(60, 3.0), np.full(60, 1.0)) == 2
    assert np.isnan(mae([], []))


def test_what_is_no_number_is_refused_by_its_row() -> None:
    with pytest.raises(StudyError, match="Predictions of cases 1 are nan; expected numbers"):
        pearson([1, 2], [1, np.nan])
    with pytest.raises(StudyError, match=r"\(2,\) and predictions of shape \(3,\)"):
        mae([1, 2], [1, 2, 3])
