"""What every verb prints with. Names come from files of strangers: nothing in them can command the terminal."""

import codecs
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.segment import Segment

T = TypeVar("T")
# Control characters but for tab and newline, and those that turn the direction of text
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
PLAIN = {"±": "+-", "µ": "u", "–": "-", "…": "...", "·": "-", "✓": "v", "✗": "x", "█": "#", "━": "-"}


class Screen(Console):
    """A console that shows control characters in names, and does not obey them: an escape is \\x1b in print."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or not COMMANDS.search(segment.text):
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def console(*, stderr: bool = False) -> Console:
    """A terminal's own width; 100 columns if there is none, so that tables in files read well."""
    out = Screen(stderr=stderr, emoji=False)
    return out if out.is_terminal or "COLUMNS" in os.environ else Screen(stderr=stderr, emoji=False, width=100)


def printable(text: str) -> str:
    """Text with its control characters as Python writes them."""
    return COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def print_anywhere() -> None:
    """Have characters that the terminal's encoding lacks printed as the nearest it has, or by their number."""
    codecs.register_error("jigsawmil", _nearest)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="jigsawmil")


def _nearest(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lost), error.end


def tracked(items: Iterable[T], total: int, words: str, screen: Console, quiet: bool) -> Iterator[T]:
    """A bar on a terminal, one line elsewhere."""
    if screen.is_terminal and not quiet:
        from rich.progress import track

        return iter(track(items, words, total, console=screen, transient=True))
    if not quiet:
        screen.print(words)
    return iter(items)
