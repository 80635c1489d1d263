"""Figures against scikit-learn, against the definition written out, and against published worked examples."""

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import mannwhitneyu, norm
from sklearn import metrics as reference
from sklearn.linear_model import LogisticRegression
from tools.auroc_coverage import coverage

from jigsawmil.errors import StudyError
from jigsawmil.statistics.bands import curve
from jigsawmil.statistics.intervals import (
    bootstrap_interval,
    component_variance,
    delong_interval,
    newcombe_interval,
    placements,
)
from jigsawmil.statistics.metrics import (
    auc,
    average_precision,
    calibration_points,
    macro_auc,
    patient_level,
    recalibration,
)
from jigsawmil.tasks import get_task

RATINGS = (np.array([33, 6, 6, 11, 2]), np.array([3, 2, 2, 11, 33]))  # Hanley & McNeil 1982: normal, abnormal; 1 to 5


def score(y: Any, p: Any, task: str) -> dict[str, float]:
    return get_task(task).score(y, p)


def hanley() -> tuple[np.ndarray, np.ndarray]:
    normal, abnormal = RATINGS
    rating = np.concatenate([np.repeat(np.arange(1, 6), normal), np.repeat(np.arange(1, 6), abnormal)])
    return np.repeat([0, 1], [normal.sum(), abnormal.sum()]), rating


def draw(seed: int, n: int, classes: int, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Labels that have every class, and informative probabilities."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes)
    z = rng.normal(size=(n, classes)) + 1.2 * np.eye(classes)[y]
    if ties:
        z = np.round(z)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    return y, p


def by_definition(y: np.ndarray, s: np.ndarray) -> tuple[float, float]:
    """AUROC and DeLong's variance from the kernel of every pair, O(n^2)."""
    x, z = s[y == 1], s[y == 0]
    kernel = (x[:, None] > z) + 0.5 * (x[:, None] == z)
    variance = kernel.mean(1).var(ddof=1) / len(x) + kernel.mean(0).var(ddof=1) / len(z)
    return kernel.mean(), variance


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_binary_figures_equal_scikit_learn(seed: int, ties: bool) -> None:
    y, p = draw(seed, 83, 2, ties)
    got, s, decision = score(y, p, "binary"), p[:, 1], p.argmax(1)
    assert got["auc"] == pytest.approx(reference.roc_auc_score(y, s), abs=1e-12)
    assert got["auprc"] == pytest.approx(reference.average_precision_score(y, s), abs=1e-12)
    assert got["balanced_accuracy"] == pytest.approx(reference.balanced_accuracy_score(y, decision), abs=1e-12)
    assert got["f1"] == pytest.approx(reference.f1_score(y, decision), abs=1e-12)
    assert got["brier"] == pytest.approx(reference.brier_score_loss(y, s), abs=1e-12)
    assert got["undefined"] == 0


@pytest.mark.parametrize("task", ["multiclass", "ordinal"])
def test_figures_of_five_classes_equal_scikit_learn(task: str) -> None:
    y, p = draw(3, 120, 5, ties=True)
    got, decision = score(y, p, task), p.argmax(1)
    assert got["auc"] == pytest.approx(reference.roc_auc_score(y, p, multi_class="ovr", average="macro"), abs=1e-12)
    assert got["auprc"] == pytest.approx(reference.average_precision_score(y, p, average="macro"), abs=1e-12)
    assert got["balanced_accuracy"] == pytest.approx(reference.balanced_accuracy_score(y, decision), abs=1e-12)
    assert got["f1"] == pytest.approx(reference.f1_score(y, decision, average="macro"), abs=1e-12)
    assert got["brier"] == pytest.approx(((p - np.eye(5)[y]) ** 2).sum(1).mean(), abs=1e-12)
    if task == "ordinal":
        kappa = reference.cohen_kappa_score(y, decision, weights="quadratic")
        assert got["quadratic_kappa"] == pytest.approx(kappa, abs=1e-12)
        assert got["mae"] == pytest.approx(reference.mean_absolute_error(y, decision), abs=1e-12)
    else:
        assert "quadratic_kappa" not in got
    assert "calibration_slope" not in got


def test_one_class_gives_nan_and_is_counted() -> None:
    got = score([1, 1, 1], [[0.2, 0.8], [0.6, 0.4], [0.1, 0.9]], "binary")
    undefined = {name for name, value in got.items() if np.isnan(value)}
    assert undefined == {"auc", "auprc", "balanced_accuracy", "calibration_slope", "calibration_intercept"}
    assert got["undefined"] == 5
    assert got["f1"] == pytest.approx(0.8)  # 2 found, 1 missed, none wrong: still defined
    assert got["brier"] == pytest.approx((0.04 + 0.36 + 0.01) / 3)


def test_a_class_without_cases_makes_the_macro_figures_nan() -> None:
    y, p = draw(0, 60, 3)
    got = score(y[y < 2], p[y < 2], "ordinal")
    assert np.isnan([got["auc"], got["auprc"], got["balanced_accuracy"]]).all()
    assert np.isfinite([got["quadratic_kappa"], got["mae"], got["brier"], got["ece"]]).all()


def test_one_grade_only_has_no_kappa() -> None:
    assert np.isnan(score([2, 2], [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]], "ordinal")["quadratic_kappa"])


