"""What a person sees while models are fitted: a bar, and below it a row of figures for each that is running."""

import math
import time
from collections.abc import Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..errors import summarize_error
from ..study.executors import Event
from ..study.job import Job
from ..train.progress import Epoch

COLUMNS = ("epoch", "MIL", "jigsaw", "lambda", "val loss", "val AUROC")


class StudyProgress:
    """Listens to a study. On a terminal it draws, elsewhere it prints a line a job; quiet, only failures."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self.console, self.quiet = console, quiet
        parts = TextColumn("jobs"), BarColumn(), TextColumn("{task.fields[counts]}"), TimeElapsedColumn(), *_left()
        self._bar = Progress(*parts, console=console)
        self._task = self._bar.add_task("", total=None, counts="")
        self._done = self._failed = 0
        self._constant: set[str] = set()  # what all jobs share need not be said of each
        self._running: dict[str, tuple[Job, Epoch | None]] = {}
        self._started: dict[str, float] = {}
        self._ended: set[str] = set()  # the last epoch of a job may come after its end
        self._total, self._here, self._began = 0, 0, time.monotonic()
        self._cluster = ""
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)
        self._draws = console.is_terminal and not quiet

    def __enter__(self) -> "StudyProgress":
        if self._draws:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def plan(self, jobs: list[Job], done: int) -> None:
        self._done, self._total, self._began = done, len(jobs), time.monotonic()
        self._constant = {part for part in ("cohort", "seed") if len({getattr(job, part) for job in jobs}) == 1}
        self._bar.update(self._task, total=len(jobs), completed=done, counts=self._counts())
        if done and not self.quiet:
            rest = "" if done == len(jobs) else "; running the rest"
            self.console.print(f"{done} of {len(jobs)} jobs are done already{rest}.", highlight=False)

    def cluster(self, words: str) -> None:
        """What a cluster has; it is told when a node came or went."""
        if self._cluster and not self.quiet:
            self.console.print(f"Now {words}", highlight=False)
        self._cluster = words

    def __call__(self, event: Event) -> None:
        name, epoch = event.job.name, event.epoch
        if name in self._ended:
            return
        self._started.setdefault(name, time.monotonic() - (epoch.seconds if epoch else 0.0))
        if not event.ended:
            self._running[name] = event.job, epoch
        else:
            self._running.pop(name, None)
            self._ended.add(name)
            self._done, self._here = self._done + 1, self._here + 1
            self._failed += event.error is not None
            self._tell_end(name, event.error)
        self._bar.update(self._task, completed=self._done + self._begun(), counts=self._counts())

    def _counts(self) -> str:
        """Whole jobs: the bar itself also counts the epochs of those that run."""
        done = f"{self._done - self._failed}/{self._total} done, {len(self._running)} running"
        return done + (f", {self._failed} failed" if self._failed else "")

    def _tell_end(self, name: str, error: str | None) -> None:
        if error is not None:
            self.console.print(Text(f"failed  {name}: {summarize_error(error)}", style="red"), soft_wrap=True)
        elif not self._draws and not self.quiet:
            seconds = time.monotonic() - self._started[name]
            self.console.print(f"done    {name} ({seconds:.0f} s){self._so_far()}", soft_wrap=True, highlight=False)

    def _so_far(self) -> str:
        """Where there is no bar: how many are done, and the time left at the pace so far, running jobs included."""
        if self._done >= self._total:
            return ""
        begun = self._begun()
        left = (time.monotonic() - self._began) / (self._here + begun) * (self._total - self._done - begun)
        words = f"{max(1, round(left))} s" if left < 90 else f"{round(left / 60)} min"
        return f"; {self._done} of {self._total}, about {words} left"

    def _begun(self) -> float:
        """Jobs' worth of epochs that the running ones have done."""
        return sum(epoch.epoch / job.settings.train.epochs for job, epoch in self._running.values() if epoch)

    def _render(self) -> Group:
        rows = {
            self._short(job): figures(epoch, job.settings.train.epochs)
            for job, epoch in self._running.values()
            if epoch
        }
        cluster = [Text(self._cluster, "dim")] if self._cluster else []
        return Group(self._bar, *cluster, *([figure_table(rows)] if rows else []))

    def _short(self, job: Job) -> str:
        cohort = "" if "cohort" in self._constant else f"{job.cohort} "
        seed = "" if "seed" in self._constant else f" seed {job.seed}"
        return f"{cohort}{job.variant}{seed} {job.part}" + " shuffled" * job.shuffled


class FitProgress:
    """Listens to one training, or to those of an ensemble: epoch, both losses, lambda, validation, time left.

    models: how many are trained, one after the other."""

    def __init__(self, console: Console, epochs: int, quiet: bool = False, *, models: int = 1) -> None:
        self.console, self.epochs, self.quiet, self.models = console, epochs, quiet, models
        self._model = 1  # the one that is trained
        self._bar = Progress(TextColumn("epochs"), BarColumn(), TimeElapsedColumn(), *_left(), console=console)
        self._task = self._bar.add_task("", total=epochs * models)
        self._last: Epoch | None = None
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)
        self._draws = console.is_terminal and not quiet

    def __enter__(self) -> "FitProgress":
        if self._draws:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, epoch: Epoch) -> None:
        if self._last is not None and epoch.epoch <= self._last.epoch:
            self._model += 1
        self._last = epoch
        self._bar.update(self._task, completed=(self._model - 1) * self.epochs + epoch.epoch)
        if not self._draws and not self.quiet:
            named = zip(COLUMNS, figures(epoch, self.epochs), strict=True)
            line = "  ".join(f"{name} {value}" for name, value in named if value)
            self.console.print(f"{self._which}{line}", soft_wrap=True, highlight=False)

    @property
    def _which(self) -> str:
        return "" if self.models == 1 else f"model {self._model} of {self.models}  "

    def _render(self) -> Group:
        rows = {self._which: figures(self._last, self.epochs)} if self._last else {}
        return Group(self._bar, *([figure_table(rows)] if rows else []))


def figures(epoch: Epoch, epochs: int) -> tuple[str, ...]:
    """What an epoch did, as COLUMNS; "" where the method has no jigsaw, or nothing is validated."""
    jigsaw = (epoch.jigsaw, epoch.lambda_) if epoch.jigsaw else (math.nan, math.nan)
    values = (epoch.mil, *jigsaw, epoch.val_loss, epoch.val_auc)
    return (f"{epoch.epoch}/{epochs}", *("" if math.isnan(value) else f"{value:.3f}" for value in values))


def figure_table(rows: Mapping[str, tuple[str, ...]]) -> Table:
    """One row a training; where the terminal is narrow, names are cut, figures never."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column()
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in rows.items():
        table.add_row(Text(name, no_wrap=True, overflow="ellipsis"), *row)
    return table


def _left() -> tuple[TextColumn, TimeRemainingColumn]:
    return TextColumn("left"), TimeRemainingColumn()
