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
from scipy.stats import rankdata

from ..errors import StudyError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

PROBABILITY_MARGIN = 1e-6  # a saturated 0 or 1 has no logit
RECALIBRATION_CASES = 10  # of each class, below which slope, intercept and a threshold are noise


class CalibrationPoints(NamedTuple):
    predicted: Floats  # mean probability of each bin
    observed: Floats  # share of hits in each bin
    cases: Integers


def class_figures(truth: Integers, prob: Floats, decision: Integers, columns: Sequence[int]) -> dict[str, float]:
    """AUROC, AUPRC, balanced accuracy and F1; all but the accuracy are unweighted means over the classes in `columns`.

    Example: `class_figures(y, p, p.argmax(1), columns=[1])["auprc"]  # y: (case,), p: (case, class)`
    """
    confusion = confusion_matrix(truth, decision, prob.shape[1])
    hits, calls, cases = np.diag(confusion), confusion.sum(0), confusion.sum(1)
    return {
        "auc": macro_auc(truth, prob),
        "auprc": float(np.mean([average_precision(truth == c, prob[:, c]) for c in columns])),
        "balanced_accuracy": float(np.mean(ratio(hits, cases))),
        "f1": float(np.mean(ratio(2 * hits, calls + cases)[list(columns)])),
    }


def brier_score(truth: Integers, prob: Floats, columns: Sequence[int]) -> float:
    """Mean over cases of the squared error of the probability, summed over the classes in `columns`.

    Example: `brier_score(y, p, columns=[1])  # y: (case,), p: (case, class)`
    """
    squared = ((prob - np.eye(prob.shape[1], dtype=bool)[truth]) ** 2)[:, list(columns)].sum(1)
    return float(squared.mean()) if len(squared) else float("nan")


def confusion_matrix(truth: Integers, decision: Integers, classes: int) -> Floats:
    """(truth, decision) counts.

    Example: `confusion_matrix(y, p.argmax(1), classes=3)  # (3, 3)`
    """
    return np.eye(classes)[truth].T @ np.eye(classes)[decision]


def auc(y: ArrayLike, s: ArrayLike) -> float:
    """P(score of a positive > score of a negative) + P(tie) / 2; nan where one class is missing."""
    positive, value = scored(y, s)
    m, n = positive.sum(), (~positive).sum()
    if m == 0 or n == 0:
        return float("nan")
    return float((rankdata(value)[positive].sum() - m * (m + 1) / 2) / (m * n))


def macro_auc(
    y: ArrayLike, p: ArrayLike, *, absent: Literal["nan", "skip"] = "nan", area: Callable[..., float] = auc
) -> float:
    """AUROC of the last of two classes, or the mean of each class against the rest.

    absent: a class that has no case, or all of them, makes the mean nan, or is left out of it. area: of one class.

    Example: `macro_auc(y, p)  # y: (case,), p: (case, class)`
    """
    truth, prob = np.asarray(y), np.asarray(p)
    columns = judged_columns(prob.shape[1])
    if absent == "skip":
        columns = [c for c in columns if 0 < (truth == c).sum() < len(truth)]
    return float(np.mean([area(truth == c, prob[:, c]) for c in columns])) if columns else float("nan")


def average_precision(y: ArrayLike, s: ArrayLike) -> float:
    """AUPRC without interpolation: precision at each distinct score, weighted by the recall gained there."""
    positive, value = scored(y, s)
    (tp,), (fp,) = counts_above(positive, value, np.ones((1, len(value))))
    if len(tp) == 0 or tp[-1] == 0 or fp[-1] == 0:  # with one class every ranking is as good as any other
        return float("nan")
    return float((np.diff(tp, prepend=0) * tp / (tp + fp)).sum() / tp[-1])