def test_no_cases_at_all_is_nan_throughout() -> None:
    got = score(np.empty(0, int), np.empty((0, 2)), "binary")
    assert got.pop("undefined") == len(got)
    assert np.isnan(list(got.values())).all()


def test_two_cases() -> None:
    got = score([0, 1], [[0.7, 0.3], [0.4, 0.6]], "binary")
    assert (got["auc"], got["balanced_accuracy"], got["f1"]) == (1, 1, 1)
    area, low, high = delong_interval([0, 1], [0.3, 0.6])
    assert (area, high) == (1, 1)
    assert 0 < low <= 0.5  # two cases in order are no evidence


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([0, 1, 1], [[0.5, 0.5], [np.nan, np.nan], [0.1, 0.9]], "Rows 1: not probabilities"),
        ([0, 1], [[-2.0, 3.0], [0.5, 0.5]], "Rows 0: not probabilities"),
        ([0, 1], [[0.5, 0.9], [0.5, 0.5]], "sum to 1"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], "class indices 0 to 1"),
        ([0, 1], [0.2, 0.8], "one probability per class"),
        ([0, 1], [[0.2, 0.2, 0.6], [0.2, 0.2, 0.6]], "binary task"),
    ],
)
def test_what_is_not_a_prediction_is_refused(y: list, p: list, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        score(y, p, "binary")


def test_nan_scores_are_refused_by_position() -> None:
    with pytest.raises(StudyError, match="cases 2 are nan"):
        delong_interval([0, 1, 1], [0.1, 0.2, np.nan])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [45, 60, 301])
def test_fast_delong_equals_the_definition(n: int, ties: bool) -> None:
    y, p = draw(n, n, 2, ties)
    area, variance = by_definition(y, p[:, 1])
    assert auc(y, p[:, 1]) == pytest.approx(area, abs=1e-12)
    assert component_variance(y, placements(y, p[:, 1])) == pytest.approx(variance, rel=1e-10)
    half = norm.ppf(0.95) * np.sqrt(variance) / (area * (1 - area))
    low, high = expit(logit(area) + half * np.array([-1, 1]))
    assert delong_interval(y, p[:, 1], level=0.9) == pytest.approx((area, low, high))


def test_delong_gives_the_published_figures_of_hanley_and_mcneil() -> None:
    """Ratings of 109 CT images; Stata's manual (roctab) prints 0.8932, 0.0307 and [0.83295, 0.95339]."""
    y, rating = hanley()
    error = np.sqrt(component_variance(y, placements(y, rating)))
    area, low, high = delong_interval(y, rating)
    assert round(area, 4) == 0.8932
    assert round(error, 4) == 0.0307
    assert np.round(area + norm.ppf([0.025, 0.975]) * error, 5).tolist() == [0.83295, 0.95339]
    assert 0.81 < low < 0.83295
    assert 0.93 < high < 0.95339


def test_delong_does_not_see_a_monotone_change_of_scores() -> None:
    y, p = draw(5, 90, 2)
    assert delong_interval(y, p[:, 1]) == pytest.approx(delong_interval(y, logit(p[:, 1]) ** 3))


def hanley_mcneil(area: float, m: int, n: int) -> float:
    """The variance as Hanley and McNeil write it, with Newcombe's common number of cases."""
    q1, q2, others = area / (2 - area), 2 * area**2 / (1 + area), (m + n) / 2 - 1
    return (area * (1 - area) + others * (q1 + q2 - 2 * area**2)) / (m * n)


