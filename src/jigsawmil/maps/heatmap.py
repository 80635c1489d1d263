"""One slide as a model sees it: attention, evidence, attribution, jigsaw and a patch's neighbours, over the slide or
its lattice."""

from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any, Literal, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import ScalarFormatter

from ..drawing import own_style, save
from ..slides.slide import Slide
from ..tasks import get_task
from .geometry import Canvas, Floats, Squares, blank, blend, canvas_around, check_slide, squares_of
from .patch_maps import NO_EVIDENCE, Ints, PatchMaps
from .values import colour_limit, percentiles

ATTENTION, EVIDENCE, DISTANCE = "viridis", "RdBu_r", "cividis"
OPACITY = 0.6  # over a slide; without one there is nothing to see through to
CHOSEN = "#D55E00"
ARROWS = 20  # along the longer side: 12,050 of them would be a black blot


class Scale(NamedTuple):
    """What a colour means."""

    colours: str
    low: float
    high: float
    words: str
    extend: Literal["neither", "both"] = "neither"

    @property
    def mappable(self) -> ScalarMappable:
        return ScalarMappable(Normalize(self.low, self.high), matplotlib.colormaps[self.colours])


def write_heatmap(maps: PatchMaps, path: str | Path, **options: Any) -> None:
    """The figure as .png, .pdf or .svg; options as for `heatmap_figure`.

    Example: `write_heatmap(maps, "map.png")`
    """
    with own_style():
        save(heatmap_figure(maps, **options), Path(path))


