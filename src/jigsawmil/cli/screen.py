"""What every verb prints with."""

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console

T = TypeVar("T")


def console() -> Console:
    """A terminal's own width; 100 columns where there is none, so that tables in files read well."""
    out = Console()
    return out if out.is_terminal or "COLUMNS" in os.environ else Console(width=100)


def tracked(items: Iterable[T], total: int, words: str, screen: Console, quiet: bool) -> Iterator[T]:
    """A bar on a terminal, one line elsewhere."""
    if screen.is_terminal and not quiet:
        from rich.progress import track

        return iter(track(items, words, total, console=screen, transient=True))
    if not quiet:
        screen.print(words)
    return iter(items)