@pytest.mark.parametrize(("area", "m", "n"), [(1.0, 5, 25), (0.992, 5, 25), (0.7, 20, 30), (0.0, 20, 30)])
def test_newcombes_bounds_solve_his_equation(area: float, m: int, n: int) -> None:
    for bound in newcombe_interval(area, m, n)[1:]:
        if bound not in (0, 1):
            assert (area - bound) ** 2 == pytest.approx(norm.ppf(0.975) ** 2 * hanley_mcneil(bound, m, n))


def test_perfect_separation_is_told_from_chance_as_the_exact_test_of_ranks_has_it() -> None:
    for m, n in ((1, 1), (1, 20), (2, 6), (2, 8), (3, 3), (3, 5), (5, 25)):
        y = np.repeat([0, 1], [n, m])
        exact = mannwhitneyu(np.arange(m) + n, np.arange(n), method="exact").pvalue
        area, low, high = delong_interval(y, y)
        assert (area, high, low > 0.5) == (1, 1, exact < 0.05)
        assert delong_interval(y, -y) == pytest.approx((0, 0, 1 - low))
    assert low == pytest.approx(0.77, abs=0.005)
    p = np.stack([1 - y, y], 1)
    assert bootstrap_interval(y, p, np.arange(30), np.random.default_rng(0)) == pytest.approx((1, low, 1))


def test_near_one_the_interval_covers_and_does_not_jump() -> None:
    """DeLong's alone would: one misplaced pair of 125 had [0.93, 1.00], none [0.48, 1]."""
    covered = coverage(5, 25, (0.95, 0.98), 400) | coverage(10, 90, (0.95,), 300, spread=2.0)
    assert all(share > 0.9 for share in covered.values()), covered
    y = np.repeat([0, 1], [25, 5])
    near = delong_interval(y, np.r_[:25, 23.5, 25:29])
    assert near.value == pytest.approx(0.992)
    assert 0 < delong_interval(y, np.arange(30)).low - near.low < 0.03


def test_constant_scores_are_chance_and_wide() -> None:
    y = np.repeat([0, 1], 20)
    area, low, high = delong_interval(y, np.full(40, 0.3))
    assert area == 0.5
    assert low < 0.35
    assert high > 0.65


def test_delong_covers_the_truth() -> None:
    """Binormal scores of known AUROC, 25 + 35 cases: the 90 % interval holds it in 84 to 96 % of 300 samples."""
    rng, y, truth = np.random.default_rng(0), np.repeat([0, 1], [25, 35]), norm.cdf(1 / np.sqrt(2))
    hits = [low <= truth <= high for _, low, high in (delong_interval(y, rng.normal(y), 0.9) for _ in range(300))]
    assert 0.84 < np.mean(hits) < 0.96


def test_clusters_of_one_change_nothing_and_copies_add_nothing() -> None:
    y, p = draw(7, 50, 2)
    s = p[:, 1]
    plain = delong_interval(y, s)
    assert delong_interval(y, s, clusters=np.arange(50)) == pytest.approx(plain)
    twice = delong_interval(np.tile(y, 2), np.tile(s, 2), clusters=np.tile(np.arange(50), 2))
    assert twice == pytest.approx(plain)
    blind = delong_interval(np.tile(y, 2), np.tile(s, 2))
    assert blind.high - blind.low < 0.75 * (plain.high - plain.low)  # what ignoring the patients would claim


def test_clustered_variance_is_that_of_repeated_samples() -> None:
    """Patients with slides of both labels and a strong patient effect; the estimate against the spread it estimates."""
    rng, patients = np.random.default_rng(1), np.repeat(np.arange(40), 4)
    y = np.tile([0, 0, 1, 1], 40)
    areas, errors = [], []
    for _ in range(300):
        s = y + rng.normal(size=160) + 1.5 * rng.normal(size=40)[patients]
        areas.append(auc(y, s))
        errors.append(component_variance(y, placements(y, s), patients))
    assert np.mean(errors) == pytest.approx(np.var(areas, ddof=1), rel=0.25)


