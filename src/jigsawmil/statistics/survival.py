"""What predictions of right-censored times are worth: C-index, time-dependent AUROC, Brier score.

risk (case,) is a score that should be higher for cases that fail earlier; time and event as in `survival_curves`. Two
events at the same time cannot be ordered, and count for nothing: as R's `concordance` has it. Functions that weight by
the probability of being uncensored take the cases that estimate it first (train_time, train_event). Intervals and
tests: `survival_intervals.py`. Definitions, references and limits: docs/statistics.md.
"""

import numpy as np
from numpy.typing import ArrayLike

from ..errors import StudyError
from .intervals import BOOTSTRAP_BLOCK, weighted_auc
from .metrics import Booleans, Floats, named, ratio
from .survival_curves import checked_times, kaplan_meier, uncensored


def harrell_c(time: ArrayLike, event: ArrayLike, risk: ArrayLike) -> float:
    """P(the case that fails first has the higher risk) among comparable pairs, ties of risk half; nan without a pair.

    Example: `harrell_c(months, died, risk)`
    """
    t, e, r = checked_risk(time, event, risk)
    return float(concordance(t, e, r, e.astype(float), np.ones((1, len(t))))[0])


def uno_c(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    risk: ArrayLike,
    tau: float | None = None,
) -> float:
    """The same with each event weighted by 1 / P(uncensored until then)^2, so that it does not depend on censoring.

    tau: only events before that time count. Events at times by which all training cases were censored never do.

    Example: `uno_c(train_months, train_died, months, died, risk)`
    """
    t, e, r = checked_risk(time, event, risk)
    weight = uno_weight(train_time, train_event, t, e, tau)
    return float(concordance(t, e, r, weight, np.ones((1, len(t))))[0])


def dynamic_auc(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    risk: ArrayLike,
    horizons: ArrayLike,
) -> Floats:
    """(horizon,) cumulative/dynamic AUROC: cases that failed by the horizon against those that live beyond it.

    risk: (case,), or (case, horizon). nan if a side has no case.

    Example: `dynamic_auc(train_months, train_died, months, died, risk, [12, 24])`
    """
    return dynamic_aucs(train_time, train_event, time, event, risk, horizons, None)[0]


def brier(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    survival: ArrayLike,
    horizons: ArrayLike,
) -> Floats:
    """(horizon,) mean squared error of the predicted survival (case, horizon), weighted for censoring.

    Example: `brier(train_months, train_died, months, died, survival, [12, 24])`
    """
    return brier_terms(train_time, train_event, time, event, survival, horizons).mean(0)


def integrated_brier(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    survival: ArrayLike,
    horizons: ArrayLike,
) -> float:
    """The Brier score averaged over the time from the first to the last horizon (trapezoids).

    Example: `integrated_brier(train_months, train_died, months, died, survival, horizons)`
    """
    return float(over_time(brier(train_time, train_event, time, event, survival, horizons), horizons))


def brier_of_kaplan_meier(
    train_time: ArrayLike, train_event: ArrayLike, time: ArrayLike, event: ArrayLike, horizons: ArrayLike
) -> Floats:
    """(horizon,) Brier score of the same prediction for every case: the Kaplan-Meier curve of training.

    Example: `brier_of_kaplan_meier(train_months, train_died, months, died, [12, 24])`
    """
    known = kaplan_meier(train_time, train_event).at(horizons)
    return brier(train_time, train_event, time, event, np.tile(known, (len(np.asarray(time)), 1)), horizons)


def comparable_pairs(time: ArrayLike, event: ArrayLike, patients: ArrayLike) -> int:
    """How many disjoint pairs of patients the data hold at most of which it is known who failed first."""
    t, e = checked_times(time, event)
    first = np.unique(np.asarray(patients), return_index=True)[1]
    waiting = pairs = 0
    for moment in np.unique(t[first])[::-1]:
        here = e[first][t[first] == moment]
        waiting += int((~here).sum())
        matched = min(int(here.sum()), waiting)
        pairs += matched
        waiting += int(here.sum()) - 2 * matched
    return pairs


