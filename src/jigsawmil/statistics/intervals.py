"""Intervals: DeLong's of an AUROC, from the placements of cases, Newcombe's where few cases are misranked, and the
bootstrap over patients of any figure.

Definitions, references and limits: docs/statistics.md.
"""

from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm, rankdata

from .metrics import Booleans, Floats, Integers, auc, judged_columns, macro_auc, scored

BOOTSTRAP_BLOCK = 4_000_000  # resamples x cases held in memory at once
RESAMPLES = 2000
FEW = 5  # misranked cases (or patients) of a class, below which they do not show how much they vary
SAME = 1e-12  # width of an interval, or spread of a difference, that is rounding alone
NO_VARIANCE = 1e-24  # rounding leaves about 1e-32; one misplaced case among 100,000 leaves more than this


class Interval(NamedTuple):
    """A figure of merit with the bounds of its confidence interval."""

    value: float
    low: float
    high: float


class BootstrapTest(NamedTuple):
    """The difference of two methods on the same cases: percentile interval over resampled patients, z = difference /
    standard deviation over the resamples, two-sided p of a normal distribution."""

    difference: float
    low: float
    high: float
    z: float
    p: float


def placements(y: ArrayLike, s: ArrayLike) -> Floats:
    """(case,) DeLong's structural components: the share of the other class that a case is ranked rightly against.

    Their mean over the positives, and over the negatives, is the AUROC. Midranks make it O(n log n) (Sun & Xu 2014).
    """
    positive, value = scored(y, s)
    within = np.empty(len(value))
    within[positive], within[~positive] = rankdata(value[positive]), rankdata(value[~positive])
    others_below = rankdata(value) - within
    m, n = positive.sum(), (~positive).sum()
    return np.where(positive, others_below / max(n, 1), 1 - others_below / max(m, 1))


