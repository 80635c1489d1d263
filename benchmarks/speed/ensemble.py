"""Processor time of training an ensemble beside one model and torchmil's ABMIL: `python -m benchmarks.speed.ensemble`.

A training costs epochs x slides fitted x time per slide. So a few slides and epochs tell what a 100-slide cohort costs:
every kind of model that an ensemble has is fitted for a few epochs, and an ensemble costs the sum of its members. After
the first epoch, which also reads slides and builds graphs, the median over epochs is taken. Epochs are the same for
all; in a real training each model stops at its own. Slides are those of `loop.py`, features random.

torchmil's ABMIL has the layers of our `abmil` and runs in a plain loop over the same slides, kept in memory; without
torchmil its row is left out. One thread, since idle threads that wait would count as work.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.graph_config import Raster
from jigsawmil.nn.model import seeded_model
from jigsawmil.train.feed import Feed
from jigsawmil.train.fit import fit
from jigsawmil.train.settings import Settings

from .. import RESULTS, provenance, write
from .contenders import ABMIL, CONTENDERS, OURS
from .loop import write_cohort

COMMAND = "python -m benchmarks.speed.ensemble"
OUT = RESULTS / "ensemble.json"
DEFAULT = "default settings"
TRAININGS: Mapping[str, Settings] = {
    DEFAULT: Settings(),
    OURS: Settings(method=OURS, members=1),
    f"{OURS} x 5": Settings(method=OURS, members=5),
    "committee": Settings(method="committee", members=1),
    "abmil": Settings(method="abmil", members=1),
}
Times = Mapping[str, float]  # processor seconds per slide: `first`, of the epoch that reads; `later`, of an epoch


def times_of(marks: list[float], slides: int) -> Times:
    """marks: the processor's clock before the first epoch and after each."""
    each = np.diff(marks) / slides
    return {"first": float(each[0]), "later": median(each[1:].tolist())}


def fit_one(own: Settings, cohort: Cohort, epochs: int) -> Times:
    """A single model."""
    feed = Feed(cohort, own.graph if own.needs_graph else None, own.model.raster, memory_gb=4)
    model = seeded_model(own.model_config(cohort.dim, cohort.task, len(cohort.classes)), 0)
    config, marks = own.replace(epochs=epochs + 1, patience=0).train, [time.process_time()]
    bags = list(range(len(feed)))
    fit(model, feed, bags, [], config, seed=0, on_epoch=lambda epoch: marks.append(time.process_time()))
    return times_of(marks, len(feed))


def fit_torchmil(cohort: Cohort, epochs: int) -> Times:
    feed, step = Feed(cohort, None, Raster(), memory_gb=4), CONTENDERS[ABMIL].build()
    marks = [time.process_time()]
    for _ in range(epochs + 1):
        for bag in range(len(feed)):
            step((feed.batch([bag]).features[None],))
        marks.append(time.process_time())
    return times_of(marks, len(feed))


def measure(cohort: Cohort, epochs: int) -> list[dict[str, Any]]:
    """A row per training; a kind of model that several have is fitted once."""
    known: dict[Settings, Times] = {}
    rows = []
    for name, settings in TRAININGS.items():
        members = settings.each_member()
        for own in members:
            if own not in known:
                known[own] = fit_one(own, cohort, epochs)
                print(f"a member of {name}: {known[own]['later'] * 1e3:.0f} ms per slide and epoch", flush=True)
        rows.append({"name": name, "models": len(members), **total([known[own] for own in members])})
    try:
        rows.append({"name": ABMIL, "models": 1, **fit_torchmil(cohort, epochs)})
    except ImportError:
        print("torchmil is not installed: its row is left out")
    return rows


def total(each: Sequence[Times]) -> Times:
    return {name: sum(times[name] for times in each) for name in ("first", "later")}


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.split("\n")[0])
    parser.add_argument("--slides", type=int, default=6)
    parser.add_argument("--patches", type=int, default=3278)
    parser.add_argument("--epochs", type=int, default=3, help="timed epochs, after the one that reads")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cohort = write_cohort(Path(folder), options.slides, options.patches)
        rows = measure(cohort, options.epochs)
    about = {"slides": options.slides, "patches": options.patches, "dim": cohort.dim, "epochs": options.epochs}
    write(options.out, json.dumps({"rows": rows, **about, **provenance()}, indent=2))
    for row in rows:
        print(f"{row['name']}: {row['models']} models, {row['later'] * 1e3:.0f} ms per slide and epoch")
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
