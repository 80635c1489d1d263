"""One training step against real peers: `python -m benchmarks.speed.step` prints tables and writes JSON.

Each contender lives in a process of its own. In every round each makes one step, in an order drawn anew; one process is
at work at a time, with a pause between turns (idle OpenMP threads spin for milliseconds after a step), so that noise
hits all alike.
"""

import argparse
import dataclasses
import importlib.util
import json
import operator
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .. import RESULTS, ROOT, free_memory, provenance, write
from .contenders import (
    ABMIL,
    ABMIL_AUTO,
    ALONE,
    CONTENDERS,
    D1,
    GRAPH,
    OURS,
    OURS_AUTO,
    PATCH_GCN,
    PREDICT,
    PYG,
    QUERY,
    THREADS,
    TRAIN,
)

SIZES = (1_000, 3_278, 12_050, 50_000, 200_000)
ALONE_SIZES = {TRAIN: 50_000, PREDICT: 200_000}
ROUNDS, LEAST_ROUNDS, WARM_UPS = 15, 5, 3
SIZE_SECONDS = 100  # of timed rounds at one size; fewer rounds where they take longer, but LEAST_ROUNDS
STEP_SECONDS, START_SECONDS = 30, 300  # a contender that takes longer is left out; compiling counts as start
PAUSE = 0.03  # seconds between turns
RESIDENT = 0.5e9  # bytes of an idle process, its libraries and loaded graph, roughly


@dataclass(frozen=True)
class Result:
    """Seconds of the timed steps; bytes of peak memory over the loaded bag and in all; or why there are none."""

    steps: list[float] = field(default_factory=list)
    growth: int | None = None
    peak: int | None = None
    memory_by: str | None = None
    skipped: str | None = None

    @property
    def median(self) -> float | None:
        return float(np.median(self.steps)) if self.steps else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        return (float(np.quantile(self.steps, 0.25)), float(np.quantile(self.steps, 0.75))) if self.steps else None


Results = dict[int, dict[str, Result]]  # by N and contender


@dataclass(frozen=True)
class Target:
    """A figure of one contender over that of another, or in GB where there is no other, and what is asked of it."""

    what: str
    figure: str  # median, growth or peak
    top: str
    bottom: str | None
    sign: str
    bound: float
    sizes: tuple[int, ...]  # where it is judged; elsewhere it is only shown


TARGETS = (
    Target(f"{OURS} step / {ABMIL} step", "median", OURS, ABMIL, "<=", 1.1, (3_278, 12_050)),
    Target(f"{OURS_AUTO} step / {ABMIL} step", "median", OURS_AUTO, ABMIL, "<=", 0.4, (3_278, 12_050)),
    Target(f"{OURS_AUTO} step / {ABMIL_AUTO} step", "median", OURS_AUTO, ABMIL_AUTO, "<=", 1.5, (3_278, 12_050)),
    Target(f"{PYG} step / {OURS} step", "median", PYG, OURS, ">=", 12, (3_278, 12_050)),
    Target(f"{PATCH_GCN} step / {OURS} step", "median", PATCH_GCN, OURS, ">=", 2.5, (3_278, 12_050)),
    Target(f"{OURS} memory growth / {PYG} memory growth", "growth", OURS, PYG, "<=", 1 / 8, (12_050,)),
    Target(f"{GRAPH} / bare {QUERY}", "median", GRAPH, QUERY, "<=", 2, (3_278, 12_050)),
    Target("training, GB in all", "peak", TRAIN, None, "<", 2, (50_000,)),
    Target("prediction, GB in all", "peak", PREDICT, None, "<", 6, (200_000,)),
)


@dataclass(frozen=True)
class Judged:
    """A target at one N. met is None where it is not judged: another N, or a contender that did not run."""

    what: str
    n: int
    value: float | None
    target: str
    met: bool | None


def judge(results: Results) -> list[Judged]:
    """Every target at every N, from medians and peaks."""
    rows = []
    for target in TARGETS:
        sizes = [n for n in results if target.top in results[n]]
        for n in sorted({*sizes, *target.sizes}):
            at = results.get(n, {})
            top = getattr(at.get(target.top, Result()), target.figure)
            bottom = getattr(at.get(target.bottom, Result()), target.figure) if target.bottom else 1e9
            value = top / bottom if top is not None and bottom else None
            reach = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}[target.sign]
            met = reach(value, target.bound) if value is not None and n in target.sizes else None
            asked = f"{target.sign} {target.bound:g}" if n in target.sizes else ""
            rows.append(Judged(target.what, n, value, asked, met))
    return rows


