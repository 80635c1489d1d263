"""AUROC of each method with its interval, one below the other."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...drawing import GREY, Styles, own_style, save
from ...statistics.intervals import Interval
from ...tasks import Measure, measure_of
from ..tables import bounded, cohort_line, cohorts, designs, interval, reached
from .styles import method_styles


def forest_plot(summary: pd.DataFrame, path: str | Path) -> None:
    """Pooled AUROC (or other measure, one for all cohorts) of each method with its 95 % interval, and the mean of folds
    beside it; one panel a cohort."""
    with own_style():
        save(forest_figure(summary), Path(path))


def forest_figure(summary: pd.DataFrame, folds: pd.DataFrame | None = None, styles: Styles | None = None) -> Figure:
    """folds: `variant` and figure of one cohort's test folds, a dot each below the interval of its method."""
    by_cohort = list(cohorts(summary))
    methods = [len(rows) for _, rows in by_cohort]
    styles = styles or method_styles(summary["variant"].astype(str))
    room = int((7.0 - 0.072 * min(32, max(map(len, styles)))) / 0.075)  # characters of a title right of the names
    bounds = np.array([interval(row) for _, row in summary.iterrows()])
    measure = measure_of(summary)
    name, chance = measure.name, measure.chance
    dots = pd.DataFrame({"variant": [], name: []}) if folds is None else folds
    areas = [reached(row).value for _, row in summary.iterrows()]
    least = np.nanmin([chance, *summary[f"{name}_mean"], *bounds[:, 0], *areas, *dots[name]])
    figure = Figure(figsize=(7.2, sum(0.32 * n + 0.75 for n in methods) + 0.3), layout="constrained")
    axes = figure.subplots(len(methods), 1, squeeze=False, sharex=True, height_ratios=[n + 0.5 for n in methods])[:, 0]
    for ax, (cohort, rows) in zip(axes, by_cohort, strict=True):
        ax.axvline(chance, color=GREY, linewidth=0.8, linestyle=(0, (4, 4)))
        for y, (_, row) in enumerate(rows.iterrows()):
            colour, _dash = styles[str(row["variant"])]
            low, high = interval(row)
            ax.plot([low, high], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
            ax.plot(reached(row).value, y, "s", color=colour, markersize=6)
            ax.plot(row[f"{name}_mean"], y, "D", markeredgecolor="black", markerfacecolor="none", markersize=5)
            own = dots.loc[dots["variant"] == row["variant"], name]
            ax.plot(own, np.full(len(own), y + 0.3), "o", color=colour, markersize=3.5, alpha=0.7, markeredgewidth=0)
            ax.text(1.02, y, _stated(row), transform=ax.get_yaxis_transform(), va="center")
        ax.set(
            title=fill(cohort_line(cohort, rows), room),
            ylim=(len(rows) - 0.5, -0.5),
            xlim=(np.floor(least * 20 - 0.2) / 20, 1.005),
        )
        ax.set_yticks(range(len(rows)), [fill(str(m), 32) for m in rows["variant"]])
        ax.tick_params(axis="y", length=0)
    axes[-1].set_xlabel(measure.words)
    words = {frozenset(["hold-out"]): "test set", frozenset(["repeated hold-out"]): "mean of folds"}
    quoted = words.get(frozenset(designs(summary)), "pooled out-of-fold")
    marks = [
        Line2D([], [], color="0.3", marker="s", markersize=6, linewidth=2, label=f"{quoted}, 95 % interval"),
        Line2D(
            [], [], color="black", marker="D", markerfacecolor="none", markersize=5, linestyle="", label="mean of folds"
        ),
    ]
    if len(dots):
        marks.append(Line2D([], [], color="0.3", marker="o", markersize=3.5, linestyle="", label="test fold"))
    figure.legend(handles=marks, loc="outside lower center", ncols=3)
    return figure


def _stated(row: pd.Series) -> str:
    return bounded(*reached(row))


def interval_figure(areas: Mapping[str, Interval], colour: str, measure: Measure) -> Figure:
    """Several AUROCs (or other measures) with their intervals, one below the other; the last in grey."""
    figure = Figure(figsize=(7.2, 0.32 * len(areas) + 0.75), layout="constrained")
    ax = figure.subplots()
    for y, area in enumerate(areas.values()):
        own = "0.45" if y and y == len(areas) - 1 else colour
        ax.plot([area.low, area.high], [y, y], color=own, linewidth=2, solid_capstyle="butt")
        ax.plot(area.value, y, "s", color=own, markersize=6)
        stated = f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
        ax.text(1.02, y, stated, transform=ax.get_yaxis_transform(), va="center")
    ax.axvline(measure.chance, color=GREY, linewidth=0.8, linestyle=(0, (4, 4)))
    least = min(measure.chance, *(area.low for area in areas.values()))
    ax.set(ylim=(len(areas) - 0.5, -0.5), xlim=(np.floor(least * 20 - 0.2) / 20, 1.005), xlabel=measure.words)
    ax.set_yticks(range(len(areas)), list(areas))
    ax.tick_params(axis="y", length=0)
    return figure