def heatmap_figure(
    maps: PatchMaps,
    *,
    slide: Slide | None = None,
    features: Path | None = None,
    patch: int | None = None,
    model: str = "",
) -> Figure:
    """The panels that these maps have: attention, evidence, attribution, jigsaw, neighbours.

    slide: drawn below; must be the one of the features (see `check_slide`). features: the file of the maps' bag.
    patch: whose neighbours to show; None: the most attended, or the one of the strongest evidence without attention.
    model: which one it is, in words, for the title.
    """
    squares = squares_of(maps.bag) if slide is None else check_slide(maps.bag, slide, features)
    canvas, opacity = canvas_around(squares, slide), 1.0 if slide is None else OPACITY
    panels = [partial(_attention, maps=maps)] if maps.shows_attention else []
    if maps.evidence is not None:
        panels.append(partial(_signed, maps=maps, name="evidence", values=maps.evidence_for()))
    if maps.attribution is not None:
        panels.append(partial(_signed, maps=maps, name="input attribution", values=maps.attribution_for()))
    if maps.jigsaw is not None:
        panels.append(partial(_jigsaw, maps=maps))
    chosen = strongest(maps) if patch is None else patch
    near = maps.neighbours(chosen)

    height, width = canvas.picture.shape[:2]
    ratio = float(np.clip(height / width, 0.4, 1.8))
    count = len(panels) + (near is not None)
    columns = min(2, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(5.4 * columns, (4.3 * ratio + 0.4) * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, draw in zip(axes, panels, strict=False):
        _colour_bar(figure, ax, draw(ax, canvas, squares, opacity))
        if near is not None:
            ax.plot(*(squares.corners[chosen] + squares.edge / 2), "o", mfc="none", mec=CHOSEN, mew=1.5, ms=9)
    if near is not None:
        last = axes[count - 1]
        _colour_bar(figure, last, _neighbours(last, squares, slide, opacity, height / width, chosen, *near))
    for spare in axes[count:]:
        spare.remove()
    figure.suptitle(_title(maps, model), x=0.01, ha="left", fontsize=10)
    return figure


def strongest(maps: PatchMaps) -> int:
    """The patch most attended to; of the strongest evidence where all are attended to alike."""
    return int((maps.attention if maps.shows_attention else np.abs(maps.signed_for())).argmax())


def paint(canvas: Canvas, squares: Squares, values: Floats, scale: Scale, opacity: float) -> Canvas:
    """The canvas with patches coloured; transparent where there is none."""
    image = canvas.values(squares, values)
    colours = scale.mappable.to_rgba(np.ma.masked_invalid(image))  # masked: alpha 0
    return canvas._replace(picture=blend(canvas.picture, colours, opacity))


def _attention(ax: Axes, canvas: Canvas, squares: Squares, opacity: float, maps: PatchMaps) -> Scale:
    scale = Scale(ATTENTION, 0, 100, "percentile within the slide")
    _show(ax, paint(canvas, squares, percentiles(maps.attention), scale, opacity), "attention")
    return scale


def _signed(
    ax: Axes, canvas: Canvas, squares: Squares, opacity: float, maps: PatchMaps, name: str, values: Floats
) -> Scale:
    """Symmetric around 0, so that white means no evidence."""
    limit = colour_limit(values)
    other = get_task(maps.task).against(maps.classes.index(maps.shown_class), maps.classes)
    scale = Scale(EVIDENCE, -limit, limit, "share of the logit", "both")
    _show(ax, paint(canvas, squares, values, scale, opacity), f"{name}: red for {maps.shown_class}, blue {other}")
    return scale


def _jigsaw(ax: Axes, canvas: Canvas, squares: Squares, opacity: float, maps: PatchMaps) -> Scale:
    """Colour: how far from its place the model puts a patch. Arrows: whereto, mean over the patches of a cell."""
    assert maps.jigsaw is not None
    span = float(np.ptp(squares.corners, axis=0).max()) or 1.0
    moved = (maps.jigsaw - maps.coords) * (squares.edge / squares_of(maps.bag).edge)  # in the unit of the squares
    distance = np.linalg.norm(moved, axis=1) / span * 100
    scale = Scale(DISTANCE, 0, max(float(distance.max()), 1.0), "distance, % of the longer side")
    _show(
        ax,
        paint(canvas, squares, distance, scale, opacity),
        "jigsaw: distance and direction from each patch to its predicted place",
    )
    at, mean = mean_moves(squares.corners + squares.edge / 2, moved, span / ARROWS)
    longest = float(np.linalg.norm(mean, axis=1).max()) or 1.0
    mean = mean * (1.4 * span / ARROWS / longest)  # whereto, and how far beside others; full lengths would cross
    style: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.0035}
    ax.quiver(*at.T, *mean.T, color="white", edgecolor="black", linewidth=0.4, **style)
    return scale


def mean_moves(centres: Floats, moved: Floats, cell: float) -> tuple[Floats, Floats]:
    """Mean place and mean displacement, (cell, 2) each, of the patches in every square cell that has any."""
    index = np.floor((centres - centres.min(axis=0)) / cell).astype(int)
    _, which, count = np.unique(index, axis=0, return_inverse=True, return_counts=True)
    which = which.ravel()

    def mean(values: Floats) -> Floats:
        return np.stack([np.bincount(which, column) for column in values.T], axis=1) / count[:, None]

    return mean(centres), mean(moved)


def _neighbours(
    ax: Axes,
    squares: Squares,
    slide: Slide | None,
    opacity: float,
    ratio: float,
    chosen: int,
    indices: Ints,
    weights: Floats,
) -> Scale:
    """The surroundings of one patch, enlarged: what the last graph layer takes from each neighbour."""
    near = Squares(squares.corners[indices], squares.edge)
    canvas = _close_up(near, slide, ratio)
    if slide is None:  # where other patches lie
        canvas = paint(canvas, squares, np.ones(len(squares.corners)), Scale("Greys", 0, 4, ""), 1.0)
    scale = Scale(ATTENTION, 0, float(weights.max()) * 100, "attention to the neighbour, %")
    _show(ax, paint(canvas, near, weights * 100, scale, opacity), f"neighbours that patch {chosen} attends to")
    x, y = squares.corners[chosen]
    ax.add_patch(Rectangle((x, y), squares.edge, squares.edge, fill=False, edgecolor=CHOSEN, linewidth=1.5))
    return scale


def _close_up(near: Squares, slide: Slide | None, ratio: float, pixels: int = 700) -> Canvas:
    """Some patches with a margin of one, in a frame of height / width = ratio, so that the panels are alike."""
    width, height = near.high - near.low + 2 * near.edge
    width, height = max(width, height / ratio), max(height, width * ratio)
    longer = max(width, height)
    scale = longer / pixels
    x, y = (near.low + near.high - (width, height)) / 2
    shape = round(height / scale), round(width / scale)
    picture = blank(shape) if slide is None else slide.read(x, y, longer, pixels)[: shape[0], : shape[1]]
    return Canvas(picture, (float(x), float(y)), scale)


def _show(ax: Axes, canvas: Canvas, title: str) -> None:
    ax.imshow(canvas.picture, extent=canvas.extent, interpolation="antialiased")
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.set_title(fill(title, 60))
    ax.spines[:].set_visible(False)
    ax.autoscale(False)


def _colour_bar(figure: Figure, ax: Axes, scale: Scale) -> None:
    figures = ScalarFormatter()
    figures.set_powerlimits((-2, 4))  # 4 and "1e-3" above, not 0.004
    bar = figure.colorbar(scale.mappable, ax=ax, shrink=0.75, aspect=26, extend=scale.extend, format=figures)
    bar.set_label(scale.words, fontsize=8)
    bar.ax.tick_params(labelsize=8)


def _title(maps: PatchMaps, model: str) -> str:
    found = get_task(maps.task).at(maps.threshold).title(maps.probabilities, maps.classes)
    whose = "" if maps.name == maps.bag.slide_id else f" of patient {maps.name}"
    first = f"{maps.bag.slide_id}{whose}: {found}"
    second = f"{len(maps):,} patches; {model}".rstrip("; ")
    missing = [fill(NO_EVIDENCE, 60)] if maps.evidence is None else []
    return "\n".join([fill(first, 90), fill(second, 110), *missing])