class WorkerError(Exception):
    """Why a contender has no figures."""


class Worker:
    """A contender's process, asked by one line and answering by one line."""

    def __init__(self, name: str, n: int) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        threads = {f"{library}_NUM_THREADS": str(THREADS) for library in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.speed.contenders", name, str(n)],
            cwd=ROOT,
            env={**os.environ, **threads},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, command: str, seconds: float = STEP_SECONDS) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._last_words()) from None
        return self.answer(seconds)

    def answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            raise WorkerError(f"no answer within {seconds:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(self._last_words())
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        with suppress(BrokenPipeError), self._process:  # leaving it closes the pipes and waits
            self._log.close()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        said = [line for line in self._log.read().splitlines() if line.strip()]
        return f"its process ended with {code}" + (f": {said[-1]}" if said else "")


def measure(n: int, rounds: int, progress: Progress) -> dict[str, Result]:
    """Every contender at one N, interleaved."""
    free, all_of = free_memory(), len(CONTENDERS)
    results = {name: Result(skipped=why) for name in CONTENDERS if (why := obstacle(name, n, all_of, free))}
    task = progress.add_task(f"N = {n:,}: loading", total=None)
    order = random.Random(n)
    with ExitStack() as stack:
        live = {}
        for name in CONTENDERS:
            if name not in results:
                live[name] = Worker(name, n)
                stack.callback(live[name].close)

        def turn(command: str, seconds: float = STEP_SECONDS) -> Iterator[tuple[str, dict[str, Any]]]:
            """One line to each live contender, one after the other; whoever fails is out, with the reason."""
            for name, worker in order.sample(list(live.items()), len(live)):
                progress.update(task, description=f"N = {n:,}: {name}", refresh=True)
                try:
                    reply = worker.answer(seconds) if command == "load" else worker.ask(command, seconds)
                except WorkerError as error:
                    results[name] = Result(skipped=str(error))
                    live.pop(name).close()
                else:
                    yield name, reply
                time.sleep(PAUSE)

        for _ in turn("load", START_SECONDS):
            pass
        for _ in range(WARM_UPS):
            warm = sum(reply["seconds"] for _, reply in turn("step"))
        memory = dict(turn("memory"))
        fit = int(SIZE_SECONDS / warm) if warm else rounds
        rounds = min(rounds, max(LEAST_ROUNDS, fit))
        progress.update(task, total=rounds)
        steps: dict[str, list[float]] = {name: [] for name in live}
        for _ in range(rounds):
            for name, reply in turn("step"):
                steps[name].append(reply["seconds"])
            progress.advance(task)
        for name in live:
            results[name] = Result(steps=steps[name], **memory[name])
    progress.update(task, description=f"N = {n:,}: done")
    return {name: results[name] for name in CONTENDERS}


def measure_alone(name: str, n: int) -> Result:
    """Peak memory of a process that trains or predicts: importing, preparing the slide, a few steps."""
    if why := obstacle(name, n, 1, free_memory()):
        return Result(skipped=why)
    worker = Worker(name, n)
    try:
        worker.answer(START_SECONDS)
        steps = [worker.ask("step")["seconds"] for _ in range(WARM_UPS)]
        return Result(steps=steps, **worker.ask("memory"))
    except WorkerError as error:
        return Result(skipped=str(error))
    finally:
        worker.close()


def obstacle(name: str, n: int, beside: int, free: float) -> str | None:
    """Why a contender is not started: its package is missing, or a step would not fit `beside` idle processes."""
    contender = {**CONTENDERS, **ALONE}[name]
    if importlib.util.find_spec(contender.needs) is None:
        return f"{contender.needs} is not installed; pip install 'jigsawmil[bench]'"
    need = contender.kb * 1e3 * n
    left = max(0.0, free - beside * (RESIDENT + n * D1 * 4))
    if need <= left:
        return None
    return f"a step needs about {need / 1e9:.1f} GB, {left / 1e9:.1f} GB are left beside {beside} loaded processes"


def as_json(results: Results, judged: Sequence[Judged], about: dict[str, Any]) -> str:
    """SI units: seconds and bytes."""
    sizes = {
        str(n): {
            name: {"median": r.median, "quartiles": r.quartiles, **dataclasses.asdict(r)} for name, r in at.items()
        }
        for n, at in results.items()
    }
    contenders = {name: contender.about for name, contender in {**CONTENDERS, **ALONE}.items()}
    settings = {"threads": THREADS, "warm_ups": WARM_UPS, "pause": PAUSE, "d1": D1, "contenders": contenders}
    targets = [dataclasses.asdict(row) for row in judged]
    return json.dumps({**about, "settings": settings, "sizes": sizes, "targets": targets}, indent=1)


def size_table(n: int, at: dict[str, Result]) -> Table:
    """All figures at one N."""
    table = Table("", "step, ms", "quartiles", "/ ours", "growth, MB", "peak, MB", title=f"N = {n:,}")
    ours = at.get(OURS, Result()).median
    for name, r in at.items():
        if r.median is None or r.quartiles is None:
            table.add_row(name, f"skipped: {r.skipped}")
            continue
        low, high = (f"{1e3 * quartile:.1f}" for quartile in r.quartiles)
        times = f"{r.median / ours:.2f}" if ours else ""
        table.add_row(name, f"{1e3 * r.median:.1f}", f"{low} to {high}", times, _mb(r.growth), _mb(r.peak))
    return table


def markdown(results: Results, judged: Sequence[Judged]) -> str:
    """Tables over N: median step with growth of peak memory, the step over that of torchmil's ABMIL, and the targets;
    then what was skipped."""
    names = list(dict.fromkeys(name for at in results.values() for name in at))
    steps = [[name, *(_cell(at.get(name)) for at in results.values())] for name in names]
    ratios = [[name, *(_ratio(at.get(name), at.get(ABMIL)) for at in results.values())] for name in names]
    found = {(row.what, row.n): row for row in judged}
    sizes = sorted({row.n for row in judged})
    targets = [[what, *(_verdict(found.get((what, n))) for n in sizes)] for what in dict.fromkeys(w for w, _ in found)]
    skipped = [
        f"- {name} at N = {n:,}: {r.skipped}" for n, at in results.items() for name, r in at.items() if r.skipped
    ]
    return "\n\n".join(
        [
            _grid(["median step, growth of peak memory", *(f"N = {n:,}" for n in results)], steps),
            _grid([f"step / {ABMIL} step", *(f"N = {n:,}" for n in results)], ratios),
            _grid(["target", *(f"N = {n:,}" for n in sizes)], targets),
            *(["Skipped:\n\n" + "\n".join(skipped)] if skipped else []),
        ]
    )


def _grid(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows])


