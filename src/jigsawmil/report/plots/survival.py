"""Survival by risk group with the numbers at risk, and whether predicted survival means what it says."""

from collections.abc import Mapping
from math import ceil
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...drawing import GREY
from ...statistics import at_risk, brier, brier_of_kaplan_meier, kaplan_meier, log_rank, survival_calibration
from ...statistics.metrics import Booleans, Floats, Integers
from .panels import ACROSS, TITLE, WIDTH, at_bottom, at_left, panels

RISKS = {2: ("low risk", "high risk"), 3: ("low risk", "middle", "high risk")}  # by number of groups
GROUPS = {2: ("#0072B2", "#D55E00"), 3: ("#0072B2", "#7F7F7F", "#D55E00")}
HORIZONS = ("#009E73", "#56B4E9", "#CC79A7", "#000000")


class Followed(NamedTuple):
    """Cases of one method. group: (case,) 0 for the lowest risk, see `statistics.risk_groups`."""

    time: Floats
    event: Booleans
    group: Integers


class Forecast(NamedTuple):
    """Cases of one method. survival: (case, horizon) predicted by models that were not trained on the case."""

    time: Floats
    event: Booleans
    survival: Floats


def kaplan_meier_figure(cases: Mapping[str, Followed], unit: str = "") -> Figure:
    """Kaplan-Meier curves of the risk groups with 95 % bands, one panel per method; the title has the log-rank test.

    Ticks on a curve are censored cases. unit: of the times, for the axis.
    """
    number = max(int(one.group.max()) for one in cases.values()) + 1
    columns, rows = min(ACROSS, len(cases)), ceil(len(cases) / ACROSS)
    below = 0.14 * number + 0.3  # inches of the table of numbers at risk
    figure = Figure(figsize=(WIDTH * columns / ACROSS + 0.75 * (columns < ACROSS), (2.7 + below) * rows + 0.3))
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.03, hspace=0.0)
    axes = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=[2.7, below] * rows)
    curves, tables = axes[::2].ravel(), axes[1::2].ravel()
    for spare in [*curves[len(cases) :], *tables[len(cases) :]]:
        spare.remove()
    for i, (ax, table, (method, one)) in enumerate(zip(curves, tables, cases.items(), strict=False)):
        for group, colour in enumerate(GROUPS[number]):
            _curve(ax, one, group, colour)
        test = log_rank(one.time, one.event, one.group)
        stated = "log-rank test undefined" if np.isnan(test.p) else f"log-rank p {_p_words(test.p)}"
        ax.set(title=f"{fill(method, TITLE)}\n{stated}", ylim=(-0.02, 1.02), yticks=(0, 0.5, 1))
        ax.set_xlim(0, one.time.max() * 1.04)
        ax.locator_params(axis="x", nbins=5, integer=one.time.max() > 4)
        ax.set_ylabel("survival" if at_left(i) else "")
        ax.set_xlabel(f"time ({unit})" if unit else "time")
        _numbers(table, ax, one, number, named=at_left(i))
    handles = [
        Line2D([], [], color=c, linewidth=2, label=n) for c, n in zip(GROUPS[number], RISKS[number], strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=number)
    return figure


def survival_calibration_figure(cases: Mapping[str, Forecast], horizons: Floats, unit: str = "") -> Figure:
    """Observed (Kaplan-Meier, 95 % interval) against predicted survival at each horizon, one panel per method.

    The title has the mean Brier score over the horizons, and that of the Kaplan-Meier (KM) curve of all cases.
    """
    across = ACROSS if len(cases) > 1 else 1
    figure, axes = panels(len(cases), height=3.0, legend=0.1 + 0.2 * ceil(len(horizons) / across))
    for i, (ax, (method, one)) in enumerate(zip(axes, cases.items(), strict=True)):
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
        for index, horizon in enumerate(horizons):
            colour = HORIZONS[index % len(HORIZONS)]
            points = survival_calibration(one.time, one.event, one.survival[:, index], float(horizon))
            ax.vlines(points.predicted, points.low, points.high, color=colour, linewidth=1.2, alpha=0.6)
            ax.plot(points.predicted, points.observed, "o-", color=colour, markersize=4.5, linewidth=1.2)
        own = brier(one.time, one.event, one.time, one.event, one.survival, horizons).mean()
        known = brier_of_kaplan_meier(one.time, one.event, one.time, one.event, horizons).mean()
        ax.set(title=f"{fill(method, TITLE)}\nBrier {own:.3f}, KM {known:.3f}", aspect="equal")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        ax.set_xlabel("predicted survival" if at_bottom(i, len(axes)) else "")
        ax.set_ylabel("observed survival" if at_left(i) else "")
    handles = [
        Line2D([], [], color=HORIZONS[i % len(HORIZONS)], marker="o", markersize=4.5, label=f"{h:.3g} {unit}".strip())
        for i, h in enumerate(horizons)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=across)
    return figure


def _curve(ax: Axes, one: Followed, group: int, colour: str) -> None:
    rows = one.group == group
    if not rows.any():
        return
    time, event = one.time[rows], one.event[rows]
    curve = kaplan_meier(time, event)
    x = np.concatenate([[0.0], curve.time])
    low, high, middle = (np.concatenate([[1.0], y]) for y in (curve.low, curve.high, curve.survival))
    ax.fill_between(x, low, high, step="post", color=colour, alpha=0.15, linewidth=0)
    ax.step(x, middle, where="post", color=colour, linewidth=1.6)
    left = time[event == 0]
    ax.plot(left, curve.at(left), "|", color=colour, markersize=5, markeredgewidth=0.8)


def _numbers(table: Axes, ax: Axes, one: Followed, number: int, named: bool) -> None:
    """Numbers at risk below the ticks of a panel."""
    low, high = ax.get_xlim()
    ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
    table.set(xlim=(low, high), ylim=(number - 0.5, -0.5), xticks=[])
    table.spines[:].set_visible(False)
    table.set_yticks(range(number), RISKS[number] if named else [""] * number, fontsize=7.5)
    table.tick_params(length=0, pad=14)
    if named:
        table.set_title("number at risk", fontsize=7.5, pad=2)
    for group, colour in enumerate(GROUPS[number]):
        table.get_yticklabels()[group].set_color(colour)
        for tick, count in zip(ticks, at_risk(one.time[one.group == group], ticks), strict=True):
            table.text(tick, group, str(count), ha="center", va="center", fontsize=7.5, color=colour, clip_on=False)


def _p_words(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
