"""Studies on Ray: does a second worker halve the time, what does Ray add to a job, do a thousand jobs flood anything?

    .venv/bin/python -m benchmarks.speed.ray_jobs            # measures, and writes docs/cluster.md
    .venv/bin/python -m benchmarks.speed.ray_jobs --write    # only the page, from results/ray_jobs.json

Jobs are fits on phantom slides, one thread each. One worker and two workers run the same thirty jobs on a fresh
cluster of one node; start-up (the cluster, and the first job of each worker, which imports everything) is stated and
not counted. Overhead is the time of a job on Ray beyond that of the very same job in this process, both from the end of
the first job to the end of the last: Ray may have ended an idle worker in between, and starts another.
"""

import argparse
import json
import resource
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from jigsawmil.cluster.studies import run_on_ray
from jigsawmil.study.executors import Event, run_local
from jigsawmil.study.job import Job
from jigsawmil.study.plan import plan
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.train.settings import Settings

from .. import RESULTS, ROOT, paragraph, placed, provenance, where, write

RESULT, PAGE = RESULTS / "ray_jobs.json", ROOT / "docs" / "cluster.md"
COMMAND = "benchmarks.speed.ray_jobs --write"
JOBS, FOLDS = 30, 3
SMALL = {"hidden": 16, "attention_dim": 8, "grid": 3, "k": 4, "patience": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--tiny", type=int, default=1000, help="jobs of the large study")
    parser.add_argument(
        "--rounds", type=int, default=3, help="times that thirty jobs are run on one and on two workers"
    )
    parser.add_argument("--keep-tiny", action="store_true", help="keep the large study's figures that are there")
    parser.add_argument("--write", action="store_true", help="only put the figures that are there into docs/cluster.md")
    options = parser.parse_args()
    if not options.write:
        large = json.loads(options.out.read_text())["tiny"] if options.keep_tiny else None
        write(options.out, json.dumps(measure(options.tiny, options.rounds, large), indent=2))
    text = table(json.loads(options.out.read_text()))
    print(text)
    if options.out == RESULT:
        write(PAGE, placed(PAGE.read_text(), COMMAND, text).rstrip("\n"))


def measure(tiny: int, rounds: int, large: dict[str, float] | None) -> dict[str, Any]:
    about = provenance()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cohort = write_phantom(make_phantom("composition", slides=30, dim=64, patches=200, seed=31), Path(folder) / "c")
        large = large or many(cohort, Path(folder), tiny)  # first: the driver's memory has no earlier peak
        rows = []
        for turn in range(rounds):
            root = Path(folder) / str(turn)
            order = (1, 2) if turn % 2 else (2, 1)
            row: dict[str, Any] = {f"workers{count}": thirty(cohort, root, count) for count in order}
            rows.append({**row, "local": alone(cohort, root)})
            print(rows[-1], flush=True)
    return {"rounds": rows, "tiny": large, **about}


def table(found: dict[str, Any]) -> str:
    """What docs/cluster.md says."""
    rows, tiny = found["rounds"], found["tiny"]
    ratios = [row["workers2"]["seconds"] / row["workers1"]["seconds"] for row in rows]
    overheads = [(row["workers1"]["between"] - row["local"]["between"]) / (JOBS - 1) for row in rows]
    shown = {
        "one process without Ray": [row["local"]["seconds"] for row in rows],
        "Ray, one worker": [row["workers1"]["seconds"] for row in rows],
        "Ray, two workers": [row["workers2"]["seconds"] for row in rows],
    }
    start = median(row[key]["start"] for row in rows for key in ("workers1", "workers2"))
    return "\n".join(
        [
            f"| {JOBS} jobs of one thread | seconds, each of {len(rows)} rounds | median |",
            "| --- | --- | --- |",
            *(f"| {name} | {_each(values, 1)} | {median(values):.1f} |" for name, values in shown.items()),
            f"| two workers / one worker | {_each(ratios, 2)} | {median(ratios):.2f} |",
            f"| what Ray adds to a job, s | {', '.join(map(_seconds, overheads))} | {_seconds(median(overheads))} |",
            "",
            paragraph(
                f"Start-up, not counted above, takes {start:.0f} s: Ray itself, and each worker's imports",
                f"({where(found)}). A study of {tiny['jobs']:,} tiny jobs took {tiny['seconds']:.0f} s on two workers;",
                f"the driver's peak memory grew by {tiny['growth_mb']:.0f} MB, Ray's object store held",
                f"{_megabytes(tiny['store_mb'])}, no folder has more than {tiny['entries']} entries,",
                f"and there are {tiny['files']:,} files in all.",
            ),
        ]
    )


def _each(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def _seconds(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no minus before a zero


def _megabytes(most: float) -> str:
    return "less than 0.1 MB" if most < 0.1 else f"at most {most:.1f} MB"


def study_of(cohort: Path, seeds: int, **options: Any) -> Study:
    """Six jobs a seed: two methods, three folds."""
    source = cohort_spec({"labels": cohort / "labels.csv", "features": cohort / "features"})
    variants = {
        name: Settings.from_flat({**SMALL, "method": name, **options}) for name in ("abmil", "graph-abmil+jigsaw")
    }
    return Study(cohorts={"c": source}, variants=variants, folds=FOLDS, seeds=tuple(range(seeds)), memory_gb=0.2)


def thirty(cohort: Path, folder: Path, workers: int) -> dict[str, float]:
    import ray

    started = time.perf_counter()
    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        warm = folder / f"warm{workers}"
        on_ray(study_of(cohort, 1, epochs=1), warm)
        ready = time.perf_counter()
        between = on_ray(study_of(cohort, 5, epochs=30), folder / f"run{workers}")
        return {"start": ready - started, "seconds": time.perf_counter() - ready, "between": between}
    finally:
        ray.shutdown()


def alone(cohort: Path, folder: Path) -> dict[str, float]:
    run_local(plan(study_of(cohort, 1, epochs=1), folder / "warm")[0], 1, lambda event: None)
    jobs = plan(study_of(cohort, 5, epochs=30), folder / "local")[0]
    started, ends = time.perf_counter(), []
    run_local(jobs, 1, lambda event: ends.append(time.perf_counter()) if event.ended else None)
    return {"start": 0.0, "seconds": time.perf_counter() - started, "between": ends[-1] - ends[0]}


def many(cohort: Path, folder: Path, count: int) -> dict[str, float]:
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    out = folder / "many"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    ended = threading.Event()
    store: list[float] = [0.0]

    def watch() -> None:
        while not ended.wait(1.0):
            free = ray.available_resources().get("object_store_memory", 0.0)
            store.append(ray.cluster_resources()["object_store_memory"] - free)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        jobs, cohorts = plan(study_of(cohort, -(-count // 6), epochs=1), out)
        failed = run(jobs[:count], cohorts, out)
    finally:
        ended.set()
        watcher.join()
        ray.shutdown()
    if failed:
        raise SystemExit(f"{len(failed)} of {count} jobs failed; the first: {failed[0]}")
    seconds = time.perf_counter() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024  # Linux states kilobytes
    entries = [len(list(path.iterdir())) for path in [out, *out.rglob("*")] if path.is_dir()]
    return {
        "jobs": count,
        "seconds": seconds,
        "growth_mb": grown,
        "store_mb": max(store) / 1e6,
        "entries": max(entries),
        "files": sum(path.is_file() for path in out.rglob("*")),
    }


def on_ray(study: Study, out: Path) -> float:
    """Seconds from the end of the first job to the end of the last: what starting a worker takes is not in it."""
    ends: list[float] = []
    failed = run(*plan(study, out), out, ends)
    if failed:
        raise SystemExit(f"{len(failed)} jobs failed; the first: {failed[0]}")
    return ends[-1] - ends[0]


def run(jobs: Sequence[Job], cohorts: Any, out: Path, ends: list[float] | None = None) -> list[str]:
    failed: list[str] = []

    def listen(event: Event) -> None:
        if event.ended and ends is not None:
            ends.append(time.perf_counter())
        if event.error is not None:
            failed.append(event.error)

    run_on_ray(jobs, cohorts, out, listen)
    return failed


if __name__ == "__main__":
    main()
