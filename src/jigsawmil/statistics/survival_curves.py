"""Curves of right-censored times: Kaplan-Meier, numbers at risk, log-rank test.

time (case,) is the time of the event or of the end of follow-up, event (case,) whether the event was seen. Of cases
with the same time, those with the event fail before those that are censored, as R's survival package has it.
Definitions, references and limits: docs/statistics.md.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, norm, rankdata

from ..errors import StudyError
from .intervals import Interval
from .metrics import Booleans, Floats, Integers, named, ratio


class KaplanMeier(NamedTuple):
    """The product-limit estimate at each distinct time."""

    time: Floats  # rising
    at_risk: Integers  # just before the time
    events: Integers
    survival: Floats  # just after the time
    low: Floats  # pointwise interval, symmetric for the log of the survival; nan once the survival is 0
    high: Floats

    def at(self, times: ArrayLike) -> Floats:
        """Survival just after each time; beyond the last one it stays as it is."""
        return np.append(1.0, self.survival)[np.searchsorted(self.time, np.asarray(times, float), side="right")]

    def before(self, times: ArrayLike) -> Floats:
        """Survival just before each time."""
        return np.append(1.0, self.survival)[np.searchsorted(self.time, np.asarray(times, float), side="left")]

    @property
    def median(self) -> Interval:
        """The first time at which survival is 0.5 or less, and the same of both bounds; nan if it stays above."""
        return Interval(*(_first_half(self.time, curve) for curve in (self.survival, self.low, self.high)))


class LogRank(NamedTuple):
    """Test of equal survival of groups. observed, expected: (group,) events, in the order of the sorted groups."""

    chi2: float
    df: int
    p: float
    observed: Floats
    expected: Floats


class SurvivalCalibration(NamedTuple):
    """Of groups of cases with similar predictions: mean prediction, and Kaplan-Meier's survival with its interval."""

    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    cases: Integers


