"""ROC and precision-recall curves, with pointwise intervals over resampled patients."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .metrics import Floats, counts_above, ratio, scored

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
    """The empirical curve, one point per distinct score."""
    truth, value = scored(positive, score)
    (tp,), (fp,) = counts_above(truth, value, np.ones((1, len(truth))))
    return _curve(tp, fp, kind)


def band(positive: ArrayLike, score: ArrayLike, weight: Floats, kind: Kind, points: int = 101) -> Band:
    """Pointwise 95 % interval over resamples; weight (resample, case) says how often each case is in one."""
    x = np.linspace(0, 1, points)
    counts = counts_above(*scored(positive, score), weight)
    curves = [_curve(tp, fp, kind) for tp, fp in zip(*counts, strict=True)]
    heights = np.stack([_at(one, x, kind) for one in curves])
    low, high = np.quantile(heights, [0.025, 0.975], axis=0)
    least, most = np.quantile([_area(one, kind) for one in curves], [0.025, 0.975])
    return Band(x, low, high, (float(least), float(most)))


def _curve(up: Floats, down: Floats, kind: Kind) -> Curve:
    """up, down: true and false positives at each threshold, as `counts_above` gives them."""
    if kind == "roc":
        up, down = np.concatenate([[0.0], up]), np.concatenate([[0.0], down])
        return Curve(ratio(down, down[-1]), ratio(up, up[-1]))
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
