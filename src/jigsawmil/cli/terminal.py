"""Tables of results on a terminal: what does not fit is left out or broken over lines."""

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from ..report.tables import Column, Table

GAP = 2  # blanks between columns


def rendered(table: Table, width: int = 80) -> RenderableType:
    """At most `width` columns wide: optional columns while they fit, then names broken over lines."""
    if not table.columns:
        return Text(table.title, "bold")
    grid = _grid(table.columns, table, width)
    grid.title, grid.caption = Text(table.title, "bold"), _notes(table)
    return grid


def stacked(table: Table, width: int = 80) -> list[RenderableType]:
    """All columns, in several grids below each other if they do not fit side by side; each begins with the names."""
    names, *others = table.columns
    blocks: list[list[Column]] = []
    room = 0
    for group in _groups(others):
        needed = sum(_width(column) + GAP for column in group)
        if not blocks or needed > room:
            blocks.append([names])
            room = width - _width(names)
        blocks[-1] += group
        room -= needed
    grids = [part for block in blocks for part in (Text(), _grid(block, table, width))][1:]  # a blank line between
    return [Text(table.title, "bold"), *grids, _notes(table)]


def print_stacked(tables: Iterable[Table], screen: Console) -> None:
    """Tables below each other, each with all its columns."""
    for table in tables:
        screen.print(*stacked(table, screen.width), "", sep="\n")


def _groups(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """Columns with those that are attached to them."""
    starts = [i for i, column in enumerate(columns) if not column.attached]
    for start, end in zip(starts, [*starts[1:], len(columns)], strict=True):
        yield list(columns[start:end])


def _grid(columns: Sequence[Column], table: Table, width: int) -> Grid:
    room = width - sum(_width(c) + GAP for c in columns if not c.optional) + GAP
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    grid.title_justify = grid.caption_justify = "left"
    grid.title_style = grid.caption_style = ""
    grid.width = width if room < 0 else None  # the names give way
    kept = []
    for column in columns:
        if column.optional:
            room -= _width(column) + GAP
            if room < 0:
                break
        kept.append(column)
        if column.name:
            grid.add_column(Text(column.header), overflow="fold")
        else:
            grid.add_column(Text(column.header), justify="right", overflow="ellipsis", no_wrap=True)
    for row in range(len(columns[0].cells)):
        cells = [Text(c.cells[row], "bold" if c.bold and c.bold[row] else "") for c in kept]
        grid.add_row(*cells, end_section=row in table.ends)
    return grid


def _notes(table: Table) -> Text:
    """Text, not markup: a class may be called [red]."""
    notes = Text(" ".join(table.notes), "dim")
    return Text.assemble((f"{table.warning} ", "bold red"), notes) if table.warning else notes


def _width(column: Column) -> int:
    return max(cell_len(line) for line in [*column.header.split("\n"), *column.cells])
