"""Maps of attention: patches where they lie, coloured by how much the model looked at them."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from ..bags.spacing import spacing
from ..drawing import own_style, save
from ..errors import StudyError
from ..statistics.metrics import Floats
from .values import percentiles

AttentionMap = tuple[str, Floats, Floats, float | None]  # title, coords (N, 2), attention (N,), patch_size


def attention_maps(items: Sequence[AttentionMap], path: str | Path) -> None:
    """Patches where they lie, coloured by the percentile of their attention within the slide.

    items: (title, coords (N, 2) of top-left corners, attention (N,), patch_size in the unit of coords; None takes the
    usual distance between neighbours).
    """
    with own_style():
        save(attention_figure(items), Path(path))


def attention_figure(items: Sequence[AttentionMap]) -> Figure:
    if not items:
        raise StudyError("No slide to map; expected at least one. Name slides, or run the study with attention kept.")
    for title, coords, attention, _ in items:
        _check_map(title, coords, attention)
    sizes = [_size(coords, patch_size) for _, coords, _, patch_size in items]
    ratio = float(np.clip(np.median([high / wide for wide, high in sizes]), 0.5, 2.0))  # of all panels, so they align
    columns = len(items) if len(items) < 4 else ceil(len(items) ** 0.5)
    rows = ceil(len(items) / columns)
    figure = Figure(figsize=(3.6 * columns + 0.8, (3.5 * ratio + 0.6) * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[len(items) :]:
        spare.remove()
    for ax, (title, coords, attention, patch_size) in zip(axes, items, strict=False):
        squares = _draw(ax, coords, attention, patch_size, ratio)
        ax.set_title(fill(title, 42))
        ax.set_xlabel(f"half of the attention on {_half(attention):,} of {len(attention):,} patches", fontsize=8)
    bar = figure.colorbar(squares, ax=axes[: len(items)].tolist(), shrink=0.8, aspect=30, panchor=False)
    bar.set_label("attention percentile in the slide")
    return figure


def small_map(title: str, coords: Floats, attention: Floats, patch_size: float | None = None) -> Figure:
    """One slide without words, for a page that has its own; `title` names it in errors."""
    _check_map(title, coords, attention)
    figure = Figure(figsize=(2.4, 1.8))
    _draw(figure.add_axes((0.02, 0.02, 0.96, 0.96)), coords, attention, patch_size, 1.8 / 2.4)
    return figure


def _draw(ax: Axes, coords: Floats, attention: Floats, patch_size: float | None, ratio: float) -> PolyCollection:
    """Squares in a frame of that height to width; the whole slide lies in it, undistorted."""
    edge, size = patch_size or spacing(coords), _size(coords, patch_size)
    order = np.argsort(attention, kind="stable")  # where patches overlap, the one looked at lies on top
    corners = coords[order, None] + edge * np.array([[0, 0], [1, 0], [1, 1], [0, 1]])  # (N, 4, 2)
    # edges are not drawn and not smoothed: seams between patches would look like a pattern
    squares = PolyCollection(list(corners), edgecolors="none", antialiaseds=False, cmap="viridis", rasterized=True)
    squares.set_array(percentiles(attention)[order])
    squares.set_clim(0, 100)
    ax.add_collection(squares)
    half = np.max(size / (1, ratio)) * np.array([1, ratio]) / 2
    (left, top), (right, bottom) = (coords.min(0) + size / 2 + sign * half for sign in (-1, 1))
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])  # y runs down the slide
    ax.spines[:].set_visible(False)
    return squares


def _size(coords: Floats, patch_size: float | None) -> Floats:
    return np.asarray(np.ptp(coords, axis=0) + (patch_size or spacing(coords)))


def _check_map(title: str, coords: Floats, attention: Floats) -> None:
    n = len(attention)
    if attention.shape != (n,) or coords.shape != (n, 2) or n == 0:
        raise StudyError(
            f"{title}: coords of shape {coords.shape} and attention of shape {attention.shape}; expected (N, 2) and "
            "(N,) with at least one patch. Take both from the same slide."
        )
    if not (np.isfinite(attention).all() and np.isfinite(coords).all()):
        raise StudyError(f"{title}: attention or coords are not finite; expected numbers. Look for a diverged run.")


def _half(attention: Floats) -> int:
    """The fewest patches that hold half of the attention."""
    held = np.cumsum(np.sort(attention.astype(float))[::-1])
    return int(np.searchsorted(held, held[-1] / 2 * (1 - 1e-6))) + 1
