"""Small maps of attention: patches where they lie, coloured by the percentile of their attention."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from ..bags.spacing import spacing
from ..errors import StudyError
from ..statistics.metrics import Floats
from .values import percentiles


def small_map(title: str, coords: Floats, attention: Floats, patch_size: float | None = None) -> Figure:
    """One slide without words, for a page that has its own; `title` names it in errors."""
    check_map(title, coords, attention)
    figure = Figure(figsize=(2.4, 1.8))
    _draw(figure.add_axes((0.02, 0.02, 0.96, 0.96)), coords, attention, patch_size, 1.8 / 2.4)
    return figure


def _draw(ax: Axes, coords: Floats, attention: Floats, patch_size: float | None, ratio: float) -> None:
    edge = patch_size or spacing(coords)
    order = np.argsort(attention, kind="stable")  # where patches overlap, the one looked at lies on top
    corners = coords[order, None] + edge * np.array([[0, 0], [1, 0], [1, 1], [0, 1]])  # (N, 4, 2)
    # edges are not drawn and not smoothed: seams between patches would look like a pattern
    squares = PolyCollection(list(corners), edgecolors="none", antialiaseds=False, cmap="viridis", rasterized=True)
    squares.set_array(percentiles(attention)[order])
    squares.set_clim(0, 100)
    ax.add_collection(squares)
    frame(ax, coords, patch_size, ratio)


def frame(ax: Axes, coords: Floats, patch_size: float | None, ratio: float) -> None:
    """Limits of that height to width; the whole slide lies in them, undistorted."""
    size = size_of(coords, patch_size)
    half = np.max(size / (1, ratio)) * np.array([1, ratio]) / 2
    (left, top), (right, bottom) = (coords.min(0) + size / 2 + sign * half for sign in (-1, 1))
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])  # y runs down the slide
    ax.spines[:].set_visible(False)


def size_of(coords: Floats, patch_size: float | None = None) -> Floats:
    """Width and height of all patches together."""
    return np.asarray(np.ptp(coords, axis=0) + (patch_size or spacing(coords)))


def check_map(title: str, coords: Floats, attention: Floats) -> None:
    n = len(attention)
    if attention.shape != (n,) or coords.shape != (n, 2) or n == 0:
        raise StudyError(
            f"{title}: coords of shape {coords.shape} and attention of shape {attention.shape}; expected (N, 2) and "
            "(N,) with at least one patch. Take both from the same slide."
        )
    if not (np.isfinite(attention).all() and np.isfinite(coords).all()):
        raise StudyError(f"{title}: attention or coords are not finite; expected numbers. Look for a diverged run.")
