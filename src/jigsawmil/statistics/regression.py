"""Figures of a measured value: correlation, share of variance, error, with intervals over resampled patients.

target, prediction: (case,). Where the data do not define a figure (a constant target) it is nan.
Definitions, references and limits: docs/statistics.md.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ..errors import StudyError
from .intervals import RESAMPLES, BootstrapTest, Interval, any_patients, bootstrap_test, percentile_interval
from .metrics import Floats, named, ratio


def pearson(target: ArrayLike, prediction: ArrayLike) -> float:
    """Pearson's correlation.

    Example: `pearson(target, prediction)  # (case,) each`
    """
    return _value("pearson", target, prediction)


def spearman(target: ArrayLike, prediction: ArrayLike) -> float:
    """Spearman's rank correlation, ties by midranks.

    Example: `spearman(target, prediction)  # (case,) each`
    """
    return _value("spearman", target, prediction)


def r2(target: ArrayLike, prediction: ArrayLike) -> float:
    """Share of the target's variance that the prediction explains; below 0 if its mean would be a better prediction.

    Example: `r2(target, prediction)  # (case,) each`
    """
    return _value("r2", target, prediction)


def mae(target: ArrayLike, prediction: ArrayLike) -> float:
    """Mean absolute error, in the unit of the target.

    Example: `mae(target, prediction)  # (case,) each`
    """
    return _value("mae", target, prediction)


def regression_interval(
    figure: str,
    target: ArrayLike,
    prediction: ArrayLike,
    patients: ArrayLike,
    seed: int | np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Interval:
    """A figure (pearson, spearman, r2, mae) with a percentile interval over resampled patients.

    Example: `regression_interval("pearson", target, prediction, patients, seed=0).low`
    """
    y, p = checked_values(target, prediction)
    draws = any_patients(patients, seed, resamples)
    return percentile_interval(_value(figure, y, p), FIGURES[figure](y, p, draws), level)


def regression_difference(
    figure: str,
    target: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    patients: ArrayLike,
    seed: int | np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> BootstrapTest:
    """The figure of prediction a minus that of b on the same cases, over the same resamples of patients.

    Example: `regression_difference("pearson", target, prediction, other, patients, seed=0).p`
    """
    y, p = checked_values(target, a)
    q = checked_values(target, b)[1]
    draws = np.concatenate([np.ones((1, len(y))), any_patients(patients, seed, resamples)])
    gaps = FIGURES[figure](y, p, draws) - FIGURES[figure](y, q, draws)
    return bootstrap_test(float(gaps[0]), gaps[1:], level)


def checked_values(target: ArrayLike, prediction: ArrayLike) -> tuple[Floats, Floats]:
    """Both as arrays of numbers, or an error that names the rows that are none."""
    y, p = np.asarray(target, dtype=float), np.asarray(prediction, dtype=float)
    if y.shape != p.shape or y.ndim != 1:
        raise StudyError(f"Targets of shape {y.shape} and predictions of shape {p.shape}; expected (n,) of both.")
    for name, values in (("Targets", y), ("Predictions", p)):
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise StudyError(f"{name} of cases {named(bad)} are {named(values[bad])}; expected numbers.")
    return y, p


def _value(figure: str, target: ArrayLike, prediction: ArrayLike) -> float:
    y, p = checked_values(target, prediction)
    return float(FIGURES[figure](y, p, np.ones((1, len(y))))[0]) if len(y) else float("nan")


def _pearson(y: Floats, p: Floats, weight: Floats) -> Floats:
    """(resample,) as the others below; weight (resample, case) says how often each case counts."""
    return _correlation((y - y.mean())[None], (p - p.mean())[None], weight)


def _spearman(y: Floats, p: Floats, weight: Floats) -> Floats:
    return _correlation(_weighted_ranks(y, weight), _weighted_ranks(p, weight), weight)


def _r2(y: Floats, p: Floats, weight: Floats) -> Floats:
    centred = y - y.mean()
    total = weight @ centred**2 - ratio((weight @ centred) ** 2, weight.sum(1))
    return 1 - ratio(weight @ (y - p) ** 2, np.where(total > _rounding(weight @ centred**2), total, 0))


def _mae(y: Floats, p: Floats, weight: Floats) -> Floats:
    return weight @ np.abs(y - p) / weight.sum(1)


FIGURES: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "pearson": _pearson, "spearman": _spearman, "r2": _r2, "mae": _mae,
}  # fmt: skip


def _correlation(a: Floats, b: Floats, weight: Floats) -> Floats:
    n = weight.sum(1)
    mean_a, mean_b = (weight * a).sum(1) / n, (weight * b).sum(1) / n
    square_a, square_b = (weight * a**2).sum(1), (weight * b**2).sum(1)
    own_a, own_b = square_a - n * mean_a**2, square_b - n * mean_b**2
    constant = (own_a <= _rounding(square_a)) | (own_b <= _rounding(square_b))
    found = ratio((weight * a * b).sum(1) - n * mean_a * mean_b, np.sqrt(np.where(constant, 0, own_a * own_b)))
    return np.clip(found, -1, 1)


def _weighted_ranks(values: Floats, weight: Floats) -> Floats:
    """(resample, case) midrank of each case among all copies in the resample."""
    level = np.unique(values, return_inverse=True)[1]
    starts = np.flatnonzero(np.diff(np.sort(level), prepend=-1))
    held = np.add.reduceat(weight[:, np.argsort(level, kind="stable")], starts, axis=1)
    return (held.cumsum(1) - held / 2)[:, level]


def _rounding(scale: Floats) -> Floats:
    return 1e-12 * scale
