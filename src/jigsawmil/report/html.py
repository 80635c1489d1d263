"""HTML by construction: text is escaped unless it is HTML already, so that a slide may be called <b>."""

from base64 import b64encode
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape

from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text

from ..drawing import image

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


def terminal_table(shown: Table, marks: Mapping[str, Html], without: Container[str] = ()) -> Html:
    """A table made for the terminal with its notes. marks: put before a name, such as a method's colour.

    without: headers of columns that are left out.
    """
    headers = [str(column.header).replace("\n", " ") for column in shown.columns]
    kept = [(name, c) for name, c in zip(headers, shown.columns, strict=True) if name not in without]
    names = sum(column.justify != "right" for _, column in kept)
    rows = [[_cell(cell, marks) for cell in row] for row in zip(*(c.cells for _, c in kept), strict=True)]
    notes = tag("p", str(shown.caption), class_="note") if shown.caption else Html()
    header = [name for name, _ in kept]
    return join([table(header, rows, names), notes], "\n")


def picture(drawn: Figure | bytes, alt: str, caption: str = "") -> Html:
    """A figure as a picture inside the page: SVG, so that it prints sharply; bytes are a PNG."""
    kind, data = ("png", drawn) if isinstance(drawn, bytes) else ("svg+xml", image(drawn, "svg"))
    source = f"data:image/{kind};base64,{b64encode(data).decode()}"
    below = [tag("figcaption", caption)] if caption else []
    return tag("figure", tag("img", src=source, alt=alt), *below)


def _cell(cell: object, marks: Mapping[str, Html]) -> str:
    text = cell.plain if isinstance(cell, Text) else str(cell)
    if isinstance(cell, Text) and "bold" in str(cell.style):
        return tag("b", text)
    return join([marks.get(text, Html()), text])


def _kind(column: int, names: int) -> dict[str, str]:
    return {"class_": "name"} if column < names else {}
