"""Intervals of the figures of survival, and the test of a difference, over resampled patients.

Definitions, references and limits: docs/statistics.md.
"""

import numpy as np
from numpy.typing import ArrayLike

from .intervals import (
    RESAMPLES,
    SAME,
    BootstrapTest,
    Interval,
    any_patients,
    bootstrap_test,
    distribution_free,
    percentile_interval,
)
from .metrics import Floats
from .survival import brier_terms, checked_risk, comparable_pairs, concordance, dynamic_aucs, over_time, uno_weight
from .survival_curves import kaplan_meier

Seed = int | np.random.Generator


def c_interval(
    time: ArrayLike,
    event: ArrayLike,
    risk: ArrayLike,
    patients: ArrayLike,
    seed: Seed,
    *,
    train: tuple[ArrayLike, ArrayLike] | None = None,
    tau: float | None = None,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Interval:
    """Harrell's C, or Uno's if the times and events of training are given, with a percentile interval over resampled
    patients. If all resamples agree (perfect order), a distribution-free bound takes its place.

    Example: `c_interval(months, died, risk, patients, seed=0).low`
    """
    t, e, r = checked_risk(time, event, risk)
    weight = e.astype(float) if train is None else uno_weight(*train, t, e, tau)
    value = float(concordance(t, e, r, weight, np.ones((1, len(t))))[0])
    draws = concordance(t, e, r, weight, any_patients(patients, seed, resamples))
    return _wide(percentile_interval(value, draws, level), comparable_pairs(t, e, patients), level)


def c_difference(
    time: ArrayLike,
    event: ArrayLike,
    risk_a: ArrayLike,
    risk_b: ArrayLike,
    patients: ArrayLike,
    seed: Seed,
    *,
    train: tuple[ArrayLike, ArrayLike] | None = None,
    tau: float | None = None,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> BootstrapTest:
    """C of risk_a minus C of risk_b on the same cases, over the same resamples of patients.

    Example: `c_difference(months, died, risk, other_risk, patients, seed=0).p`
    """
    t, e, a = checked_risk(time, event, risk_a)
    b = checked_risk(time, event, risk_b)[2]
    weight = e.astype(float) if train is None else uno_weight(*train, t, e, tau)
    draws = np.concatenate([np.ones((1, len(t))), any_patients(patients, seed, resamples)])
    gaps = concordance(t, e, a, weight, draws) - concordance(t, e, b, weight, draws)
    return bootstrap_test(float(gaps[0]), gaps[1:], level)


def dynamic_auc_intervals(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    risk: ArrayLike,
    horizons: ArrayLike,
    patients: ArrayLike,
    seed: Seed,
    *,
    resamples: int = RESAMPLES,
) -> list[Interval]:
    """`dynamic_auc` at each horizon, with a percentile interval over resampled patients. If all agree (perfect
    order), a distribution-free bound takes its place.

    Example: `dynamic_auc_intervals(train_months, train_died, months, died, risk, [12, 24], patients, seed=0)`
    """
    draws = np.concatenate([np.ones((1, len(np.asarray(time)))), any_patients(patients, seed, resamples)])
    found = dynamic_aucs(train_time, train_event, time, event, risk, horizons, draws)
    pairs = [_sides(time, event, horizon, patients) for horizon in np.asarray(horizons, dtype=float)]
    return [_wide(percentile_interval(float(own[0]), own[1:]), n) for own, n in zip(found.T, pairs, strict=True)]


def integrated_brier_interval(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    survival: ArrayLike,
    horizons: ArrayLike,
    patients: ArrayLike,
    seed: Seed,
    *,
    resamples: int = RESAMPLES,
) -> Interval:
    """`integrated_brier` with a percentile interval over resampled patients.

    Example: `integrated_brier_interval(train_months, train_died, months, died, survival, horizons, patients, seed=0)`
    """
    terms = over_time(brier_terms(train_time, train_event, time, event, survival, horizons), horizons)  # (case,)
    draws = any_patients(patients, seed, resamples)
    return percentile_interval(float(terms.mean()), draws @ terms / draws.sum(1))


def mean_auc_interval(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    risk: ArrayLike,
    horizons: ArrayLike,
    patients: ArrayLike,
    seed: Seed,
    *,
    resamples: int = RESAMPLES,
) -> Interval:
    """The mean of `dynamic_auc` over the horizons at which it is defined, with a percentile interval over resampled
    patients; in perfect order, as `c_interval`.

    Example: `mean_auc_interval(train_months, train_died, months, died, risk, [12, 24], patients, seed=0).low`
    """
    draws = np.concatenate([np.ones((1, len(np.asarray(time)))), any_patients(patients, seed, resamples)])
    found = _mean_known(dynamic_aucs(train_time, train_event, time, event, risk, horizons, draws))
    return _wide(percentile_interval(float(found[0]), found[1:]), comparable_pairs(time, event, patients))


def brier_gain_interval(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    survival: ArrayLike,
    horizons: ArrayLike,
    patients: ArrayLike,
    seed: Seed,
    *,
    resamples: int = RESAMPLES,
) -> Interval:
    """`integrated_brier` of the Kaplan-Meier curve of training minus that of the predictions, above 0 if these are
    better, with a percentile interval over resampled patients.

    Example: `brier_gain_interval(train_months, train_died, months, died, survival, horizons, patients, seed=0).low`
    """
    known = np.tile(kaplan_meier(train_time, train_event).at(horizons), (len(np.asarray(time)), 1))
    theirs, ours = (brier_terms(train_time, train_event, time, event, p, horizons) for p in (known, survival))
    terms = over_time(theirs - ours, horizons)  # (case,)
    draws = any_patients(patients, seed, resamples)
    return percentile_interval(float(terms.mean()), draws @ terms / draws.sum(1))


def _wide(found: Interval, pairs: int, level: float = 0.95) -> Interval:
    """An interval that has a width even if all resamples agree. pairs: disjoint ones that could be in another order."""
    degenerate = found.high - found.low <= SAME  # not if undefined
    return distribution_free(found.value, pairs, level) if degenerate else found


def _sides(time: ArrayLike, event: ArrayLike, horizon: float, patients: ArrayLike) -> int:
    """How many patients had the event by a horizon, or live beyond it: of these, the fewer."""
    t, e, who = np.asarray(time, dtype=float), np.asarray(event) > 0, np.asarray(patients)
    return min(len(set(who[e & (t <= horizon)])), len(set(who[t > horizon])))


def _mean_known(values: Floats) -> Floats:
    """(resample,) mean over the horizons (resample, horizon) that are numbers; nan without any."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0).sum(axis=1)
    return np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
