"""What a person sees while slides are extracted."""

import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ..slides.extract_one import Extracted

SILENCE = 30.0  # seconds between two lines if there is no terminal


class TilesProgress:
    """A bar over slides with tiles a second and the time left; a line a slide where there is no terminal."""

    def __init__(self, screen: Console, slides: int, quiet: bool) -> None:
        self.screen, self.quiet, self.slides = screen, quiet, slides
        self._draws = screen.is_terminal and not quiet
        parts = BarColumn(24), MofNCompleteColumn(), TextColumn("{task.fields[words]}")
        self._bar = Progress(TextColumn("slides"), *parts, console=screen, transient=True)
        self._bar.disable = not self._draws
        self._task = self._bar.add_task("", total=slides, words="loading the encoder")
        self._seconds = self._began = 0.0
        self._opened = self._spoke = time.perf_counter()
        self._finished = self._tiles = self._worked = 0

    def __enter__(self) -> "TilesProgress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, words: str) -> None:
        if not self.quiet:
            self.screen.print(words, highlight=False)

    def follow(self, results: Iterator[Extracted]) -> list[Extracted]:
        """Show each slide as it is finished."""
        found = []
        for one in results:
            found.append(one)
            self._show(one)
        return found

    def tiles(self, slide: Path, done: int, total: int) -> None:
        """Before the first batch, after each. Time left: of this slide, and the mean of those done for each other."""
        now = time.perf_counter()
        words = f"{slide.stem[:24]} {done}/{total}"
        if not self._draws and not self.quiet and done and now - self._spoke > SILENCE:
            self._spoke = now
            self.screen.print(f"{'':9} {escape(words)} tiles", highlight=False, soft_wrap=True)
        if done == 0:
            self._began = now
        else:
            here = now - self._began
            rate = (self._tiles + done) / max(self._seconds + here, 1e-3)
            mean = (self._seconds + here * total / done) / (self._worked + 1)
            left = here * (total - done) / done + mean * (self.slides - self._finished - 1)
            words += f"  {rate:.0f} tiles/s  {_span(left)} left"
        self._bar.update(self._task, completed=self._finished + done / total, words=words)

    def _show(self, one: Extracted) -> None:
        self._finished += 1
        if one.tiles:
            self._worked, self._tiles, self._seconds = (
                self._worked + 1,
                self._tiles + one.tiles,
                self._seconds + one.seconds,
            )
        now = time.perf_counter() - self._opened  # slides may be done side by side: by the clock on the wall
        left = _span(now / self._finished * (self.slides - self._finished))
        words = f"{self._tiles / max(now, 1e-3):.0f} tiles/s  {left} left"
        self._bar.update(self._task, completed=self._finished, words=words)
        if not self._draws and not self.quiet:
            rate = (
                f" ({one.tiles} tiles, {one.seconds:.0f} s, {one.tiles / one.seconds:.0f} tiles/s)" if one.tiles else ""
            )
            self._spoke = time.perf_counter()
            self.screen.print(f"{one.status:9} {escape(one.slide)}{rate}", highlight=False, soft_wrap=True)


def _span(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes / 60:.1f} h" if minutes >= 90 else f"{minutes:.0f} min" if minutes >= 1.5 else f"{seconds:.0f} s"
