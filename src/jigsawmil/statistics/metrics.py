"""What predictions are worth: figures of merit and their intervals, pure functions on arrays.

y (case,) holds class indices (or booleans where one class stands against the rest), s (case,) a score that should rise
with the class, p (case, class) probabilities. Where the data do not define a figure it is nan, never 0 and never an
exception. Definitions, references and limits of every figure: docs/statistics.md.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit
from scipy.stats import norm, rankdata

from ..errors import StudyError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

PROBABILITY_MARGIN = 1e-6  # a saturated 0 or 1 has no logit
RECALIBRATION_CASES = 10  # of each class, below which slope and intercept are noise
BOOTSTRAP_BLOCK = 4_000_000  # resamples x cases held in memory at once
NO_VARIANCE = 1e-24  # rounding leaves about 1e-32; one misplaced case among 100,000 leaves more than this


class Interval(NamedTuple):
    """An AUC with the bounds of its confidence interval."""

    auc: float
    low: float
    high: float


class RocPoints(NamedTuple):
    fpr: Floats
    tpr: Floats
    threshold: Floats  # first is inf: nothing is called positive


class CalibrationPoints(NamedTuple):
    predicted: Floats  # mean probability of each bin
    observed: Floats  # share of hits in each bin
    cases: Integers


def class_figures(truth: Integers, prob: Floats, decision: Integers, columns: Sequence[int]) -> dict[str, float]:
    """AUC, AUPRC, balanced accuracy and F1; all but the accuracy are unweighted means over the classes in `columns`.

    Example: `class_figures(y, p, p.argmax(1), columns=[1])["auprc"]  # y: (case,), p: (case, class)`
    """
    confusion = confusion_matrix(truth, decision, prob.shape[1])
    hits, calls, cases = np.diag(confusion), confusion.sum(0), confusion.sum(1)
    return {
        "auc": macro_auc(truth, prob),
        "auprc": float(np.mean([average_precision(truth == c, prob[:, c]) for c in columns])),
        "balanced_accuracy": float(np.mean(_ratio(hits, cases))),
        "f1": float(np.mean(_ratio(2 * hits, calls + cases)[list(columns)])),
    }


def brier_score(truth: Integers, prob: Floats, columns: Sequence[int]) -> float:
    """Mean over cases of the squared error of the probability, summed over the classes in `columns`.

    Example: `brier_score(y, p, columns=[1])  # y: (case,), p: (case, class)`
    """
    squared = (prob - np.eye(prob.shape[1], dtype=bool)[truth]) ** 2
    return _mean(squared[:, list(columns)].sum(1))


def confusion_matrix(truth: Integers, decision: Integers, classes: int) -> Floats:
    """(truth, decision) counts.

    Example: `confusion_matrix(y, p.argmax(1), classes=3)  # (3, 3)`
    """
    return np.eye(classes)[truth].T @ np.eye(classes)[decision]


def auc(y: ArrayLike, s: ArrayLike) -> float:
    """P(score of a positive > score of a negative) + P(tie) / 2; nan where one class is missing."""
    positive, value = _scored(y, s)
    m, n = positive.sum(), (~positive).sum()
    if m == 0 or n == 0:
        return float("nan")
    return float((rankdata(value)[positive].sum() - m * (m + 1) / 2) / (m * n))


def macro_auc(
    y: ArrayLike, p: ArrayLike, *, absent: Literal["nan", "skip"] = "nan", area: Callable[..., float] = auc
) -> float:
    """AUC of the last of two classes, or the mean of each class against the rest.

    absent: a class that has no case, or all of them, makes the mean nan, or is left out of it. area: of one class.

    Example: `macro_auc(y, p)  # y: (case,), p: (case, class)`
    """
    truth, prob = np.asarray(y), np.asarray(p)
    columns = _columns(prob.shape[1])
    if absent == "skip":
        columns = [c for c in columns if 0 < (truth == c).sum() < len(truth)]
    return float(np.mean([area(truth == c, prob[:, c]) for c in columns])) if columns else float("nan")


def average_precision(y: ArrayLike, s: ArrayLike) -> float:
    """AUPRC without interpolation: precision at each distinct score, weighted by the recall gained there."""
    tp, fp, _ = _cumulative(y, s)
    if len(tp) == 0 or tp[-1] == 0 or fp[-1] == 0:  # with one class every ranking is as good as any other
        return float("nan")
    return float((np.diff(tp, prepend=0) * tp / (tp + fp)).sum() / tp[-1])


def roc_points(y: ArrayLike, s: ArrayLike) -> RocPoints:
    """The empirical ROC curve from (0, 0) to (1, 1), one point a distinct score."""
    tp, fp, threshold = _cumulative(y, s)
    tp, fp = np.concatenate([[0], tp]), np.concatenate([[0], fp])
    return RocPoints(_ratio(fp, fp[-1]), _ratio(tp, tp[-1]), np.concatenate([[np.inf], threshold]))


def calibration_points(hit: ArrayLike, p: ArrayLike, bins: int | None = None) -> CalibrationPoints:
    """Predicted against observed in bins of equal mass; ten cases a bin and at most ten bins unless stated.

    Cases with equal probability share a bin, so the order of the rows changes nothing.
    """
    happened, value = _scored(hit, p)
    n = len(value)
    bins = bins or max(1, min(10, n // 10))
    which = ((rankdata(value) - 0.5) / max(n, 1) * bins).astype(int)
    count = np.bincount(which, minlength=bins)
    filled = count > 0
    predicted = _ratio(np.bincount(which, value, bins), count)[filled]
    return CalibrationPoints(predicted, _ratio(np.bincount(which, happened, bins), count)[filled], count[filled])


def recalibration(y: ArrayLike, p: ArrayLike) -> tuple[float, float]:
    """Slope b of logit P(y) = a + b logit(p), and the intercept a of the same with b = 1; ideal are 1 and 0.

    nan with fewer than ten cases of a class; the slope also where the scores separate the classes (it is infinite).

    Example: `slope, intercept = recalibration(y, p)`
    """
    positive, value = _scored(y, p)
    if min(positive.sum(), (~positive).sum()) < RECALIBRATION_CASES:
        return float("nan"), float("nan")
    linear = logit(np.clip(value, PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN))
    bound = 20 + np.abs(linear).max()
    intercept = float(brentq(lambda a: (expit(a + linear) - positive).mean(), -bound, bound))
    up, down = linear[positive], linear[~positive]
    if up.min() >= down.max() or down.min() >= up.max():
        return float("nan"), intercept
    design = np.stack([np.ones_like(linear), linear], 1)

    def loss(beta: Floats) -> tuple[float, Floats]:
        eta = design @ beta
        return float((np.logaddexp(0, eta) - positive * eta).mean()), design.T @ (expit(eta) - positive) / len(eta)

    def curvature(beta: Floats) -> Floats:
        fitted = expit(design @ beta)
        return (design * (fitted * (1 - fitted))[:, None]).T @ design / len(fitted)

    fit = minimize(loss, np.array([intercept, 1.0]), jac=True, hess=curvature, method="trust-exact", tol=1e-9)
    return float(fit.x[1]), intercept


def placements(y: ArrayLike, s: ArrayLike) -> Floats:
    """(case,) DeLong's structural components: the share of the other class that a case is ranked rightly against.

    Their mean over the positives, and over the negatives, is the AUC. Midranks make it O(n log n) (Sun & Xu 2014).
    """
    positive, value = _scored(y, s)
    within = np.empty(len(value))
    within[positive], within[~positive] = rankdata(value[positive]), rankdata(value[~positive])
    others_below = rankdata(value) - within
    m, n = positive.sum(), (~positive).sum()
    return np.where(positive, others_below / max(n, 1), 1 - others_below / max(m, 1))


def component_variance(y: ArrayLike, components: Floats, clusters: ArrayLike | None = None) -> float:
    """Variance of the mean of structural components: DeLong's, or Obuchowski's where cases come in clusters.

    Components are those of an AUC, or the difference of two methods' components. nan with fewer than two clusters of
    a class. With one case a cluster the two variances are the same.
    """
    positive = np.asarray(y, dtype=bool)
    group = _codes(clusters, len(positive))
    kinds = []
    for side in (positive, ~positive):
        held = np.unique(group[side])
        if len(held) < 2:
            return float("nan")
        deviation = (components[side] - components[side].mean()) / side.sum()
        kinds.append((np.bincount(group[side], deviation, group.max() + 1), len(held)))
    (up, ups), (down, downs) = kinds
    every = len(np.unique(group))
    own = up @ up * ups / (ups - 1) + down @ down * downs / (downs - 1)
    return float(own + 2 * (up @ down) * every / (every - 1))


def independent_pairs(y: ArrayLike, clusters: ArrayLike | None = None) -> int:
    """How many disjoint (positive, negative) pairs of independent cases, or clusters, the data hold at most."""
    positive = np.asarray(y, dtype=bool)
    group = _codes(clusters, len(positive))
    ups, downs = len(np.unique(group[positive])), len(np.unique(group[~positive]))
    return min(ups, downs, len(np.unique(group)) // 2)


def delong_interval(y: ArrayLike, s: ArrayLike, level: float = 0.95, clusters: ArrayLike | None = None) -> Interval:
    """AUC with DeLong's interval on the logit scale, so that it stays within [0, 1].

    clusters (case,): the patient of each slide; their slides then count as dependent (Obuchowski 1997).
    Where the variance is 0 or unknown (perfect separation, constant scores, one case of a class) a distribution-free
    bound stands in for it: wide, but true.

    Example: `delong_interval([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9]).high`
    """
    area = auc(y, s)
    if np.isnan(area):
        return Interval(area, area, area)
    variance = component_variance(y, placements(y, s), clusters)
    if not variance > NO_VARIANCE or area in (0.0, 1.0):
        return _distribution_free(area, independent_pairs(y, clusters), level)
    half = norm.ppf(0.5 + level / 2) * np.sqrt(variance) / (area * (1 - area))
    return Interval(area, float(expit(logit(area) - half)), float(expit(logit(area) + half)))


def bootstrap_interval(
    y: ArrayLike,
    p: ArrayLike,
    patients: ArrayLike,
    rng: np.random.Generator,
    *,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """(Macro) AUC with a percentile interval over resampled patients, all slides of a patient together.

    Patients are drawn within strata of equal labels, so that every resample has every class. Where all resamples agree
    (perfect separation) they say nothing about doubt, and the bound of `delong_interval` stands in.

    Example: `bootstrap_interval(y, p, patients, np.random.default_rng(0)).low`
    """
    truth, prob = np.asarray(y), np.asarray(p, dtype=float)
    area = macro_auc(truth, prob)
    if np.isnan(area):
        return Interval(area, area, area)
    columns, patient = _columns(prob.shape[1]), _codes(patients, len(truth))
    carries = np.zeros((patient.max() + 1, prob.shape[1]), dtype=bool)  # (patient, class)
    carries[patient, truth] = True
    stratum = np.unique(carries, axis=0, return_inverse=True)[1].ravel()
    members = [np.flatnonzero(stratum == k) for k in range(stratum.max() + 1)]
    block = max(1, BOOTSTRAP_BLOCK // len(truth))
    areas = []
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        draws = np.empty((rows, len(carries)))
        for who in members:
            draws[:, who] = rng.multinomial(len(who), np.full(len(who), 1 / len(who)), size=rows)
        weight = draws[:, patient]  # (resample, slide): how often each slide is in it
        areas.append(np.mean([_weighted_auc(truth == c, prob[:, c], weight) for c in columns], axis=0))
    low, high = np.quantile(np.concatenate(areas), [0.5 - level / 2, 0.5 + level / 2])
    if high - low < 1e-12:
        return _distribution_free(area, min(independent_pairs(truth == c, patient) for c in columns), level)
    return Interval(area, float(low), float(high))


def patient_level(frame: pd.DataFrame, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """One row a patient (within method, fold and seed, where the table has them): mean probability over its slides.

    `slide_id` becomes the patient's id, so the result is again a table of predictions. columns: those averaged; None:
    all whose names start with `probability`.
    """
    mixed = frame.groupby("patient_id")["label"].nunique()
    if (mixed > 1).any():
        raise StudyError(
            f"Patients {named(mixed.index[mixed > 1])} have slides with different labels; the mean over a patient's "
            "slides needs one label a patient. Judge these predictions by slide."
        )
    keys = [k for k in ("variant", "fold", "seed", "patient_id") if k in frame]
    averaged = [c for c in frame if str(c).startswith("probability")] if columns is None else columns
    rows = frame.groupby(keys, sort=False, as_index=False).agg({"label": "first"} | dict.fromkeys(averaged, "mean"))
    return rows.assign(slide_id=rows["patient_id"])


def named(names: Iterable[object], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    every = [str(name) for name in names]
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def _columns(classes: int) -> list[int]:
    """Binary figures are of the last class alone, others of each class against the rest."""
    return [1] if classes == 2 else list(range(classes))


def check_probabilities(y: ArrayLike, p: ArrayLike, classes: int, task: str) -> tuple[Integers, Floats]:
    """Class indices and probabilities of that many classes, or an error about the predictions of a task.

    Example: `y, p = check_probabilities(labels, probabilities, 3, "multiclass")`
    """
    truth, prob = np.asarray(y), np.asarray(p, dtype=float)
    if prob.shape != (len(truth), classes) or truth.ndim != 1:
        raise StudyError(
            f"Labels of shape {truth.shape} and probabilities of shape {prob.shape} for a {task} task; expected (n,) "
            f"and (n, {classes}), one probability per class."
        )
    bad = np.flatnonzero(~(np.abs(prob.sum(1) - 1) < 1e-3) | (prob < 0).any(1))  # nan fails the first
    if len(bad):
        raise StudyError(
            f"Rows {named(bad)}: not probabilities (row {bad[0]} is {prob[bad[0]].tolist()}); expected numbers in "
            "[0, 1] that sum to 1. Apply the softmax, and look for a diverged run if they are nan."
        )
    if not np.isin(truth, np.arange(classes)).all():
        raise StudyError(f"Labels {named(np.unique(truth))}; expected class indices 0 to {classes - 1}, a column each.")
    return truth.astype(np.int64), prob


def _scored(y: ArrayLike, s: ArrayLike) -> tuple[Booleans, Floats]:
    positive, value = np.asarray(y).astype(bool), np.asarray(s, dtype=float)
    bad = np.flatnonzero(np.isnan(value))
    if len(bad):
        raise StudyError(f"Scores of cases {named(bad)} are nan; expected numbers. Look for a diverged run.")
    return positive, value


def _cumulative(y: ArrayLike, s: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """True and false positives at or above each distinct score, from the highest score down."""
    positive, value = _scored(y, s)
    order = np.argsort(-value, kind="stable")
    last = np.flatnonzero(np.diff(value[order], append=-np.inf))  # of each run of ties
    tp, fp = np.cumsum(positive[order])[last], np.cumsum(~positive[order])[last]
    return tp.astype(float), fp.astype(float), value[order][last]


def _weighted_auc(positive: Booleans, s: Floats, weight: Floats) -> Floats:
    """(resample,) AUC in which case i counts weight[:, i] times; weight (resample, case)."""
    order = np.argsort(s, kind="stable")
    starts = np.flatnonzero(np.diff(s[order], prepend=-np.inf))  # of each run of ties
    ordered, side = weight[:, order], positive[order]
    up = np.add.reduceat(ordered * side, starts, axis=1)
    down = np.add.reduceat(ordered * ~side, starts, axis=1)
    below = down.cumsum(1) - down / 2
    return (up * below).sum(1) / (up.sum(1) * down.sum(1))


def quadratic_kappa(confusion: Floats) -> float:
    """Agreement of grades beyond chance, distances squared: 1 - observed / expected cost. nan with one true grade.

    confusion: (truth, decision) counts.

    Example: `quadratic_kappa(confusion_matrix(y, decision, classes=6))`
    """
    cases, calls = confusion.sum(1), confusion.sum(0)
    if (cases > 0).sum() < 2:  # one grade in the truth: kappa is 0 whatever was predicted
        return float("nan")
    grade = np.arange(len(confusion))
    cost = (grade[:, None] - grade) ** 2
    return float(1 - (cost * confusion).sum() * cases.sum() / (cost * np.outer(cases, calls)).sum())


def expected_calibration_error(hit: Booleans, p: Floats) -> float:
    """Mean over cases of |predicted - observed| in bins of equal numbers. hit, p: (case,), what came true and its p.

    Example: `expected_calibration_error(y == 1, p[:, 1])`
    """
    points = calibration_points(hit, p)
    return float(_ratio(points.cases @ np.abs(points.predicted - points.observed), points.cases.sum()))


def _distribution_free(area: float, pairs: int, level: float) -> Interval:
    """Bounds that hold for any distribution of scores, from disjoint pairs of cases that are independent of each other.

    AUC 1 needs all `pairs` won: Clopper-Pearson. In between: Hoeffding's inequality for U-statistics.
    """
    tail = (1 - level) / 2
    if pairs == 0:
        return Interval(area, 0.0, 1.0)
    if area in (0.0, 1.0):
        worst = tail ** (1 / pairs)
        return Interval(area, worst, 1.0) if area == 1.0 else Interval(area, 0.0, 1 - worst)
    half = float(np.sqrt(-np.log(tail) / (2 * pairs)))
    return Interval(area, max(0.0, area - half), min(1.0, area + half))


def _codes(groups: ArrayLike | None, n: int) -> Integers:
    return np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].ravel()


def _ratio(part: ArrayLike, whole: ArrayLike) -> Floats:
    """part / whole, nan where whole is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(part, float), np.asarray(whole, float))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)


def _mean(values: NDArray[np.generic]) -> float:
    return float(values.mean()) if len(values) else float("nan")