def calibration_points(hit: ArrayLike, p: ArrayLike) -> CalibrationPoints:
    """Predicted against observed in bins of equal mass: at most ten, of at least ten cases each.

    Cases with equal probability share a bin, so the order of the rows changes nothing.
    """
    happened, value = scored(hit, p)
    n = len(value)
    bins = max(1, min(10, n // 10))
    which = ((rankdata(value) - 0.5) / max(n, 1) * bins).astype(int)
    count = np.bincount(which, minlength=bins)
    filled = count > 0
    predicted = ratio(np.bincount(which, value, bins), count)[filled]
    return CalibrationPoints(predicted, ratio(np.bincount(which, happened, bins), count)[filled], count[filled])


def balanced_threshold(y: ArrayLike, s: ArrayLike) -> float:
    """The score above which a case is called positive, so that balanced accuracy is highest: halfway between two
    neighbouring scores, and of several equally good ones the one nearest to 0.5.

    0.5 with fewer than ten cases of a class, where a chosen threshold would be noise, or if no threshold beats chance.

    Example: `balanced_threshold(y, p[:, 1])`
    """
    positive, value = scored(y, s)
    levels = np.unique(value)
    if min(positive.sum(), (~positive).sum()) < RECALIBRATION_CASES or len(levels) < 2:
        return 0.5
    cuts = (levels[1:] + levels[:-1]) / 2
    hits = np.array([((value > cut) == positive)[positive].mean() for cut in cuts])
    rejections = np.array([((value > cut) == positive)[~positive].mean() for cut in cuts])
    balanced = (hits + rejections) / 2
    best = cuts[balanced > balanced.max() - 1e-12]
    return float(best[np.abs(best - 0.5).argmin()]) if balanced.max() > 0.5 else 0.5


def recalibration(y: ArrayLike, p: ArrayLike) -> tuple[float, float]:
    """Slope b of logit P(y) = a + b logit(p), and the intercept a of the same with b = 1; ideal are 1 and 0.

    nan with fewer than ten cases of a class; the slope also where the scores separate the classes (it is infinite).

    Example: `slope, intercept = recalibration(y, p)`
    """
    positive, value = scored(y, p)
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


def patient_level(frame: pd.DataFrame, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per patient (within variant, fold and seed, if the table has them): mean probability over its slides.

    `slide_id` becomes the patient's id, so the result is again a table of predictions. columns: those averaged; None:
    all whose names start with `probability`.
    """
    mixed = frame.groupby("patient_id")["label"].nunique()
    if (mixed > 1).any():
        raise StudyError(
            f"Patients {named(mixed.index[mixed > 1])} have slides with different labels; the mean over a patient's "
            "slides needs one label per patient. Judge these predictions by slide."
        )
    keys = [k for k in ("variant", "fold", "seed", "patient_id") if k in frame]
    averaged = [c for c in frame if str(c).startswith("probability")] if columns is None else columns
    rows = frame.groupby(keys, sort=False, as_index=False).agg({"label": "first"} | dict.fromkeys(averaged, "mean"))
    return rows.assign(slide_id=rows["patient_id"])


def named(names: Iterable[object], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    every = [str(name) for name in names]
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def judged_columns(classes: int) -> list[int]:
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


def scored(y: ArrayLike, s: ArrayLike) -> tuple[Booleans, Floats]:
    positive, value = np.asarray(y).astype(bool), np.asarray(s, dtype=float)
    bad = np.flatnonzero(np.isnan(value))
    if len(bad):
        raise StudyError(f"Scores of cases {named(bad)} are nan; expected numbers. Look for a diverged run.")
    return positive, value


def counts_above(positive: Booleans, value: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """True and false positives (resample, threshold) at or above each distinct score, from the highest down.

    weight (resample, case): how often each case counts.
    """
    order = np.argsort(-value, kind="stable")
    last = np.flatnonzero(np.diff(value[order], append=-np.inf))  # of each run of ties
    ordered, side = weight[:, order], positive[order]
    return (ordered * side).cumsum(1)[:, last], (ordered * ~side).cumsum(1)[:, last]


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
    return float(ratio(points.cases @ np.abs(points.predicted - points.observed), points.cases.sum()))


def ratio(part: ArrayLike, whole: ArrayLike) -> Floats:
    """part / whole, nan where whole is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(part, float), np.asarray(whole, float))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)
