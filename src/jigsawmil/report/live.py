"""What a person sees while a study runs: one bar for the jobs, a line for each that is running."""

import time

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from ..study.executors import Event
from ..study.run import Job
from ..train.fit import Epoch


class StudyProgress:
    """Listens to a study. On a terminal it draws, elsewhere it prints a line a job; quiet, only failures."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self.console, self.quiet = console, quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("jobs", total=None)
        self._running: dict[str, str] = {}
        self._started: dict[str, float] = {}
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)
        self._draws = console.is_terminal and not quiet

    def __enter__(self) -> "StudyProgress":
        if self._draws:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def plan(self, jobs: list[Job], done: int) -> None:
        self._bar.update(self._task, total=len(jobs), completed=done)
        if done and not self.quiet:
            self.console.print(f"{done} of {len(jobs)} jobs are done already; going on with the rest.")

    def __call__(self, event: Event) -> None:
        name = event.job.name
        self._started.setdefault(name, time.monotonic())
        if event.epoch is not None:
            self._running[name] = f"{name}: {epoch_line(event.epoch, event.job.settings.epochs)}"
            return
        self._running.pop(name, None)
        self._bar.advance(self._task)
        seconds = time.monotonic() - self._started[name]
        if event.error is not None:
            self.console.print(Text(f"failed  {name}: {event.error.strip().splitlines()[-1]}", style="red"))
        elif not self._draws and not self.quiet:
            self.console.print(f"done    {name} ({seconds:.0f} s)", soft_wrap=True)

    def _render(self) -> Group:
        return Group(self._bar, *(Text("  " + line, style="dim", no_wrap=True) for line in self._running.values()))


class FitProgress:
    """Listens to one training: epoch, both losses, lambda, validation, time left."""

    def __init__(self, console: Console, epochs: int, quiet: bool = False) -> None:
        self.console, self.epochs, self.quiet = console, epochs, quiet
        self._bar = Progress(
            BarColumn(), TextColumn("{task.description}"), TextColumn("left"), TimeRemainingColumn(), console=console
        )
        self._task = self._bar.add_task("starting", total=epochs)
        self._draws = console.is_terminal and not quiet

    def __enter__(self) -> "FitProgress":
        if self._draws:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, epoch: Epoch) -> None:
        line = epoch_line(epoch, self.epochs)
        if self._draws:
            self._bar.update(self._task, completed=epoch.epoch, description=line)
        elif not self.quiet:
            self.console.print(line, soft_wrap=True)


def epoch_line(epoch: Epoch, epochs: int) -> str:
    parts = [f"epoch {epoch.epoch}/{epochs}", f"MIL {epoch.mil:.3f}"]
    if epoch.jigsaw:
        parts += [f"jigsaw {epoch.jigsaw:.3f}", f"lambda {epoch.lambda_:.3f}"]
    if epoch.val_loss == epoch.val_loss:
        parts += [f"val loss {epoch.val_loss:.3f}", f"val AUC {epoch.val_auc:.3f}"]
    return "  ".join(parts)
