"""ROC and precision-recall curves of out-of-fold predictions."""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...drawing import GREY, Dash, Styles, own_style, save
from ...statistics.bands import RESAMPLES, Band, Kind, band, curve
from ...statistics.intervals import delong_interval, resampled_patients
from ...statistics.metrics import auc, average_precision
from ...study.predictions import Pooled, pool
from .panels import TITLE, at_bottom, at_left, panels
from .styles import method_styles

AXES = {"roc": ("false positive rate", "true positive rate"), "pr": ("recall", "precision")}


def roc_plot(predictions: pd.DataFrame, classes: Sequence[str], path: str | Path, task: str | None = None) -> None:
    """Pooled out-of-fold ROC curves, one per method, with one panel per class that the task has a curve of."""
    with own_style():
        save(roc_figure(predictions, classes, task), Path(path))


def roc_figure(predictions: pd.DataFrame, classes: Sequence[str], task: str | None = None) -> Figure:
    pooled = pool(predictions, classes, task)
    styles = method_styles(pooled)
    slides = {method: len(one.cases) for method, one in pooled.items()}
    most = max(slides.values())  # a method some of whose folds failed has fewer
    shown = {m: m if slides[m] == most else f"{m} ({slides[m]} of {most} slides)" for m in styles}
    longest = max(map(len, shown.values()))
    repeated = any(one.repeated for one in pooled.values())
    titles = curves_of(pooled, classes)
    columns = min(3, len(titles))
    rows = ceil(len(titles) / columns)
    # a legend of that many characters in a monospaced font of 8 points, below the curves that it would hide
    width, legend = max(4.9, 0.068 * (longest + 24) + 0.8), 0.17 * len(styles) + 0.35
    figure = Figure(figsize=(width * columns, (4.5 + legend) * rows), layout="constrained")
    axes = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=[4.5, legend] * rows)
    for ax in axes[1::2].ravel():
        ax.set_axis_off()
    for spare in axes[::2].ravel()[len(titles) :]:
        spare.remove()
    for ax, below, (index, title) in zip(axes[::2].flat, axes[1::2].flat, titles.items(), strict=False):
        for method, (colour, dash) in styles.items():
            one = pooled[method]
            positive, p = one.truth == index, one.probability[:, index]
            area, low, high = delong_interval(positive, p, clusters=one.patients)
            stated = f"{area:.3f}" if one.repeated else f"{area:.3f} [{low:.3f}, {high:.3f}]"
            stated = "a class is missing" if np.isnan(area) else stated
            label = f"{shown[method]:<{longest}}  {stated}"
            points = curve(positive, p, "roc")
            ax.plot(points.x, points.y, color=colour, linestyle=dash, linewidth=1.6, label=label)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
        ax.set(title=fill(title, 58), xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        below.legend(
            handles=ax.get_lines()[:-1],
            title="AUROC of the mean probabilities" if repeated else "pooled out-of-fold AUROC [95 % interval]",
            title_fontsize=8,
            prop={"family": "monospace", "size": 8},
            loc="upper center",
            borderaxespad=0,
        )
    return figure


def curves_of(pooled: Mapping[str, Pooled], classes: Sequence[str]) -> dict[int, str]:
    """Index of each class with a curve of its own -> title, as the task has them."""
    return next(iter(pooled.values())).task.curves(classes)


def band_figure(
    pooled: Mapping[str, Pooled],
    classes: Sequence[str],
    kind: Kind,
    best: str,
    styles: Styles,
    rng: np.random.Generator,
) -> Figure:
    """ROC or precision-recall curves with pointwise 95 % bands over resampled patients.

    If the task has one curve: one panel per method with its band, the other methods in grey behind it. Else one panel
    per curve with those of all methods and the band of the best.
    """
    curves = curves_of(pooled, classes)
    if len(curves) == 1:
        (index,) = curves
        figure, axes = panels(len(pooled), height=2.95)
        for i, (ax, method) in enumerate(zip(axes, pooled, strict=True)):
            for other in pooled:
                _line(ax, pooled[other], index, kind, "0.82", "-", 0.9)
            shade = _band(ax, pooled[method], index, kind, styles[method][0], rng)
            _line(ax, pooled[method], index, kind, styles[method][0], "-", 1.8)
            ax.set_title(f"{fill(method, TITLE)}\n{_area(pooled[method], index, kind, shade)}")
            _frame(ax, i, len(axes), kind, chance=float((pooled[method].truth == index).mean()))
        return figure
    one = pooled[best]
    figure, axes = panels(len(curves), height=2.75, legend=0.2 * ceil(len(pooled) / 3) + 0.1)
    for i, (ax, (index, title)) in enumerate(zip(axes, curves.items(), strict=True)):
        for method in pooled:
            _line(ax, pooled[method], index, kind, *styles[method], 1.8 if method == best else 1.0)
        _band(ax, one, index, kind, styles[best][0], rng)
        ax.set_title(fill(title, TITLE))
        _frame(ax, i, len(axes), kind, chance=float((one.truth == index).mean()))
    handles = [Line2D([], [], color=c, linestyle=d, linewidth=2, label=m) for m in pooled for c, d in (styles[m],)]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)))
    return figure


def _line(ax: Axes, one: Pooled, index: int, kind: Kind, colour: str, dash: Dash, width: float) -> None:
    positive = one.truth == index
    if positive.any() and not positive.all():  # else a class is missing
        points = curve(positive, one.probability[:, index], kind)
        steps = "steps-pre" if kind == "pr" else "default"
        ax.plot(points.x, points.y, color=colour, linestyle=dash, linewidth=width, drawstyle=steps)


def _band(ax: Axes, one: Pooled, index: int, kind: Kind, colour: str, rng: np.random.Generator) -> Band | None:
    positive = one.truth == index
    if positive.all() or not positive.any():
        return None
    weight = resampled_patients(one.truth, one.patients, rng, RESAMPLES)
    shade = band(positive, one.probability[:, index], weight, kind)
    ax.fill_between(shade.x, shade.low, shade.high, color=colour, alpha=0.2, linewidth=0)
    return shade


def _area(one: Pooled, index: int, kind: Kind, shade: Band | None) -> str:
    positive, p = one.truth == index, one.probability[:, index]
    if shade is None:
        return "a class is missing"
    if one.repeated:
        return f"{auc(positive, p) if kind == 'roc' else average_precision(positive, p):.3f}, of mean probabilities"
    if kind == "roc":
        _, low, high = delong_interval(positive, p, clusters=one.patients)
        return f"AUROC {auc(positive, p):.3f} [{low:.3f}, {high:.3f}]"
    return f"AUPRC {average_precision(positive, p):.3f}" + (
        "" if shade.empty else f" [{shade.area[0]:.3f}, {shade.area[1]:.3f}]"
    )


def _frame(ax: Axes, index: int, number: int, kind: Kind, chance: float) -> None:
    expected = [0, 1] if kind == "roc" else [chance, chance]
    ax.plot([0, 1], expected, color=GREY, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1), aspect="equal")
    ax.set_xlabel(AXES[kind][0] if at_bottom(index, number) else "")
    ax.set_ylabel(AXES[kind][1] if at_left(index) else "")
