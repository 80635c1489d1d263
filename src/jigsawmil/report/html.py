"""HTML by construction: text is escaped unless it is HTML already, so that a slide may be called <b>."""

from base64 import b64encode
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape

from matplotlib.figure import Figure

from ..drawing import image
from .tables import Column, Table

EMPTY = ("img", "meta")  # elements without an end


class Html(str):
    """Text that is HTML already."""


def tag(name: str, /, *children: str, **attributes: str) -> Html:
    """`tag("p", "a < b", class_="note")`: children that are not Html are escaped."""
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    inner = join(children)
    return Html(f"<{name}{given}>" if name in EMPTY else f"<{name}{given}>{inner}</{name}>")


def join(children: Iterable[str], between: str = "") -> Html:
    return Html(between.join(child if isinstance(child, Html) else escape(child) for child in children))


def paragraphs(lines: Iterable[str], class_: str = "") -> Html:
    attributes = {"class_": class_} if class_ else {}
    return join((tag("p", line, **attributes) for line in lines), "\n")


def listed(items: Iterable[str]) -> Html:
    return tag("ul", *(tag("li", item) for item in items))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1, class_: str = "") -> Html:
    """names: how many of the first columns are text; the others are figures and stand right-aligned."""
    head = tag("thead", tag("tr", *(tag("th", cell, **_kind(i, names)) for i, cell in enumerate(header))))
    head = head if any(header) else Html()
    body = [tag("tr", *(tag("td", cell, **_kind(i, names)) for i, cell in enumerate(row))) for row in rows]
    whole = tag("table", head, tag("tbody", *body), **({"class_": class_} if class_ else {}))
    return tag("div", whole, class_="wide")  # on a small screen it scrolls by itself


def figures(shown: Table, marks: Mapping[str, Html], without: Container[str] = ()) -> Html:
    """A table of results with its notes. marks: put before a name, such as a variant's colour.

    without: headers of columns that are left out.
    """
    kept = [(column.header.replace("\n", " "), column) for column in shown.columns]
    kept = [(header, column) for header, column in kept if header not in without]
    rows = zip(*(_cells(column, marks) for _, column in kept), strict=True)
    notes = tag("p", " ".join(shown.notes), class_="note") if shown.notes else Html()
    names = sum(column.name for _, column in kept)
    return join([table([header for header, _ in kept], rows, names), notes], "\n")


def picture(drawn: Figure | bytes, alt: str, caption: str = "") -> Html:
    """A figure as a picture inside the page: SVG, so that it prints sharply; bytes are a PNG."""
    kind, data = ("png", drawn) if isinstance(drawn, bytes) else ("svg+xml", image(drawn, "svg"))
    source = f"data:image/{kind};base64,{b64encode(data).decode()}"
    below = [tag("figcaption", caption)] if caption else []
    return tag("figure", tag("img", src=source, alt=alt), *below)


def _cells(column: Column, marks: Mapping[str, Html]) -> list[Html]:
    bold = column.bold or (False,) * len(column.cells)
    return [
        tag("b", cell) if strong else join([marks.get(cell, Html()), join(cell.split("\n"), "<br>")])
        for cell, strong in zip(column.cells, bold, strict=True)
    ]


def _kind(column: int, names: int) -> dict[str, str]:
    return {"class_": "name"} if column < names else {}
