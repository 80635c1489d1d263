"""Bokeh's parts of the page one by one; which change calls which function of page.js."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, takewhile
from typing import Any

import matplotlib
import numpy as np
from bokeh.models import (
    CDSView,
    ColumnDataSource,
    CustomJS,
    IndexFilter,
    InlineStyleSheet,
    PanTool,
    Range1d,
    WheelZoomTool,
)
from bokeh.models.widgets.groups import RadioButtonGroup
from bokeh.models.widgets.inputs import Select, TextInput
from bokeh.models.widgets.markups import Div
from bokeh.models.widgets.sliders import Slider
from bokeh.models.widgets.tables import DataTable, HTMLTemplateFormatter, NumberFormatter, TableColumn
from bokeh.plotting import figure

LAYERS = ("attention", "evidence", "attribution", "jigsaw")
PALETTES = ("viridis", "magma", "inferno", "cividis", "RdBu_r", "PuOr_r", "BrBG_r")  # page.js says which suits which
MARK = '<b style="color: <%= value === "✗" ? "#b3261e" : "#2e7d32" %>"><%- value %></b>'
NAME = '<span title="<%- value %>"><%- value %></span>'  # the whole of it under the mouse
CYAN, DARK, GOLD = "#00d0e8", "#10151c", "#ffd54a"  # stand out from tissue and from every palette
FONT = 'font: 12px/1.4 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; color: #23272e;'
INLINE = ".bk-input-group { flex-direction: row; align-items: center; gap: 6px; white-space: nowrap; }"
TABLE = """
.slick-cell { font-size: 12.5px; border-right: none !important; }
.slick-cell > div { overflow: hidden; text-overflow: ellipsis; }
.slick-header-column { font-size: 12px; font-weight: 600; }
.slick-row { cursor: pointer; }
.slick-cell.active { border-color: transparent !important; }
.slick-cell.selected { background: #d6e8f0 !important; }
"""
CARDS = f":host {{ {FONT} }}" + """
.bk-clearfix { width: 100%; }
.cards { display: grid; grid-template-columns: repeat(4, 1fr); gap: 6px; }
button { padding: 0; border: 1px solid #dfe1e5; border-radius: 5px; background: #fff; cursor: pointer; overflow: hidden;
  font: inherit; font-size: 11px; color: #6b7280; }
button:hover { border-color: #2f6f8f; }
button img { display: block; width: 100%; aspect-ratio: 1; }
img.map { image-rendering: pixelated; }
.one { display: flex; gap: 10px; align-items: flex-start; margin-bottom: 4px; }
.one img { width: 92px; height: 92px; border-radius: 5px; border: 1px solid #dfe1e5; flex: none; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; table-layout: fixed; }
td, th { padding: 0 8px 0 0; white-space: nowrap; text-align: left; overflow: hidden; text-overflow: ellipsis; }
td:first-child, th:first-child { color: #6b7280; width: 72px; }
th { font-weight: 600; }
p { margin: 0 0 3px; color: #6b7280; }
b { color: #23272e; }
"""  # fmt: skip


def js(code: str, **args: Any) -> CustomJS:
    return CustomJS(args=args, code=code)


def make_figure(
    pane: int,
    ranges: tuple[Range1d, Range1d],
    edges: ColumnDataSource,
    arrow: ColumnDataSource,
    mark: ColumnDataSource,
) -> figure:
    """A transparent figure above the pane's canvas, in level-0 pixels, y downwards: it moves, zooms and draws edges."""
    plot = figure(
        x_range=ranges[0], y_range=ranges[1], sizing_mode="stretch_both", tools="", toolbar_location=None, min_border=0,
        background_fill_alpha=0, border_fill_alpha=0, outline_line_color=None,
    )  # fmt: skip
    plot.stylesheets = [
        InlineStyleSheet(css=".bk-Canvas { --highlight-color: transparent; }")
    ]  # no dots around a click
    plot.axis.visible = False
    plot.grid.visible = False
    wheel = WheelZoomTool(maintain_focus=False)
    plot.add_tools(PanTool(), wheel)
    plot.toolbar.active_scroll = wheel
    ends: dict[str, Any] = {"x0": "x0", "y0": "y0", "x1": "x1", "y1": "y1"}
    plot.segment(**ends, source=edges, line_color=CYAN, line_alpha="alpha", line_width="width")
    plot.scatter("x1", "y1", source=edges, size="size", fill_color=CYAN, fill_alpha="alpha", line_color=DARK)
    for colour, width in ((DARK, 5), (CYAN, 2.5)):
        plot.rect("x", "y", "edge", "edge", source=mark, fill_color=None, line_color=colour, line_width=width)
    for colour, width in ((DARK, 5), (GOLD, 3)):
        plot.segment(**ends, source=arrow, line_color=colour, line_width=width)
    plot.scatter("x1", "y1", source=arrow, size=11, fill_color=GOLD, line_color=DARK)
    plot.js_on_event("mousemove", js(f"jigsawmil.hover({pane}, cb_obj.x, cb_obj.y)"))
    plot.js_on_event("mouseleave", js("jigsawmil.leave()"))
    plot.js_on_event("tap", js(f"jigsawmil.tap({pane}, cb_obj.x, cb_obj.y)"))
    return plot


SPREAD_WIDTH = 72  # pixels of the column, title and sign of sorting included


@dataclass(frozen=True)
class Widths:
    """Of the columns of the table of slides, in pixels: as wide as the names, up to the length of a TCGA slide's, and
    as far as is needed to tell one from another."""

    slide: int
    label: int

    @classmethod
    def of(cls, slides: Iterable[str], labels: Iterable[str]) -> "Widths":
        names = list(slides)
        return cls(slide=_width(names, 98, min(max(208, _pixels(_telling(names))), 400)), label=_width(labels, 78, 96))

    @property
    def panel(self) -> int:
        """Of the list in which the table stands."""
        return 94 + self.slide + 2 * self.label


def _width(names: Iterable[str], least: int, most: int) -> int:
    return min(most, max(least, _pixels(max(map(len, names), default=0))))


def _pixels(letters: int) -> int:
    return 16 + round(7.4 * letters)


def _telling(names: Iterable[str]) -> int:
    """How many letters of each name have to be seen so that no two look alike, and some for the mark of omission."""
    shared = (
        sum(1 for _ in takewhile(lambda ends: ends[0] == ends[1], zip(*pair, strict=False)))
        for pair in pairwise(sorted(set(names)))
    )
    return 4 + max(shared, default=0)


def make_table(source: ColumnDataSource, rows: IndexFilter, widths: Widths, *, spread: bool) -> DataTable:
    """The slides; a field of a cell is text, never markup. spread: with how far an ensemble's members disagree."""
    named = HTMLTemplateFormatter(template=NAME)
    two_digits = NumberFormatter(format="0.00", nan_format="–")
    columns = [
        TableColumn(field="slide", title="slide", width=widths.slide, formatter=named),
        TableColumn(field="label", title="label", width=widths.label, formatter=named),
        TableColumn(field="predicted", title="predicted", width=widths.label, formatter=named),
        TableColumn(field="p", title="p", width=40, formatter=two_digits),
        *[TableColumn(field="spread", title="spread", width=SPREAD_WIDTH, formatter=two_digits)] * spread,
        TableColumn(field="mark", title="", width=24, formatter=HTMLTemplateFormatter(template=MARK), sortable=False),
    ]
    return DataTable(
        source=source, columns=columns, view=CDSView(filter=rows), index_position=None, row_height=25,
        autosize_mode="none", sizing_mode="stretch_both", stylesheets=[InlineStyleSheet(css=TABLE)],
        reorderable=False,
    )  # fmt: skip


def make_search(source: ColumnDataSource, rows: IndexFilter) -> TextInput:
    search = TextInput(placeholder="Search: slide, patient, label, right, wrong", sizing_mode="stretch_width")
    search.js_on_change("value_input", js("jigsawmil.search(cb_obj.value_input, table, rows)", table=source, rows=rows))
    return search


def make_select(title: str, options: list[Any], width: int) -> Select:
    return Select(
        title=title, value=options[0], options=options, width=width, stylesheets=[InlineStyleSheet(css=INLINE)]
    )


def make_controls(opacity: float) -> tuple[RadioButtonGroup, Slider, Slider, Select]:
    """Layer, opacity, threshold, colours: all of them act in the browser alone."""
    names: list[Any] = [*PALETTES[:4]]
    wide: dict[str, Any] = {"sizing_mode": "stretch_width"}
    narrow: Any = InlineStyleSheet(css=".bk-btn { padding: 6px 5px; font-size: 12px; }")  # four in the width of a panel
    layer = RadioButtonGroup(name="layer", labels=list(LAYERS), active=0, stylesheets=[narrow], **wide)
    layer.js_on_change("active", js("jigsawmil.layer(cb_obj.labels[cb_obj.active])"))
    alpha = Slider(name="opacity", title="opacity", start=0, end=1, step=0.01, value=opacity, **wide)
    alpha.js_on_change("value", js("jigsawmil.opacity(cb_obj.value)"))
    threshold = Slider(name="threshold", title="hide the lowest, %", start=0, end=99, step=1, value=0, **wide)
    threshold.js_on_change("value", js("jigsawmil.threshold(cb_obj.value)"))
    colours = Select(name="colours", title="colours", value=PALETTES[0], options=names, **wide)
    colours.stylesheets = [InlineStyleSheet(css=INLINE)]
    colours.js_on_change("value", js("jigsawmil.colours(cb_obj.value)"))
    return layer, alpha, threshold, colours


def make_cards() -> Div:
    return Div(sizing_mode="stretch_width", stylesheets=[InlineStyleSheet(css=CARDS)])


@cache
def palettes() -> dict[str, list[int]]:
    """256 colours each, as 0xRRGGBB."""
    tone = np.arange(256)
    found = {}
    for name in PALETTES:
        rgb = matplotlib.colormaps[name](tone, bytes=True)[:, :3].astype(int)
        found[name] = [int(value) for value in rgb @ (1 << 16, 1 << 8, 1)]
    return found