def component_variance(y: ArrayLike, components: Floats, clusters: ArrayLike | None = None) -> float:
    """Variance of the mean of structural components: DeLong's, or Obuchowski's where cases come in clusters.

    Components are those of an AUROC, or the difference of two methods' components. nan with fewer than two clusters of
    a class. With one case a cluster the two variances are the same.
    """
    positive = np.asarray(y, dtype=bool)
    group = _codes(np.arange(len(positive)) if clusters is None else clusters)
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
    group = _codes(np.arange(len(positive)) if clusters is None else clusters)
    ups, downs = len(np.unique(group[positive])), len(np.unique(group[~positive]))
    return min(ups, downs, len(np.unique(group)) // 2)


def delong_interval(y: ArrayLike, s: ArrayLike, level: float = 0.95, clusters: ArrayLike | None = None) -> Interval:
    """AUROC with DeLong's interval on the logit scale, so that it stays within [0, 1].

    clusters (case,): the patient of each slide; their slides then count as dependent (Obuchowski 1997).
    DeLong's variance comes from how much the misranked cases of each class vary. With fewer than FEW of a class
    (perfect separation has none), or without a variance, the interval is Newcombe's.

    Example: `delong_interval([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9]).high`
    """
    area = auc(y, s)
    if np.isnan(area):
        return Interval(area, area, area)
    components = placements(y, s)
    variance = component_variance(y, components, clusters)
    if not variance > NO_VARIANCE or _misranked(y, components, clusters) < FEW:
        return newcombe_interval(area, *sides(y, clusters), level)
    half = norm.ppf(0.5 + level / 2) * np.sqrt(variance) / (area * (1 - area))
    return Interval(area, float(expit(logit(area) - half)), float(expit(logit(area) + half)))


def newcombe_interval(area: float, positives: int, negatives: int, level: float = 0.95) -> Interval:
    """Newcombe's method 5 (2006): all areas whose standard error, by Hanley and McNeil's exponential model, lets this
    one occur. The error is that of the area asked about, so the interval has a width also at AUROC 0 and 1.

    At perfect separation of so few cases that the exact test of ranks does not reject, it includes 0.5.

    Example: `newcombe_interval(1.0, 5, 25).low  # 0.77`
    """
    quantile, mean = norm.ppf(0.5 + level / 2), (positives + negatives) / 2 - 1

    def error(a: float) -> float:
        share = 1 + mean * (1 - a) / (2 - a) + mean * a / (1 + a)
        return float(quantile * np.sqrt(a * (1 - a) * share / (positives * negatives)))

    edge = 1e-9  # at 0 and 1 themselves the error is 0
    inside = min(max(area, edge), 1 - edge)
    low = 0.0 if area == 0 else float(brentq(lambda a: area - a - error(a), edge / 2, inside))
    high = 1.0 if area == 1 else float(brentq(lambda a: a - area - error(a), inside, 1 - edge / 2))
    if area in (0.0, 1.0) and 2 / comb(positives + negatives, positives) > 1 - level:
        low, high = min(low, 0.5), max(high, 0.5)
    return Interval(area, low, high)


def sides(y: ArrayLike, clusters: ArrayLike | None = None) -> tuple[int, int]:
    """How many independent cases, or patients, are positive, and how many negative."""
    positive = np.asarray(y, dtype=bool)
    group = _codes(np.arange(len(positive)) if clusters is None else clusters)
    return len(np.unique(group[positive])), len(np.unique(group[~positive]))


def _misranked(y: ArrayLike, components: Floats, clusters: ArrayLike | None) -> int:
    """Cases, or patients, that are not ranked rightly (or not wrongly) against all of the other class; of the class
    that has fewer."""
    of = np.arange(len(components)) if clusters is None else np.asarray(clusters)
    positive = np.asarray(y, dtype=bool)
    extremes = (components < 1, components > 0)
    return min(len(np.unique(of[side & some])) for side in (positive, ~positive) for some in extremes)


def bootstrap_interval(
    y: ArrayLike,
    p: ArrayLike,
    patients: ArrayLike,
    rng: np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Interval:
    """(Macro) AUROC with a percentile interval over resampled patients, see `resampled_patients`.

    If all resamples agree (perfect separation), they say nothing about uncertainty, and the interval is Newcombe's, of
    the class with the widest.

    Example: `bootstrap_interval(y, p, patients, np.random.default_rng(0)).low`
    """
    truth, prob = np.asarray(y), np.asarray(p, dtype=float)
    area = macro_auc(truth, prob)
    if np.isnan(area):
        return Interval(area, area, area)
    columns = judged_columns(prob.shape[1])
    block = max(1, BOOTSTRAP_BLOCK // len(truth))
    areas = []
    for start in range(0, resamples, block):
        weight = resampled_patients(truth, patients, rng, min(block, resamples - start))
        areas.append(np.mean([weighted_auc(truth == c, prob[:, c], weight) for c in columns], axis=0))
    found = percentile_interval(area, np.concatenate(areas), level)
    if found.high - found.low < SAME:
        each = [newcombe_interval(area, *sides(truth == c, patients), level) for c in columns]
        return max(each, key=lambda one: one.high - one.low)
    return found


def percentile_interval(value: float, draws: Floats, level: float = 0.95) -> Interval:
    """Percentiles of a figure over resamples; those in which it is undefined are left out. nan if it always is."""
    known = draws[np.isfinite(draws)]
    if np.isnan(value) or len(known) == 0:
        return Interval(value, float("nan"), float("nan"))
    low, high = np.quantile(known, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(value, float(low), float(high))


def bootstrap_test(value: float, draws: Floats, level: float = 0.95) -> BootstrapTest:
    """Of a difference of two methods, from its values over resamples of the same patients.

    Methods without any difference: p = 1. A difference that is the same in all resamples: z and p are nan.
    """
    spread = float(np.nanstd(draws, ddof=1)) if np.isfinite(draws).sum() > 1 else float("nan")
    interval = percentile_interval(value, draws, level)
    if spread < SAME and abs(value) < SAME:
        return BootstrapTest(*interval, 0.0, 1.0)
    z = float(value / spread) if spread > SAME else float("nan")
    return BootstrapTest(*interval, z, float(2 * norm.sf(abs(z))))


def difference_interval(a: Interval, b: Interval) -> Interval:
    """The difference of two AUROCs of independent cohorts, a - b, with an interval from those of the two.

    Zou and Donner's MOVER (2008): each bound joins the distances to the bounds that pull in its direction.

    Example: `difference_interval(external, cross_validated).low`
    """
    low = np.hypot(a.value - a.low, b.high - b.value)
    high = np.hypot(a.high - a.value, b.value - b.low)
    difference = a.value - b.value
    return Interval(difference, float(difference - low), float(difference + high))


def resampled_patients(truth: ArrayLike, patients: ArrayLike, rng: np.random.Generator, resamples: int) -> Floats:
    """(resample, case): how often each case is in a resample. All slides of a patient are drawn together.

    Patients are drawn with replacement among those who have the same classes, so that every resample has every class.
    """
    labels, patient = _codes(truth), _codes(patients)
    carries = np.zeros((patient.max() + 1, labels.max() + 1), dtype=bool)  # (patient, class)
    carries[patient, labels] = True
    stratum = np.unique(carries, axis=0, return_inverse=True)[1].ravel()
    draws = np.empty((resamples, len(carries)))
    for kind in range(stratum.max() + 1):
        who = np.flatnonzero(stratum == kind)
        draws[:, who] = rng.multinomial(len(who), np.full(len(who), 1 / len(who)), size=resamples)
    return draws[:, patient]


def any_patients(patients: ArrayLike, seed: int | np.random.Generator, resamples: int) -> Floats:
    """The same without classes: (resample, case), patients drawn with replacement among all."""
    who = np.asarray(patients)
    return resampled_patients(np.zeros(len(who)), who, np.random.default_rng(seed), resamples)


def weighted_auc(positive: Booleans, s: Floats, weight: Floats) -> Floats:
    """(resample,) AUROC in which case i counts weight[:, i] times; weight (resample, case)."""
    order = np.argsort(s, kind="stable")
    starts = np.flatnonzero(np.diff(s[order], prepend=-np.inf))  # of each run of ties
    ordered, side = weight[:, order], positive[order]
    up = np.add.reduceat(ordered * side, starts, axis=1)
    down = np.add.reduceat(ordered * ~side, starts, axis=1)
    below = down.cumsum(1) - down / 2
    return (up * below).sum(1) / (up.sum(1) * down.sum(1))


def distribution_free(area: float, pairs: int, level: float) -> Interval:
    """Of a C-index: bounds that hold for any distribution of scores, from disjoint pairs of independent cases.

    C 1 needs all `pairs` won: Clopper-Pearson. In between: Hoeffding's inequality for U-statistics.
    """
    tail = (1 - level) / 2
    if pairs == 0:
        return Interval(area, 0.0, 1.0)
    if area in (0.0, 1.0):
        worst = tail ** (1 / pairs)
        return Interval(area, worst, 1.0) if area == 1.0 else Interval(area, 0.0, 1 - worst)
    half = float(np.sqrt(-np.log(tail) / (2 * pairs)))
    return Interval(area, max(0.0, area - half), min(1.0, area + half))


def _codes(groups: ArrayLike) -> Integers:
    """Whole numbers from 0 on, in the order of the sorted groups."""
    return np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
