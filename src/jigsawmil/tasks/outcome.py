"""Outcomes of survival as label tables write them, and what a curve of survival says."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .numeric import not_numbers
from .terms import Floats

HAPPENED = {"1", "true", "yes", "event", "dead", "deceased", "died", "death"}
CENSORED = {"0", "false", "no", "censored", "alive", "living"}


def event_of(cell: str) -> bool | None:
    """Whether the event happened; None if the cell does not say. cBioPortal writes `1:DECEASED`."""
    word = cell.strip().lower()
    if match := re.fullmatch(r"([01])(\.0*)?(:.*)?", word):
        return match[1] == "1"
    return True if word in HAPPENED else False if word in CENSORED else None


def outcome(label: str) -> tuple[float, float] | None:
    """Time and event of a label as text; None if it is none."""
    time, _, event = label.partition(" ")
    happened = event_of(event)
    if happened is None or not_numbers([time]) or float(time) < 0:
        return None
    return float(time), float(happened)


def outcome_words(found: Sequence[float]) -> str:
    """found: time and event."""
    return f"{'event at' if found[1] else 'censored at'} {found[0]:.4g}"


def counts_words(values: Floats) -> str:
    events, last = int((values[:, 1] > 0).sum()), values[:, 0].max()
    followed = f"followed for {np.median(values[:, 0]):g} (median), at most {last:g}"
    return f"{events} with the event, {len(values) - events} censored, {followed}"


def median_survival(classes: Sequence[str], p: Floats) -> float | None:
    """Where the curve falls to a half, linear between horizons; None if it does not by the last of them."""
    times, curve = _knots(classes), np.append(1.0, p[1:])
    below = np.flatnonzero(curve <= 0.5)
    if not len(below):
        return None
    i = int(below[0])
    return float(np.interp(-0.5, -curve[i - 1 : i + 1], times[i - 1 : i + 1]))


def survival_at(classes: Sequence[str], p: Floats, times: Floats) -> Floats:
    """(case, time) survival of predictions (case, output), linear between the horizons of the curve and from 1 at 0."""
    knots, start = _knots(classes), np.ones((len(p), 1))
    return np.stack([np.interp(times, knots, curve) for curve in np.hstack([start, p[:, 1:]])])


def _knots(classes: Sequence[str]) -> Floats:
    return np.array([0.0, *(float(name) for name in classes[1:])])
