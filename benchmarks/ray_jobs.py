"""Studies on Ray: does a second worker halve the time, what does Ray add to a job, do a thousand jobs flood anything?

    .venv/bin/python -m benchmarks.ray_jobs

Jobs are fits on phantom slides, one thread each. One worker and two workers run the same thirty jobs on a fresh
cluster of one node; start-up (the cluster, and the first job of each worker, which imports everything) is stated and
not counted. Overhead is the time of a job on Ray beyond the seconds of the very same job in this process.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from jigsawmil.cohort.phantom import make_phantom, write_phantom
from jigsawmil.study.executors import Event, run_local
from jigsawmil.study.on_ray import run_on_ray
from jigsawmil.study.run import Job
from jigsawmil.study.study import Study, cohort_spec, make_settings, plan

from . import ROOT, provenance, write

SMALL = {"hidden": 16, "attention_dim": 8, "grid": 3, "k": 4, "patience": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "ray_jobs.json")
    parser.add_argument("--tiny", type=int, default=1000, help="jobs of the large study")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cohort = write_phantom(make_phantom("composition", slides=30, dim=64, patches=200, seed=31), Path(folder) / "c")
        rows = {f"{workers} workers": thirty(cohort, Path(folder), workers) for workers in (1, 2)}
        rows["local, one process"] = alone(cohort, Path(folder))
        tiny = many(cohort, Path(folder), options.tiny)
    ratio = rows["2 workers"]["seconds"] / rows["1 workers"]["seconds"]
    overhead = (rows["1 workers"]["seconds"] - rows["local, one process"]["seconds"]) / 30
    print("\n| thirty jobs | seconds | start-up, s |\n| --- | --- | --- |")
    for name, row in rows.items():
        print(f"| {name} | {row['seconds']:.1f} | {row['start']:.1f} |")
    print(f"\ntwo workers / one worker {ratio:.2f}; Ray adds {overhead:.2f} s to a job")
    print(
        f"{tiny['jobs']} tiny jobs: {tiny['seconds']:.0f} s, driver's peak memory grew by {tiny['growth_mb']:.0f} MB, "
        f"most entries in a folder {tiny['entries']}, files in all {tiny['files']}"
    )
    about = {"rows": rows, "ratio": ratio, "overhead_s": overhead, "tiny": tiny, **provenance()}
    write(options.out, json.dumps(about, indent=2))


def study_of(cohort: Path, seeds: int, **options: Any) -> Study:
    """Six jobs a seed: two methods, three folds."""
    source = cohort_spec({"labels": cohort / "labels.csv", "features": cohort / "features"})
    variants = {name: make_settings({**SMALL, "method": name, **options}) for name in ("abmil", "graph-abmil+jigsaw")}
    return Study(cohorts={"c": source}, variants=variants, seeds=tuple(range(seeds)), memory_gb=0.2)


def thirty(cohort: Path, folder: Path, workers: int) -> dict[str, float]:
    import ray

    started = time.perf_counter()
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        warm = folder / f"warm{workers}"
        on_ray(study_of(cohort, 1, epochs=1), warm)
        ready = time.perf_counter()
        on_ray(study_of(cohort, 5, epochs=30), folder / f"run{workers}")
        return {"start": ready - started, "seconds": time.perf_counter() - ready}
    finally:
        ray.shutdown()


def alone(cohort: Path, folder: Path) -> dict[str, float]:
    run_local(plan(study_of(cohort, 1, epochs=1), folder / "warm")[0], 1, lambda event: None)
    jobs = plan(study_of(cohort, 5, epochs=30), folder / "local")[0]
    started = time.perf_counter()
    run_local(jobs, 1, lambda event: None)
    return {"start": 0.0, "seconds": time.perf_counter() - started}


def many(cohort: Path, folder: Path, count: int) -> dict[str, float]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    out = folder / "many"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    try:
        jobs, cohorts = plan(study_of(cohort, -(-count // 6), epochs=1), out)
        failed = run(jobs[:count], cohorts, out)
    finally:
        ray.shutdown()
    if failed:
        raise SystemExit(f"{len(failed)} of {count} jobs failed; the first: {failed[0]}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024  # Linux states kilobytes
    entries = [len(list(path.iterdir())) for path in [out, *out.rglob("*")] if path.is_dir()]
    files = sum(path.is_file() for path in out.rglob("*"))
    seconds = time.perf_counter() - started
    return {"jobs": count, "seconds": seconds, "growth_mb": grown, "entries": max(entries), "files": files}


def on_ray(study: Study, out: Path) -> None:
    failed = run(*plan(study, out), out)
    if failed:
        raise SystemExit(f"{len(failed)} jobs failed; the first: {failed[0]}")


def run(jobs: Sequence[Job], cohorts: Any, out: Path) -> list[str]:
    failed: list[str] = []

    def listen(event: Event) -> None:
        if event.error is not None:
            failed.append(event.error)

    run_on_ray(jobs, cohorts, out, listen)
    return failed


if __name__ == "__main__":
    main()