def kaplan_meier(time: ArrayLike, event: ArrayLike, level: float = 0.95) -> KaplanMeier:
    """Survival with Greenwood's variance.

    Example: `kaplan_meier(months, died).at([12, 24, 60])`
    """
    t, e = checked_times(time, event)
    moments, position = np.unique(t, return_inverse=True)
    deaths = np.bincount(position, e, len(moments))
    leaving = np.bincount(position, minlength=len(moments))
    risk = leaving[::-1].cumsum()[::-1]
    survival = np.cumprod(1 - deaths / risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(np.cumsum(deaths / (risk * (risk - deaths)))) * norm.ppf(0.5 + level / 2)
        low, high = survival * np.exp(-error), np.minimum(1, survival * np.exp(error))
    low[survival == 0], high[survival == 0] = np.nan, np.nan
    return KaplanMeier(moments, risk, deaths.astype(np.int64), survival, low, high)


def at_risk(time: ArrayLike, times: ArrayLike) -> Integers:
    """How many cases are still followed just before each of `times`.

    Example: `at_risk(months, [0, 12, 24])`
    """
    ordered = np.sort(np.asarray(time, float))
    return len(ordered) - np.searchsorted(ordered, np.asarray(times, float), side="left")


def log_rank(time: ArrayLike, event: ArrayLike, group: ArrayLike) -> LogRank:
    """Mantel-Haenszel's log-rank test of two or more groups; nan with one group or without an event.

    Example: `log_rank(months, died, risk > median).p`
    """
    t, e = checked_times(time, event)
    names, member = np.unique(np.asarray(group), return_inverse=True)
    moments = np.unique(t[e])
    inside = np.eye(len(names))[member.ravel()]  # (case, group)
    order = np.argsort(t, kind="stable")
    start = np.searchsorted(t[order], moments, side="left")
    risk = inside[order][::-1].cumsum(0)[::-1][start]  # (moment, group)
    deaths = np.zeros_like(risk)
    np.add.at(deaths, np.searchsorted(moments, t[e]), inside[e])
    total, died = risk.sum(1), deaths.sum(1)
    share = risk / total[:, None]
    observed, expected = deaths.sum(0), (died[:, None] * share).sum(0)
    spread = died * ratio(total - died, total - 1)
    spread[total == 1] = 0  # the last case: nothing is left to chance
    variance = np.diag(spread @ share) - (share * spread[:, None]).T @ share
    gap = (observed - expected)[:-1]
    if len(names) < 2 or np.linalg.matrix_rank(variance[:-1, :-1]) < len(gap):
        return LogRank(float("nan"), len(names) - 1, float("nan"), observed, expected)
    statistic = float(gap @ np.linalg.solve(variance[:-1, :-1], gap))
    return LogRank(statistic, len(gap), float(chi2.sf(statistic, len(gap))), observed, expected)


def risk_groups(risk: ArrayLike, fold: ArrayLike, groups: int = 2) -> Integers:
    """(case,) 0 for the lowest risk. Cases are ranked within their fold, for models of different folds have different
    scales, and cut into parts of equal size without a look at the outcome.

    Example: `risk_groups(risk, fold)`
    """
    r, where = np.asarray(risk, dtype=float), np.asarray(fold)
    found = np.zeros(len(r), dtype=np.int64)
    for each in np.unique(where):
        rows = where == each
        found[rows] = np.minimum(groups - 1, (rankdata(r[rows]) - 0.5) / rows.sum() * groups)
    return found


def survival_calibration(
    time: ArrayLike, event: ArrayLike, predicted: ArrayLike, horizon: float
) -> SurvivalCalibration:
    """Predicted against observed survival at a horizon, in at most five groups of ten cases or more.

    Example: `survival_calibration(months, died, survival_at_24, 24).observed`
    """
    t, e = checked_times(time, event)
    p = np.asarray(predicted, dtype=float)
    bins = max(1, min(5, len(p) // 10))
    which = ((rankdata(p) - 0.5) / max(len(p), 1) * bins).astype(int)
    rows = []
    for index in np.unique(which):
        own = which == index
        curve = kaplan_meier(t[own], e[own])
        place = int(np.searchsorted(curve.time, horizon, side="right")) - 1
        bounds = (curve.low[place], curve.high[place]) if place >= 0 else (1.0, 1.0)
        rows.append((p[own].mean(), curve.at(horizon), *bounds, own.sum()))
    mean, observed, low, high, cases = np.array(rows, dtype=float).reshape(-1, 5).T
    return SurvivalCalibration(mean, observed, low, high, cases.astype(np.int64))


def event_horizons(time: ArrayLike, event: ArrayLike) -> Floats:
    """The default horizons: the quartiles of the event times.

    Example: `event_horizons(months, died)`
    """
    t, e = checked_times(time, event)
    return np.unique(np.quantile(t[e], [0.25, 0.5, 0.75])) if e.any() else np.array([])


def uncensored(time: ArrayLike, event: ArrayLike) -> KaplanMeier:
    """P(not censored by t): Kaplan-Meier with censoring as the event, of which cases that fail at t are free."""
    t, e = checked_times(time, event)
    moments, position = np.unique(t, return_inverse=True)
    failed, censored = np.bincount(position, e, len(moments)), np.bincount(position, ~e, len(moments))
    risk = np.bincount(position, minlength=len(moments))[::-1].cumsum()[::-1] - failed
    survival = np.cumprod(1 - np.divide(censored, risk, out=np.zeros(len(moments)), where=risk > 0))
    nothing = np.full(len(moments), np.nan)
    return KaplanMeier(moments, risk.astype(np.int64), censored.astype(np.int64), survival, nothing, nothing)


def checked_times(time: ArrayLike, event: ArrayLike) -> tuple[Floats, Booleans]:
    """Times and events as arrays, or an error that names the rows that are none."""
    t, e = np.asarray(time, dtype=float), np.asarray(event)
    if t.shape != e.shape or t.ndim != 1:
        raise StudyError(f"Times of shape {t.shape} and events of shape {e.shape}; expected (n,) of both.")
    bad = np.flatnonzero(~(np.isfinite(t) & (t >= 0)))
    if len(bad):
        raise StudyError(f"Times of cases {named(bad)} are {named(t[bad])}; expected numbers from 0 on.")
    if not np.isin(e, (0, 1)).all():
        raise StudyError(f"Events {named(np.unique(e))}; expected 1 if the event was seen and 0 for a censored case.")
    return t, e.astype(bool)


def _first_half(time: Floats, curve: Floats) -> float:
    below = np.flatnonzero(curve <= 0.5)  # nan is not
    return float(time[below[0]]) if len(below) else float("nan")