@pytest.mark.parametrize("ties", [False, True])
def test_roc_points_are_those_of_scikit_learn(ties: bool) -> None:
    y, p = draw(9, 40, 2, ties)
    fpr, tpr = curve(y, p[:, 1], "roc")
    for got, want in zip((fpr, tpr), reference.roc_curve(y, p[:, 1], drop_intermediate=False)[:2], strict=True):
        np.testing.assert_allclose(got, want)
    assert reference.auc(fpr, tpr) == pytest.approx(auc(y, p[:, 1]))


def test_average_precision_ignores_the_order_of_ties() -> None:
    y, s = np.array([1, 0, 1, 0, 0]), np.full(5, 0.4)
    assert average_precision(y, s) == average_precision(y[::-1], s) == pytest.approx(0.4)


def test_calibration_bins_have_equal_mass_and_keep_ties_together() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(200)
    points = calibration_points(rng.random(200) < p, p)
    assert points.cases.tolist() == [20] * 10
    assert (np.diff(points.predicted) > 0).all()
    tied = calibration_points(np.arange(100) % 4 == 0, np.repeat([0.2, 0.9], 50))
    assert tied.cases.tolist() == [50, 50]
    assert tied.predicted.tolist() == pytest.approx([0.2, 0.9])
    order = rng.permutation(100)
    again = calibration_points((np.arange(100) % 4 == 0)[order], np.repeat([0.2, 0.9], 50)[order])
    np.testing.assert_allclose(again.observed, tied.observed)


def test_ece_by_hand_and_of_honest_probabilities() -> None:
    y, p = np.repeat([0, 1, 0, 1], [40, 10, 10, 40]), np.repeat([0.3, 0.9], 50)  # observed 0.2 and 0.8
    assert score(y, np.stack([1 - p, p], 1), "binary")["ece"] == pytest.approx(0.1)
    rng = np.random.default_rng(2)
    p = rng.random(20_000)
    y = (rng.random(20_000) < p).astype(int)
    honest, sure = score(y, np.stack([1 - p, p], 1), "binary"), expit(3 * logit(p))
    boastful = score(y, np.stack([1 - sure, sure], 1), "binary")
    assert honest["ece"] < 0.02
    assert boastful["ece"] > 0.1
    assert honest["calibration_slope"] == pytest.approx(1, abs=0.05)
    assert honest["calibration_intercept"] == pytest.approx(0, abs=0.05)
    assert boastful["calibration_slope"] == pytest.approx(1 / 3, abs=0.02)


def test_recalibration_equals_scikit_learns_regression() -> None:
    y, p = draw(4, 150, 2)
    model = LogisticRegression(C=1e10, tol=1e-10, max_iter=1000).fit(logit(p[:, 1])[:, None], y)
    slope, intercept = recalibration(y, p[:, 1])
    assert slope == pytest.approx(model.coef_[0, 0], rel=1e-4)
    assert expit(logit(p[:, 1]) + intercept).mean() == pytest.approx(y.mean(), abs=1e-9)  # its score equation


def test_recalibration_where_it_cannot_be() -> None:
    y = np.repeat([0, 1], 15)
    assert np.isnan(recalibration(y[6:], np.linspace(0, 1, 24))).all()  # nine negatives
    slope, intercept = recalibration(y, np.linspace(0, 1, 30))  # separated, and saturated at 0 and 1
    assert np.isnan(slope)
    assert np.isfinite(intercept)
    assert np.isnan(recalibration(y, np.full(30, 0.5))[0])


def test_bootstrap_repeats_for_a_seed_and_ignores_row_order() -> None:
    y, p = draw(0, 80, 3)
    patients = np.array([f"p{i // 2:02}" for i in range(80)])
    first = bootstrap_interval(y, p, patients, np.random.default_rng(5), resamples=300)
    assert bootstrap_interval(y, p, patients, np.random.default_rng(5), resamples=300) == first
    assert bootstrap_interval(y, p, patients, np.random.default_rng(6), resamples=300) != first
    order = np.random.default_rng(1).permutation(80)
    again = bootstrap_interval(y[order], p[order], patients[order], np.random.default_rng(5), resamples=300)
    assert again == pytest.approx(first)


