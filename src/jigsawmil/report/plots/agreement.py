"""Do probabilities mean what they say, and which classes are taken for which."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binomtest

from ...drawing import GREY, Styles
from ...statistics.metrics import Integers, calibration_points
from ...study.predictions import Pooled
from .panels import TITLE, at_bottom, at_left, panels

ROOMY = 4  # classes up to which a cell has room for its share too


def calibration_figure(pooled: Mapping[str, Pooled], styles: Styles) -> Figure:
    """Observed share against predicted probability, one panel per method; bars are Wilson's 95 % interval of a bin.

    Whose probability it is, is up to the task. Ticks at the upper edge are the cases where it happened, those at the
    lower edge the others.
    """
    figure, axes = panels(len(pooled), height=3.0)
    for i, (ax, (method, one)) in enumerate(zip(axes, pooled.items(), strict=True)):
        colour, _ = styles[method]
        hit, p = one.task.calibration(one.truth, one.probability)
        points = calibration_points(hit, p)
        hits = np.rint(points.observed * points.cases).astype(int)
        tests = [binomtest(k, n) for k, n in zip(hits.tolist(), points.cases.tolist(), strict=True)]
        low, high = np.array([test.proportion_ci(method="wilson") for test in tests]).T
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
        ax.vlines(points.predicted, low, high, color=colour, linewidth=1.2, alpha=0.6)
        ax.plot(points.predicted, points.observed, "o-", color=colour, markersize=4.5, linewidth=1.2)
        for cases, height in ((p[hit], 1.04), (p[~hit], -0.04)):
            ax.plot(cases, np.full(len(cases), height), "|", color="0.25", markersize=5, markeredgewidth=0.5, alpha=0.5)
        figures = one.task.score(one.truth, one.probability)
        stated = f"Brier {figures['brier']:.3f}, ECE {figures['ece']:.3f}"
        ax.set(title=f"{fill(method, TITLE)}\n{stated}", xlim=(-0.02, 1.02), ylim=(-0.09, 1.09), aspect="equal")
        ax.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        ax.set_xlabel(one.task.calibration_words.x if at_bottom(i, len(axes)) else "")
        ax.set_ylabel(one.task.calibration_words.y if at_left(i) else "")
    return figure


def confusion_figure(pooled: Mapping[str, Pooled], classes: Sequence[str]) -> Figure:
    """Counts of truth against decision, a panel a method; colour and percentage are shares of the true class."""
    number = len(classes)
    names = [fill(str(name), 12 if number <= ROOMY else 9) for name in classes]
    turned = max(len(line) for name in names for line in name.split("\n")) > 26 / number  # wider than their cell
    figure, axes = panels(len(pooled), height=3.1 if turned else 2.75)
    for i, (ax, (method, one)) in enumerate(zip(axes, pooled.items(), strict=True)):
        counts = confusion(one, number)
        share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        ax.imshow(share, cmap="Blues", vmin=0, vmax=1.15)  # never so dark that the page is swallowed
        for row, column in np.ndindex(number, number):
            percent = f"\n{share[row, column]:.0%}" if number <= ROOMY and counts[row].sum() else ""
            colour = "white" if share[row, column] > 0.65 else "0.1"
            ax.text(column, row, f"{counts[row, column]}{percent}", ha="center", va="center", color=colour, fontsize=8)
        ax.set_xticks(range(number), names, fontsize=8)
        if turned:
            for label in ax.get_xticklabels():
                label.set(rotation=40, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(number), names if at_left(i) else [""] * number, fontsize=8)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_title(fill(method, TITLE))
        ax.set_xlabel("predicted" if at_bottom(i, len(axes)) else "")
        ax.set_ylabel("truth" if at_left(i) else "")
    return figure


def confusion(one: Pooled, classes: int) -> Integers:
    """(truth, decision) counts."""
    return np.bincount(one.truth * classes + one.decision, minlength=classes**2).reshape(classes, classes)
