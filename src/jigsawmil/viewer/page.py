"""The page: its template and scripts, and the models through which a session speaks with it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bokeh.core.properties import Any as Anything
from bokeh.core.properties import Bool, Dict, Int, String
from bokeh.document import Document
from bokeh.layouts import column, row
from bokeh.model import DataModel
from bokeh.models import ColumnDataSource, IndexFilter, Range1d
from bokeh.models.widgets.inputs import Select, TextInput
from bokeh.models.widgets.markups import Div
from jinja2 import Template

from .widgets import (
    SPREAD_WIDTH,
    Widths,
    js,
    make_cards,
    make_controls,
    make_figure,
    make_search,
    make_select,
    make_table,
    palettes,
)

HERE = Path(__file__).parent
SCRIPTS = ("lattice.js", "stage.js", "page.js")
RANKINGS = ("most attended", "least attended", "most for", "most against", "largest jigsaw error")
EDGES, EDGE_LOOKS = ("x0", "y0", "x1", "y1"), ("alpha", "width", "size")
Two = tuple[ColumnDataSource, ColumnDataSource]


class PageState(DataModel):
    """What page and server tell each other. ready: a browser has opened the page, not merely asked for it.
    patch: the chosen one, -1 for none."""

    ready: Any = Bool(default=False)
    patch: Any = Int(default=-1)
    notice: Any = String(default="")
    busy: Any = String(default="Opening the run ...")
    headline: Any = String(default="")


class Pane(DataModel):
    """What a pane shows beside its columns; empty where it shows nothing."""

    info: Any = Dict(String, Anything, default={})


@dataclass(frozen=True)
class Page:
    """The models that a session reads and changes; two of those that belong to a pane."""

    state: PageState
    panes: tuple[Pane, Pane]
    sources: Two  # a row a patch
    edges: Two  # from the chosen patch to its neighbours
    arrows: Two  # from the chosen patch to where the jigsaw puts it
    mark: ColumnDataSource  # the chosen patch
    table: ColumnDataSource
    rows: IndexFilter  # of the table, that a search has left
    search: TextInput
    cohort: Select
    seed: Select
    variant: Select
    other: Select
    ranking: Select
    patch: Div
    gallery: Div


def make_page(
    document: Document,
    title: str,
    choices: dict[str, list[str]],
    opacity: float,
    widths: Widths,
    *,
    spread: bool = False,
) -> Page:
    """Fill a document. choices: what can be chosen of cohort, seed, method and other; the first is. widths: of the
    columns of the list of slides. spread: list how far the members of ensembles disagree."""
    rankings: list[Any] = [*RANKINGS]
    table, rows, mark = ColumnDataSource(), IndexFilter(indices=[]), ColumnDataSource({"x": [], "y": [], "edge": []})
    page = Page(
        state=PageState(),
        panes=(Pane(), Pane()),
        sources=(ColumnDataSource(), ColumnDataSource()),
        edges=(_lines("edges0", *EDGE_LOOKS), _lines("edges1", *EDGE_LOOKS)),
        arrows=(_lines("arrow0"), _lines("arrow1")),
        mark=mark,
        table=table,
        rows=rows,
        search=make_search(table, rows),
        cohort=make_select("cohort", choices["cohort"], 170),
        seed=make_select("seed", choices["seed"], 90),
        variant=make_select("variant", choices["variant"], 240),
        other=make_select("beside", choices["other"], 240),
        ranking=Select(value=RANKINGS[0], options=rankings, sizing_mode="stretch_width"),
        patch=make_cards(),
        gallery=make_cards(),
    )
    for select in (page.cohort, page.seed, page.other):
        select.visible = len(select.options) > 1
    _place(document, title, page, opacity, widths, spread)
    return page


def _place(document: Document, title: str, page: Page, opacity: float, widths: Widths, spread: bool) -> None:
    ranges = (
        Range1d(start=0, end=1),
        Range1d(start=1, end=0),
    )  # level-0 pixels, y downwards; shared, so that both panes move together
    figures = [make_figure(i, ranges, page.edges[i], page.arrows[i], page.mark) for i in (0, 1)]
    figures[0].tags = [page.state, *page.panes, *page.sources]  # what no part of the page refers to is not kept in step
    controls = make_controls(opacity)
    roots = {
        "choices": row(page.cohort, page.seed, page.variant, page.other, spacing=14),
        "slides": column(
            page.search, make_table(page.table, page.rows, widths, spread=spread), sizing_mode="stretch_both"
        ),
        "figure0": figures[0],
        "figure1": figures[1],
        "controls": column(*controls, sizing_mode="stretch_width"),
        "patch": page.patch,
        "gallery": column(page.ranking, page.gallery, sizing_mode="stretch_width"),
    }
    given = {
        "state": page.state, "panes": list(page.panes), "sources": list(page.sources),
        "x_range": ranges[0], "y_range": ranges[1], "opacity": controls[1], "colours": controls[3],
    }  # fmt: skip
    document.js_on_event("document_ready", js(f"jigsawmil.attach({{{', '.join(given)}}})", **given))
    for i, pane in enumerate(page.panes):
        pane.js_on_change("info", js(f"jigsawmil.receive({i})"))
    for name in ("notice", "busy", "headline"):
        page.state.js_on_change(name, js("jigsawmil.tell()"))
    with document.models.freeze():  # else Bokeh walks through all models at each root
        for name, root in roots.items():
            root.name = name
            document.add_root(root)
    document.title = f"{title} · jigsawmil"
    document.template = Template(_text("page.html"))
    style = f":root {{ --list: {widths.panel + SPREAD_WIDTH * spread}px; }}\n{_text('page.css')}"
    scripts = "\n".join([f"const PALETTES = {json.dumps(palettes())};", *map(_text, SCRIPTS)])
    document.template_variables.update(run=title, css=style, js=scripts)


def _lines(name: str, *more: str) -> ColumnDataSource:
    return ColumnDataSource({column: [] for column in (*EDGES, *more)}, name=name)


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