def _cell(r: Result | None) -> str:
    if r is None or r.median is None:
        return "skipped" if r else ""
    return f"{1e3 * r.median:,.1f} ms" + (f", {_mb(r.growth)} MB" if r.growth is not None else "")


def _ratio(r: Result | None, base: Result | None) -> str:
    if r is None or base is None or r.median is None or not base.median:
        return ""
    return f"{r.median / base.median:.2f}"


def _verdict(row: Judged | None) -> str:
    if row is None:
        return ""
    value = "not measured" if row.value is None else f"{row.value:.3g}"
    asked = f" ({row.target})" if row.target else ""
    return value + asked + ("" if row.met is None else ", met" if row.met else ", **not met**")


def _mb(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.0f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.step", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="patches of the slide")
    parser.add_argument("--quick", action="store_true", help="N = 1,000 and 3,278 only")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="timed steps of each contender")
    parser.add_argument("--out", type=Path, default=RESULTS / "step.json")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}; expected at least 1")
    sizes = SIZES[:2] if options.quick else options.sizes
    alone = ALONE_SIZES if max(sizes) >= max(SIZES) else {}  # small runs stay small

    console, about = Console(), provenance()
    if about["machine"]["load"] > 0.5:
        console.print(f"This machine is busy (load {about['machine']['load']:.1f}): expect noise, or wait.")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results: Results = {}
    hidden = not console.is_terminal
    # auto_refresh would stir here while a contender is at work
    with Progress(*columns, console=console, auto_refresh=False, disable=hidden) as progress:
        for n in sizes:
            if hidden:
                console.print(f"N = {n:,} ...")
            results[n] = measure(n, options.rounds, progress)
            console.print(size_table(n, results[n]))
        for name, n in alone.items():
            task = progress.add_task(f"N = {n:,}: {name}", total=1)
            progress.refresh()
            results.setdefault(n, {})[name] = measure_alone(name, n)
            progress.update(task, advance=1, refresh=True)
    judged = judge(results)
    write(options.out, as_json(results, judged, about))
    console.print(markdown(results, judged), markup=False, highlight=False, soft_wrap=True)
    console.print(f"\nWritten to {options.out}")


if __name__ == "__main__":
    main()
