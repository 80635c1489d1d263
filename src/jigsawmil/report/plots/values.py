"""Predictions of a measured value: against the target, and their difference from it (Bland and Altman)."""

from collections.abc import Mapping
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...drawing import GREY, Styles
from ...statistics import mae, pearson
from ...statistics.metrics import Floats
from .panels import TITLE, at_bottom, at_left, panels


class Measured(NamedTuple):
    """Cases of one method, (case,) both."""

    target: Floats
    prediction: Floats


def scatter_figure(cases: Mapping[str, Measured], styles: Styles) -> Figure:
    """Prediction against target, one panel per method; the dashed line is where they are equal."""
    figure, axes = panels(len(cases), height=3.0)
    every = np.concatenate([np.concatenate(one) for one in cases.values()])
    room = 0.04 * (np.ptp(every) or 1.0)
    ends = [every.min() - room, every.max() + room]
    for i, (ax, (method, one)) in enumerate(zip(axes, cases.items(), strict=True)):
        ax.plot(ends, ends, color=GREY, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
        ax.plot(one.target, one.prediction, "o", color=styles[method][0], markersize=3.5, alpha=0.6, markeredgewidth=0)
        stated = f"r {pearson(*one):.3f}, mean error {mae(*one):.3g}"
        ax.set(title=f"{fill(method, TITLE)}\n{stated}", xlim=ends, ylim=ends, aspect="equal")
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.yaxis.set_major_locator(MaxNLocator(4))
        ax.set_xlabel("target" if at_bottom(i, len(axes)) else "")
        ax.set_ylabel("prediction" if at_left(i) else "")
    return figure


def difference_figure(cases: Mapping[str, Measured], styles: Styles) -> Figure:
    """Prediction minus target against the mean of both, one panel per method, as Bland and Altman draw it.

    Lines: the mean difference, and 1.96 standard deviations to both sides of it.
    """
    figure, axes = panels(len(cases), height=2.9)
    gaps = {method: one.prediction - one.target for method, one in cases.items()}
    reach = max(float(np.abs(gap).max()) for gap in gaps.values()) * 1.08 or 1.0
    for i, (ax, (method, one)) in enumerate(zip(axes, cases.items(), strict=True)):
        gap, middle = gaps[method], (one.prediction + one.target) / 2
        mean, spread = gap.mean(), 1.96 * (gap.std(ddof=1) if len(gap) > 1 else np.nan)
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.axhline(mean, color="0.2", linewidth=1.2)
        for bound in (mean - spread, mean + spread):
            ax.axhline(bound, color="0.2", linewidth=1.0, linestyle=(0, (4, 3)))
        ax.plot(middle, gap, "o", color=styles[method][0], markersize=3.5, alpha=0.6, markeredgewidth=0)
        stated = f"{mean:+.3g}, limits {mean - spread:.3g} to {mean + spread:.3g}"
        ax.set(title=f"{fill(method, TITLE)}\n{stated}", ylim=(-reach, reach))
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.set_xlabel("mean of the two" if at_bottom(i, len(axes)) else "")
        ax.set_ylabel("prediction - target" if at_left(i) else "")
    return figure