def uno_weight(
    train_time: ArrayLike, train_event: ArrayLike, time: ArrayLike, event: ArrayLike, tau: float | None = None
) -> Floats:
    """(case,) 1 / P(uncensored until the event)^2, 0 for censored cases and for events from tau on."""
    t, e = checked_times(time, event)
    weight = _inverse(uncensored(train_time, train_event).before(t)) ** 2 * e
    return weight if tau is None else weight * (t < tau)


def checked_risk(time: ArrayLike, event: ArrayLike, risk: ArrayLike) -> tuple[Floats, Booleans, Floats]:
    t, e = checked_times(time, event)
    r = np.asarray(risk, dtype=float)
    if len(r) != len(t):
        raise StudyError(f"{len(r)} risks of {len(t)} cases; expected one per case.")
    bad = np.flatnonzero(np.isnan(r.reshape(len(r), -1)).any(1))
    if len(bad):
        raise StudyError(f"Risks of cases {named(bad)} are nan; expected numbers. Look for a diverged run.")
    return t, e, r


def concordance(t: Floats, e: Booleans, r: Floats, weight: Floats, draws: Floats) -> Floats:
    """(resample,) C with event i weighted by weight[i]; draws (resample, case) says how often each case counts."""
    over, total = np.zeros(len(draws)), np.zeros(len(draws))
    firsts = np.flatnonzero(weight > 0)
    block = max(1, BOOTSTRAP_BLOCK // max(len(t), len(draws)))
    for start in range(0, len(firsts), block):
        i = firsts[start : start + block]
        later = (t > t[i, None]) | ((t == t[i, None]) & ~e)  # (event, case) comparable
        right = later * ((r < r[i, None]) + 0.5 * (r == r[i, None]))
        mine = draws[:, i] * weight[i]
        over += np.einsum("be,be->b", mine, draws @ right.T)
        total += np.einsum("be,be->b", mine, draws @ later.T.astype(float))
    return ratio(over, total)


def dynamic_aucs(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    risk: ArrayLike,
    horizons: ArrayLike,
    draws: Floats | None,
) -> Floats:
    """(resample, horizon)."""
    t, e, r = checked_risk(time, event, risk)
    drawn = np.ones((1, len(t))) if draws is None else draws
    weight = _inverse(uncensored(train_time, train_event).before(t))
    found = []
    for index, horizon in enumerate(np.asarray(horizons, float)):
        failed, alive = e & (t <= horizon) & (weight > 0), t > horizon
        kept = failed | alive
        score = r if r.ndim == 1 else r[:, index]
        if failed.any() and alive.any():
            counts = drawn[:, kept] * np.where(failed, weight, 1.0)[kept]
            with np.errstate(invalid="ignore"):  # a resample without a case of one side has none
                found.append(weighted_auc(failed[kept], score[kept], counts))
        else:
            found.append(np.full(len(drawn), np.nan))
    return np.stack(found, axis=1) if found else np.empty((len(drawn), 0))


def brier_terms(
    train_time: ArrayLike,
    train_event: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    survival: ArrayLike,
    horizons: ArrayLike,
) -> Floats:
    """(case, horizon), Graf's weighted squared errors."""
    t, e, predicted = checked_risk(time, event, survival)
    times = np.asarray(horizons, dtype=float)
    if predicted.shape != (len(t), len(times)):
        raise StudyError(
            f"Survival of shape {predicted.shape} for {len(t)} cases and {len(times)} horizons; expected "
            f"({len(t)}, {len(times)})."
        )
    free = uncensored(train_time, train_event)
    failed = (e[:, None] & (t[:, None] <= times)) * _inverse(free.before(t))[:, None]
    alive = (t[:, None] > times) * _inverse(free.at(times))
    return predicted**2 * failed + (1 - predicted) ** 2 * alive


def over_time(scores: Floats, horizons: ArrayLike) -> Floats:
    """Mean over time of scores (..., horizon)."""
    times = np.asarray(horizons, dtype=float)
    if len(times) == 1:
        return scores[..., 0]
    if len(times) == 0 or (np.diff(times) <= 0).any():
        raise StudyError(f"Horizons {named(times)}; expected one or more rising times.")
    return np.trapezoid(scores, times, axis=-1) / (times[-1] - times[0])


def _inverse(probability: Floats) -> Floats:
    """1 / probability, 0 where it is 0: no case there can be weighted."""
    return np.divide(1.0, probability, out=np.zeros_like(probability), where=probability > 1e-12)
