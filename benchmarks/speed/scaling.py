"""How a training step grows with k, with members and with threads, as ratios: `python -m benchmarks.speed.scaling`.

`step.py` has the other half: N from 1,000 to 200,000, beside torchmil, PyG and the bare matrix products.

- **k**: the step of graph-abmil+jigsaw over that of our abmil in the same precision, on one slide.
- **members**: the training of M members that share a feed, over that of one; reading and graphs are shared, steps are
  not. Beside it what a wide first product would save: the products of five members at once over one after the other.
- **threads**: the step on one thread over that on T.

What is compared runs in turn in one process, medians of ROUNDS. By the clock, or by processor time on one thread
(`--processor`), which tells the same on a busy machine, but nothing of threads.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from jigsawmil.graph import GraphConfig
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.model import build_model
from jigsawmil.train.config import AUTO
from jigsawmil.train.feed import Feed
from jigsawmil.train.fit import one_pass
from jigsawmil.train.settings import Settings
from jigsawmil.train.training import Training

from .. import RESULTS, provenance, write
from .contenders import D1, HIDDEN, OURS, THREADS, tissue_slide, train_ours
from .loop import write_cohort

COMMAND = "python -m benchmarks.speed.scaling"
OUT = RESULTS / "scaling.json"
PATCHES, NEIGHBOURS, MEMBERS, EPOCHS = 3_278, (8, 24, 50, 100), (1, 2, 5), 10
PRECISIONS = ("float32", AUTO)
ROUNDS, WARM_UPS, SLIDES = 9, 2, 6
Clock = Callable[[], float]


def medians(steps: Mapping[Any, Callable[[], Any]], clock: Clock, rounds: int) -> dict[Any, float]:
    """Seconds of each, taken in turn."""
    found: dict[Any, list[float]] = {name: [] for name in steps}
    for number in range(WARM_UPS + rounds):
        for name, step in steps.items():
            start = clock()
            step()
            if number >= WARM_UPS:
                found[name].append(clock() - start)
    return {name: median(times) for name, times in found.items()}


def by_k(clock: Clock, rounds: int, neighbours: Sequence[int]) -> list[dict[str, Any]]:
    bag = tissue_slide(PATCHES)
    batches = {k: Batch.of(bag, GraphConfig(k=k)) for k in neighbours}
    trained = {
        (method, precision): train_ours(method, precision) for method in (OURS, "abmil") for precision in PRECISIONS
    }
    steps = {(OURS, p, k): (lambda t=trained[OURS, p], b=batches[k]: t(b)) for p in PRECISIONS for k in neighbours}
    plain = batches[neighbours[0]]
    steps |= {("abmil", p, 0): (lambda t=trained["abmil", p]: t(plain)) for p in PRECISIONS}
    found = medians(steps, clock, rounds)
    return [{"k": k, **{p: found[OURS, p, k] / found["abmil", p, 0] for p in PRECISIONS}} for k in neighbours]


def by_members(clock: Clock, members: Sequence[int]) -> list[dict[str, Any]]:
    """Of EPOCHS epochs, the first of which reads. A feed of its own for each number of members."""
    settings = Settings(method=OURS, members=1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        cohort = write_cohort(Path(folder), SLIDES, PATCHES)
        for count in members:
            feed = Feed(cohort, settings.graph, settings.model.raster)
            trained = [Training(build_model(OURS, cohort.dim, seed=seed), settings.train) for seed in range(count)]
            first, *later = [_epoch(trained, feed, clock, number) for number in range(4)]
            rows.append({"members": count, "seconds": first + (EPOCHS - 1) * median(later)})
    return [{**row, "ratio": row["seconds"] / rows[0]["seconds"]} for row in rows]


def _epoch(trained: Sequence[Training], feed: Feed, clock: Clock, number: int) -> float:
    start = clock()
    for training in trained:
        one_pass(training, feed, range(len(feed)), torch.Generator().manual_seed(number))
    return clock() - start


def wide_products(clock: Clock, rounds: int) -> dict[str, float]:
    """The first product of five members and the gradients of its weights: at once, over one after the other."""
    found = {}
    for name, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        x = torch.randn(PATCHES, D1).to(kind)
        weights, gradients = (
            [torch.randn(*shape).to(kind) for _ in range(5)] for shape in ((HIDDEN, D1), (PATCHES, HIDDEN))
        )
        wide, upper = torch.cat(weights), torch.cat(gradients, dim=1)

        def in_turn(x=x, weights=weights, gradients=gradients) -> None:  # type: ignore[no-untyped-def]
            for weight, gradient in zip(weights, gradients, strict=True):
                torch.mm(x, weight.T)
                torch.mm(gradient.T, x)

        def at_once(x=x, wide=wide, upper=upper) -> None:  # type: ignore[no-untyped-def]
            torch.mm(x, wide.T)
            torch.mm(upper.T, x)

        times = medians({"in turn": in_turn, "at once": at_once}, clock, rounds)
        found[name] = times["at once"] / times["in turn"]
    return found


def by_threads(clock: Clock, rounds: int, most: int) -> list[dict[str, Any]]:
    batch = Batch.of(tissue_slide(PATCHES))
    trained = {precision: train_ours(OURS, precision) for precision in PRECISIONS}

    def step(threads: int, precision: str) -> Callable[[], Any]:
        def run() -> None:
            torch.set_num_threads(threads)
            trained[precision](batch)

        return run

    counts = [count for count in (1, 2, 4, 8, 16, 32) if count <= most]
    found = medians({(t, p): step(t, p) for t in counts for p in PRECISIONS}, clock, rounds)
    return [{"threads": t, **{p: found[1, p] / found[t, p] for p in PRECISIONS}} for t in counts]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[f"{value:.2f}" if isinstance(value, float) else f"{value:,}" for value in row.values()] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer values and rounds; nothing is written")
    parser.add_argument("--processor", action="store_true", help="processor time on one thread, for a busy machine")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1 if options.processor else THREADS)
    clock: Clock = time.process_time if options.processor else time.perf_counter
    rounds, about = 3 if options.quick else ROUNDS, provenance()
    found: dict[str, Any] = {"k": by_k(clock, rounds, NEIGHBOURS[1:3] if options.quick else NEIGHBOURS)}
    print(f"{OURS} step / abmil step, N = {PATCHES:,}:\n\n{table(found['k'])}\n", flush=True)
    found["members"] = by_members(clock, MEMBERS[:2] if options.quick else MEMBERS)
    print(f"{EPOCHS} epochs of M members in one process / of one:\n\n{table(found['members'])}\n", flush=True)
    found["wide"] = wide_products(clock, rounds)
    print(f"First products of five members at once / one after the other:\n\n{table([found['wide']])}\n", flush=True)
    if not options.processor:
        found["threads"] = by_threads(clock, rounds, os.cpu_count() or 1)
        print(f"Step on one thread / on T:\n\n{table(found['threads'])}\n")
    if not options.quick:
        how = {"by": "processor time" if options.processor else "the clock", "threads": torch.get_num_threads()}
        write(options.out, json.dumps({**found, "how": how, "patches": PATCHES, "epochs": EPOCHS, **about}, indent=1))
        print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
