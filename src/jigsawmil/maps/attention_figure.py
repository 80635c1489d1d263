"""The attention figure: every patch of a slide as a point, coloured by the attention weight itself, and a reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from ..bags.spacing import spacing
from ..drawing import GREY
from ..errors import StudyError
from ..statistics.metrics import Floats
from ..synthetic.planted import Planted
from .pictures import check_map, frame, size_of
from .values import attends

PANEL = 2.5  # inches across
SMALL = 6  # printer's points across
GAP = 0.3  # between panels
BELOW = 0.98  # a panel: its colour bar
WRAP = 36  # characters of a line above a panel
ACROSS = 6  # panels side by side; more of them take another line
REACH = 1000  # the colours of a panel end at its largest weight / REACH, so that tiny weights do not take the scale
TYPES = ("#D55E00", "#0072B2", "#C9C9C9", "#8FBC8F", "#E8C27A", "#A79BC7")  # planted types: those that matter first
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, eq=False)
class Panel:
    """What one variant made of the slide. attention: (patch,); None if there is none, and `words` say why."""

    variant: str
    words: str
    attention: Floats | None


@dataclass(frozen=True, eq=False, kw_only=True)
class SlideRow:
    """One test slide. label: its true class. coords: (patch, 2).

    reference: an image file, the planted truth, or words that say what is missing; None leaves the column out.
    """

    slide_id: str
    label: str
    fold: int
    title: str
    coords: Floats
    panels: tuple[Panel, ...]
    reference: Path | Planted | str | None = None


def attention_figure(rows: Sequence[SlideRow]) -> Figure:
    """One row per slide, one column per variant, the reference last. Every panel has its own logarithmic scale, for the
    weights of variants differ by orders of magnitude; `mean` marks the mean weight of the slide."""
    if not rows:
        raise StudyError("No slide to show; expected at least one. Run the study with attention = true.")
    for row in rows:
        for panel in row.panels:
            if panel.attention is not None:
                check_map(f"{row.slide_id}, {panel.variant}", row.coords, panel.attention)
    columns = max(len(row.panels) + (row.reference is not None) for row in rows)
    across = min(columns, ACROSS)
    lines = ceil(columns / across)
    titles = [_title(panel.variant, panel.words) for row in rows for panel in row.panels]
    above = 0.16 * max(2, *(title.count("\n") + 1 for title in titles)) + 0.08  # inches: the titles of panels
    headings = [fill(row.title, 30 * across) for row in rows]
    heads = [0.18 * (heading.count("\n") + 1) + 0.04 for heading in headings]
    ratios = [float(np.clip(np.divide(*size_of(row.coords)[::-1]), 0.35, 1.6)) for row in rows]
    heights = [
        head + lines * (above + PANEL * ratio + BELOW) + GAP / 2 for head, ratio in zip(heads, ratios, strict=True)
    ]
    width, height = across * (PANEL + GAP) + GAP, sum(heights) + GAP / 2
    figure = Figure(figsize=(width, height))

    def axes(x: float, y: float, wide: float, high: float) -> Axes:
        """In inches from the top left."""
        return figure.add_axes((x / width, 1 - (y + high) / height, wide / width, high / height))

    for i, row in enumerate(rows):
        top = GAP / 2 + sum(heights[:i])
        figure.text(GAP / width, 1 - top / height, headings[i], va="top", fontweight="bold", fontsize=10)
        high = PANEL * ratios[i]
        for j, part in enumerate([*row.panels, *([] if row.reference is None else [row.reference])]):
            x = GAP + j % across * (PANEL + GAP)
            y = top + heads[i] + j // across * (above + high + BELOW) + above
            ax = axes(x, y, PANEL, high)
            if not isinstance(part, Path):
                frame(ax, row.coords, None, ratios[i])
            if isinstance(part, Panel):
                _draw_panel(ax, row.coords, part, partial(axes, x, y + high + 0.22, PANEL, 0.1))
            else:
                _draw_reference(ax, row.coords, part)
    return figure


def _title(*lines: str) -> str:
    return "\n".join(fill(line, WRAP) for line in lines)


def _draw_panel(ax: Axes, coords: Floats, panel: Panel, bar_axes: Callable[[], Axes]) -> None:
    ax.set_title(_title(panel.variant, panel.words), fontsize=9)
    a = panel.attention
    if a is None:
        return
    if not attends(a):
        _points(ax, coords, np.arange(len(a))).set_facecolor(GREY)
        ax.set_xlabel(f"every patch has the weight {_number(float(a[0]))}", fontsize=8)
        return
    top = float(a.max())
    low = max(float(a.min()), top / REACH)
    order = np.argsort(a, kind="stable")  # where points overlap, the one looked at lies on top
    points = _points(ax, coords, order)
    points.set(array=a[order], norm=LogNorm(low, top), cmap="viridis")
    below = a.min() < low
    bar = ax.figure.colorbar(points, cax=bar_axes(), orientation="horizontal", extend="min" if below else "neither")
    ticks = [low, (low * top) ** 0.5, top]
    bar.set_ticks(ticks, labels=[_number(tick) for tick in ticks])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=8)
    first, _, last = bar.ax.get_xticklabels()
    first.set_horizontalalignment("left")  # so that no label reaches into the next panel
    last.set_horizontalalignment("right")
    bar.set_label(f"attention weight; half of the attention\non {half(a):,} of {len(a):,} patches", fontsize=8)
    if low <= (mean := float(a.mean(dtype=float))) <= top:
        bar.ax.axvline(mean, color="white", linewidth=1.2)
        bar.ax.annotate(
            "mean", (mean, 1), (0, 1), xycoords=("data", "axes fraction"), textcoords="offset points",
            ha="center", va="bottom", fontsize=7,
        )  # fmt: skip


def _draw_reference(ax: Axes, coords: Floats, reference: Path | Planted | str) -> None:
    if isinstance(reference, Planted):
        ax.set_title(_title("reference", "planted patch types of this slide"), fontsize=9)
        colours = [TYPES[i % len(TYPES)] for i in range(len(reference.names))]
        _points(ax, coords, np.arange(len(coords))).set_facecolor([colours[t] for t in reference.types])
        shown = sorted(set(reference.types.tolist()))
        keys = [Line2D([], [], marker="o", linestyle="", color=colours[t], label=reference.names[t]) for t in shown]
        ax.legend(
            handles=keys, ncols=3, fontsize=8, handletextpad=0.1, columnspacing=1.0, loc="upper center",
            bbox_to_anchor=(0.5, 0.0), borderaxespad=0.5,
        )  # fmt: skip
    elif isinstance(reference, Path):
        ax.set_title(_title("reference", reference.name), fontsize=9)
        ax.imshow(imread(reference), cmap="gray")
        ax.set_axis_off()
        ax.set_anchor("NW")
    else:
        ax.set_title(_title("reference", reference), fontsize=9)


def _points(ax: Axes, coords: Floats, order: NDArray[np.intp]) -> EllipseCollection:
    """A disc per patch, in the order of drawing. Large ones touch; small ones overlap, or gaps would pale them."""
    edge = spacing(coords)
    small = edge / abs(np.diff(ax.get_xlim())[0]) * PANEL * 72 < SMALL
    wide = edge * (2**0.5 if small else 1)
    points = EllipseCollection(
        wide, wide, 0, units="xy", offsets=coords[order] + edge / 2, offset_transform=ax.transData, edgecolors="none",
        rasterized=True,
    )  # fmt: skip
    ax.add_collection(points)
    return points


def half(attention: Floats) -> int:
    """The fewest patches that hold half of the attention."""
    held = np.cumsum(np.sort(attention.astype(float))[::-1])
    return int(np.searchsorted(held, held[-1] / 2 * (1 - 1e-6))) + 1


def _number(value: float) -> str:
    """Two digits: 0.012, or 8.3·10⁻⁵ if it is small."""
    if value >= 1e-3:
        return f"{value:#.2g}"
    digits, power = f"{value:.1e}".split("e")
    return f"{digits}·10{str(int(power)).translate(SUPERSCRIPTS)}"
