"""Small multiples: panels of one size in rows of three, as wide as a page."""

from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 7.2  # inches, so that letters keep their size on an A4 page
ACROSS = 3
TITLE = 24  # characters that a panel has room for


def panels(number: int, height: float = 2.75, legend: float = 0.0) -> tuple[Figure, list[Axes]]:
    """A figure with that many panels. height: of each, with its title. legend: room below all, in inches."""
    rows = ceil(number / ACROSS)
    columns = min(ACROSS, number)
    figure = Figure(figsize=(WIDTH * columns / ACROSS + 0.35 * (columns < ACROSS), rows * height + legend))
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[number:]:
        spare.remove()
    return figure, list(axes[:number])


def at_left(index: int) -> bool:
    return index % ACROSS == 0


def at_bottom(index: int, number: int) -> bool:
    """No panel lies below it."""
    return index + ACROSS >= number
