"""Paired tests between two variants, and the correction for many of them: pure functions on arrays.

Definitions, references and limits: docs/statistics.md.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from scipy.stats import t as student

from .intervals import NO_VARIANCE, Interval, component_variance, independent_pairs, placements
from .metrics import Floats, auc


class DelongTest(NamedTuple):
    """The difference of two AUROCs on the same cases, with DeLong's z and two-sided p."""

    difference: float
    z: float
    p: float


class CorrectedTTest(NamedTuple):
    t: float
    p: float
    df: int


def delong_test(y: ArrayLike, s1: ArrayLike, s2: ArrayLike, clusters: ArrayLike | None = None) -> DelongTest:
    """AUROC of s1 minus that of s2 on the same cases, with DeLong's z and two-sided p (clusters: as `delong_interval`).

    Equal placements of every case: p = 1. Where the variance is 0 or unknown although the AUROCs differ, z is nan and p
    is Hoeffding's distribution-free bound.

    Example: `delong_test(y, scores, other_scores, clusters=patients).p`
    """
    difference = auc(y, s1) - auc(y, s2)
    components = placements(y, s1) - placements(y, s2)
    variance = component_variance(y, components, clusters)
    if np.isnan(difference):
        return DelongTest(difference, float("nan"), float("nan"))
    if variance > NO_VARIANCE:
        z = difference / np.sqrt(variance)
        return DelongTest(difference, float(z), float(2 * norm.sf(abs(z))))
    if np.abs(components).max() < 1e-12:
        return DelongTest(0.0, 0.0, 1.0)
    bound = 2 * np.exp(-independent_pairs(y, clusters) * difference**2 / 2)
    return DelongTest(difference, float("nan"), float(min(1.0, bound)))


def corrected_t_test(differences: ArrayLike, n_train: float, n_test: float) -> CorrectedTTest:
    """Nadeau and Bengio's corrected resampled t-test (two-sided) of the mean difference over J resamples.

    t = mean / sqrt((1 / J + n_test / n_train) var), J - 1 degrees of freedom. nan with fewer than two resamples, or
    where all differ by the same amount; p = 1 where none differs.
    """
    d = np.asarray(differences, dtype=float)
    df = len(d) - 1
    if df < 1 or n_train <= 0:
        return CorrectedTTest(float("nan"), float("nan"), df)
    if not d.any():
        return CorrectedTTest(0.0, 1.0, df)
    variance = d.var(ddof=1)
    if not variance > NO_VARIANCE:
        return CorrectedTTest(float("nan"), float("nan"), df)
    t = d.mean() / corrected_error(d, n_train, n_test)
    return CorrectedTTest(float(t), float(2 * student.sf(abs(t), df)), df)


def corrected_error(differences: ArrayLike, n_train: float, n_test: float) -> float:
    """Nadeau and Bengio's standard error of a mean difference over resamples whose training parts overlap."""
    d = np.asarray(differences, dtype=float)
    return float(np.sqrt((1 / len(d) + n_test / n_train) * d.var(ddof=1)))


def corrected_interval(areas: ArrayLike, n_train: float, n_test: float, level: float = 0.95) -> Interval:
    """The mean AUROC over resamples with an interval from Nadeau and Bengio's standard error, within [0, 1].

    It is about the method trained on that many cases, and allows for training parts that overlap. Bounds are nan with
    fewer than two resamples, or where all agree.

    Example: `corrected_interval([0.8, 0.7, 0.9], n_train=80, n_test=20).low`
    """
    a = np.asarray(areas, dtype=float)
    mean = float(a.mean()) if len(a) else float("nan")
    if len(a) < 2 or n_train <= 0 or not a.var(ddof=1) > NO_VARIANCE:
        return Interval(mean, float("nan"), float("nan"))
    half = student.ppf(0.5 + level / 2, len(a) - 1) * corrected_error(a, n_train, n_test)
    return Interval(mean, float(max(0.0, mean - half)), float(min(1.0, mean + half)))


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjusted p-values in the order given; nan stays nan and does not count as a test."""
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # nan sorts last
    factor = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * factor))
    return adjusted
