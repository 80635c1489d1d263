"""Curves with their doubt: pointwise intervals over resampled patients."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .metrics import Booleans, Floats

Kind = Literal["roc", "pr"]
RESAMPLES = 500  # pointwise 2.5 and 97.5 % need no more


class Curve(NamedTuple):
    """ROC: true against false positive rate. Precision-recall: precision against recall, constant up to each point."""

    x: Floats
    y: Floats


class Band(NamedTuple):
    x: Floats
    low: Floats
    high: Floats
    area: tuple[float, float]  # interval of the area under the curve

    @property
    def empty(self) -> bool:
        """All resamples agree, as after a perfect separation: that is no certainty, they cannot know."""
        return bool((self.high - self.low).max() < 1e-9)


def curve(positive: ArrayLike, score: ArrayLike, kind: Kind) -> Curve:
    """The empirical curve, one point a distinct score."""
    truth, value = np.asarray(positive, dtype=bool), np.asarray(score, dtype=float)
    return _curve(*_counts(truth, value, np.ones((1, len(truth)))), kind)


def band(positive: ArrayLike, score: ArrayLike, weight: Floats, kind: Kind, points: int = 101) -> Band:
    """Pointwise 95 % interval over resamples; weight (resample, case) says how often each case is in one."""
    truth, value = np.asarray(positive, dtype=bool), np.asarray(score, dtype=float)
    x = np.linspace(0, 1, points)
    tp, fp = _counts(truth, value, weight)
    curves = [_curve(t[None], f[None], kind) for t, f in zip(tp, fp, strict=True)]
    heights = np.stack([_at(one, x, kind) for one in curves])
    low, high = np.quantile(heights, [0.025, 0.975], axis=0)
    least, most = np.quantile([_area(one, kind) for one in curves], [0.025, 0.975])
    return Band(x, low, high, (float(least), float(most)))


def resampled_patients(
    truth: ArrayLike, patients: ArrayLike, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Floats:
    """(resample, case): patients drawn with replacement among those who have the same classes, slides together."""
    labels = np.unique(np.asarray(truth), return_inverse=True)[1].ravel()
    patient = np.unique(np.asarray(patients), return_inverse=True)[1].ravel()
    carries = np.zeros((patient.max() + 1, labels.max() + 1), dtype=bool)  # (patient, class)
    carries[patient, labels] = True
    stratum = np.unique(carries, axis=0, return_inverse=True)[1].ravel()
    draws = np.empty((resamples, len(carries)))
    for kind in range(stratum.max() + 1):
        who = np.flatnonzero(stratum == kind)
        draws[:, who] = rng.multinomial(len(who), np.full(len(who), 1 / len(who)), size=resamples)
    return draws[:, patient]


def _counts(truth: Booleans, value: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """True and false positives (resample, threshold) at or above each distinct score, from the highest down."""
    order = np.argsort(-value, kind="stable")
    last = np.flatnonzero(np.diff(value[order], append=-np.inf))  # of each run of ties
    ordered, side = weight[:, order], truth[order]
    return (ordered * side).cumsum(1)[:, last], (ordered * ~side).cumsum(1)[:, last]


def _curve(tp: Floats, fp: Floats, kind: Kind) -> Curve:
    up, down = tp[0], fp[0]
    if kind == "roc":
        return Curve(np.concatenate([[0.0], down / down[-1]]), np.concatenate([[0.0], up / up[-1]]))
    gains = np.flatnonzero(np.diff(up, prepend=0))  # only there does recall move, and precision count
    up, down = up[gains], down[gains]
    precision = up / (up + down)
    return Curve(np.concatenate([[0.0], up / up[-1]]), np.concatenate([precision[:1], precision]))


def _at(one: Curve, x: Floats, kind: Kind) -> Floats:
    """Height of a curve; where a ROC rises straight up, its upper end."""
    if kind == "pr":
        return one.y[np.minimum(np.searchsorted(one.x, x - 1e-12), len(one.x) - 1)]
    left = np.minimum(np.searchsorted(one.x, x + 1e-12, side="right") - 1, len(one.x) - 1)
    right = np.minimum(left + 1, len(one.x) - 1)
    run = one.x[right] - one.x[left]
    share = np.divide(x - one.x[left], run, out=np.zeros_like(x), where=run > 0)
    return one.y[left] + share * (one.y[right] - one.y[left])


def _area(one: Curve, kind: Kind) -> float:
    heights = one.y[1:] if kind == "pr" else (one.y[1:] + one.y[:-1]) / 2
    return float((np.diff(one.x) * heights).sum())