def test_bootstrap_equals_resampling_patient_by_patient() -> None:
    """The vectorised weights against a plain loop that copies the slides of drawn patients."""
    rng = np.random.default_rng(8)
    label = np.repeat([0, 1], 15)
    patients = np.repeat(np.arange(30), rng.integers(1, 4, 30))
    y = label[patients]
    s = np.round(expit(y + rng.normal(size=len(y))), 1)
    slow = []
    for _ in range(1500):
        drawn = np.concatenate([rng.choice(15, 15), 15 + rng.choice(15, 15)])
        rows = np.concatenate([np.flatnonzero(patients == who) for who in drawn])
        slow.append(auc(y[rows], s[rows]))
    fast = bootstrap_interval(y, np.stack([1 - s, s], 1), patients, np.random.default_rng(0), resamples=4000)
    assert fast[1:] == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.02)
    assert fast.value == auc(y, s)


def test_bootstrap_is_wider_when_a_patients_slides_agree() -> None:
    y, p = draw(2, 60, 2)
    y, p, patients = np.repeat(y, 4), np.repeat(p, 4, axis=0), np.repeat(np.arange(60), 4)
    whole = bootstrap_interval(y, p, patients, np.random.default_rng(0))
    blind = bootstrap_interval(y, p, np.arange(240), np.random.default_rng(0))
    assert whole.high - whole.low > 1.5 * (blind.high - blind.low)


def test_bootstrap_covers_the_truth() -> None:
    rng, y, truth = np.random.default_rng(3), np.repeat([0, 1], 40), norm.cdf(1 / np.sqrt(2))
    hits = []
    for _ in range(200):
        s = expit(rng.normal(y))
        _, low, high = bootstrap_interval(y, np.stack([1 - s, s], 1), np.arange(80), rng, resamples=300, level=0.9)
        hits.append(low <= truth <= high)
    assert 0.82 < np.mean(hits) < 0.97


def test_bootstrap_of_mixed_patients_always_has_both_classes() -> None:
    y, patients = np.tile([0, 1], 3), np.repeat([0, 1, 2], 2)
    s = np.array([0.2, 0.6, 0.5, 0.4, 0.1, 0.7])
    assert np.isfinite(bootstrap_interval(y, np.stack([1 - s, s], 1), patients, np.random.default_rng(0))).all()


def test_bootstrap_is_stratified_so_that_a_rare_class_is_never_lost() -> None:
    y = np.repeat([0, 1], [38, 2])  # drawn freely, one resample in eight would have no positive
    s = np.linspace(0.1, 0.9, 40)[np.random.default_rng(0).permutation(40)]
    assert np.isfinite(bootstrap_interval(y, np.stack([1 - s, s], 1), np.arange(40), np.random.default_rng(0))).all()


def test_bootstrap_of_500_slides_takes_about_a_second() -> None:
    y, p = draw(1, 500, 2)
    start = time.process_time()
    bootstrap_interval(y, p, np.arange(500) // 2, np.random.default_rng(0), resamples=2000)
    assert time.process_time() - start < 3


def test_patient_level_is_the_mean_over_slides() -> None:
    frame = pd.DataFrame(
        {
            "patient_id": ["007", "008", "007"],
            "slide_id": ["a", "b", "c"],
            "label": [1, 0, 1],
            "probability": [0.2, 0.3, 0.6],
        }
    )
    got = patient_level(frame).set_index("patient_id")
    assert got.loc["007", "probability"] == pytest.approx(0.4)
    assert got.loc["008", "probability"] == 0.3
    assert got["slide_id"].tolist() == ["007", "008"]
    assert got.loc["007", "label"] == 1


def test_patient_level_refuses_a_patient_of_two_labels() -> None:
    frame = pd.DataFrame({"patient_id": ["x", "x"], "slide_id": ["a", "b"], "label": [0, 1], "probability": [0.1, 0.9]})
    with pytest.raises(StudyError, match="Patients x have slides with different labels"):
        patient_level(frame)


def test_macro_auc_may_leave_absent_classes_out() -> None:
    rng = np.random.default_rng(0)
    labels, p = np.repeat([0, 1, 2], 5), rng.dirichlet(np.ones(3), 15)
    expected = np.mean([reference.roc_auc_score(labels == c, p[:, c]) for c in range(3)])
    assert macro_auc(labels, p, absent="skip") == pytest.approx(expected)
    two = labels[:10], p[:10]
    assert np.isnan(macro_auc(*two))
    assert macro_auc(*two, absent="skip") == pytest.approx(
        np.mean([reference.roc_auc_score(two[0] == c, two[1][:, c]) for c in (0, 1)])
    )
    assert np.isnan(macro_auc(labels[:5], p[:5], absent="skip"))
