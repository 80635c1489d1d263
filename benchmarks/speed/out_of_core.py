"""A cohort that memory cannot hold beside one that it holds, and `check` on many files.

    .venv/bin/python -m benchmarks.speed.out_of_core                               # a try: 16 slides, no file written
    .venv/bin/python -m benchmarks.speed.out_of_core --slides 400 --files 10000    # writes results/out_of_core.json

Slides of 3,278 x 1024 in float16 lie on disk as TRIDENT writes them, in HDF5 chunks of one row. The same model gets the
same slides in several ways, an epoch of each in turn, so that noise hits all alike; a first epoch, which reads and
keeps, is stated apart:

- memory: everything is held in memory;
- disk: memory for a quarter; the rest is mapped from the cache on disk;
- disk, cold: the same, with the cache's files dropped from the system's memory before each epoch (Linux);
- again: memory for a quarter, no cache: the rest is read from HDF5 and prepared each time.

Rates are slides per second; their ratios to `memory` are what counts. `check` looks into copies of short files.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import h5py
import numpy as np
import torch

from jigsawmil.bags.disk_cache import FOLDER, SIZE
from jigsawmil.cohort.cohort import Cohort, check
from jigsawmil.nn.model import build_model
from jigsawmil.train.feed import Feed
from jigsawmil.train.fit import one_pass
from jigsawmil.train.settings import Settings
from jigsawmil.train.training import Training

from .. import RESULTS, provenance, write
from .contenders import D1, OURS, PATCH, tissue_slide

COMMAND = "python -m benchmarks.speed.out_of_core"
TRIED = 16  # slides of a try
MEMORY, DISK, COLD, AGAIN = "memory", "disk", "disk, cold", "again"
Times = dict[str, float]  # seconds of the clock and of the processor


def write_slide(path: Path, patches: int, seed: int) -> None:
    """As TRIDENT does: chunks of one row, which can grow."""
    bag = tissue_slide(patches, seed)
    with h5py.File(path, "w") as file:
        for name, values in (
            ("features", bag.features.half().numpy()),
            ("coords", bag.coords.numpy().astype(np.int64)),
        ):
            width = values.shape[1]
            file.create_dataset(name, data=values, chunks=(1, width), maxshape=(None, width))
        file["coords"].attrs.update({"patch_size": PATCH, "patch_size_level0": PATCH, "patch_level": 0})


def write_cohort(folder: Path, slides: int, patches: int) -> Cohort:
    (folder / "features").mkdir()
    for index in range(slides):
        write_slide(folder / "features" / f"{index:05d}.h5", patches, index)
    lines = [f"{index:05d},{index % 2}" for index in range(slides)]
    (folder / "labels.csv").write_text("\n".join(["slide_id,label", *lines]) + "\n")
    return Cohort.read(folder / "labels.csv", folder / "features")


class Way:
    """One way of feeding a model, with the seconds of each of its epochs."""

    def __init__(self, cohort: Cohort, settings: Settings, memory_gb: float, cache_gb: float) -> None:
        with environment(**{SIZE: str(cache_gb)}):
            self.feed = Feed(cohort, settings.graph, settings.model.raster, memory_gb=memory_gb)
        self.training = Training(build_model(settings.method, cohort.dim), settings.train)
        self.epochs: list[Times] = []

    def epoch(self) -> None:
        clock, processor = time.perf_counter(), time.process_time()
        generator = torch.Generator().manual_seed(len(self.epochs))
        one_pass(self.training, self.feed, range(len(self.feed)), generator)
        self.epochs.append({"clock": time.perf_counter() - clock, "processor": time.process_time() - processor})

    def later(self, kind: str) -> float:
        return median(times[kind] for times in self.epochs[1:])


def measure(cohort: Cohort, settings: Settings, epochs: int, cache: Path) -> dict[str, Any]:
    one = Feed(cohort, settings.graph, settings.model.raster).batch([0]).nbytes
    whole = one * len(cohort) / 1e9
    budgets = {MEMORY: (2 * whole, 0.0), DISK: (whole / 4, 1e3), COLD: (whole / 4, 1e3), AGAIN: (whole / 4, 0.0)}
    with environment(**{FOLDER: str(cache)}):
        ways = {name: Way(cohort, settings, *budget) for name, budget in budgets.items()}
        for number in range(epochs + 1):
            for name, way in ways.items():
                if name == COLD:
                    drop(cache)
                way.epoch()
                print(f"epoch {number} {name}: {way.epochs[-1]['clock']:.1f} s", flush=True)
    rows = {
        name: {
            "first_epoch_s": way.epochs[0]["clock"],
            "rate": len(cohort) / way.later("clock"),
            **{kind: ways[MEMORY].later(kind) / way.later(kind) for kind in ("clock", "processor")},
        }
        for name, way in ways.items()
    }
    return {"prepared_gb": whole, "memory_gb": whole / 4, "rows": rows}


def drop(folder: Path) -> None:
    """Ask the system to forget what it holds of the files in a folder."""
    for path in folder.glob("*") if hasattr(os, "posix_fadvise") else ():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def check_many(folder: Path, files: int) -> dict[str, float]:
    """Seconds of `check` on so many files, the first time and the second."""
    (folder / "features").mkdir(parents=True)
    write_slide(folder / "first.h5", 200, 0)
    for index in range(files):
        with h5py.File(shutil.copyfile(folder / "first.h5", folder / "features" / f"{index:05d}.h5"), "r+") as file:
            file["features"][:, 0] = index  # no two of them are the same
    lines = [f"{index:05d},{index % 2}" for index in range(files)]
    (folder / "labels.csv").write_text("\n".join(["slide_id,label", *lines]) + "\n")
    return {name: timed(lambda: check(folder / "labels.csv", folder / "features")) for name in ("first", "warm")}


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.split("\n")[0])
    parser.add_argument("--slides", type=int, default=TRIED)
    parser.add_argument("--patches", type=int, default=3278)
    parser.add_argument("--epochs", type=int, default=3, help="timed epochs of each way, after the first")
    parser.add_argument("--files", type=int, default=200, help="for check")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the files are made and removed; a temporary one by default")
    parser.add_argument("--out", type=Path, help="by default results/out_of_core.json of 400 slides or more")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings, about = Settings(method=OURS), provenance()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        found = measure(
            write_cohort(folder, options.slides, options.patches), settings, options.epochs, folder / "cache"
        )
        seconds = check_many(folder / "many", options.files)
    size = f"{options.slides} slides of {options.patches:,} x {D1}, {found['prepared_gb']:.2f} GB prepared"
    print(f"\n{size}, memory for a quarter, {options.threads} threads\n")
    print("| way | first epoch, s | slides per second | rate / memory | the same by processor time |")
    print("| --- | --- | --- | --- | --- |")
    for way, row in found["rows"].items():
        print("| {} | {:.1f} | {:.2f} | {:.2f} | {:.2f} |".format(way, *row.values()))
    print(f"\ncheck of {options.files:,} files: {seconds['first']:.1f} s, warm {seconds['warm']:.1f} s")
    if out := options.out or (RESULTS / "out_of_core.json" if options.slides >= 400 else None):
        found |= {"check": {"files": options.files, **seconds}, **{k: str(v) for k, v in vars(options).items()}}
        write(out, json.dumps({**found, **about}, indent=2))
        print(f"Written to {out}")


if __name__ == "__main__":
    main()
