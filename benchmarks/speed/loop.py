"""The training loop beside the bare step: what reading, feeding, lambda, clipping and bookkeeping cost.

    .venv/bin/python -m benchmarks.speed.loop                 # 100 slides of 3,278 x 1024, five methods, 3 epochs each
    .venv/bin/python -m benchmarks.speed.loop --epochs 20

Slides lie on disk in TRIDENT's layout; the loop is `fit`, reading through the feed within the stated memory. After the
first epoch, in which slides are read and graphs built, epochs of the loop alternate with passes of bare steps over the
same prepared slides, so that noise hits both alike.
"""

import argparse
import dataclasses
import json
import resource
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

from jigsawmil.bags.formats import write_bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.graph_config import GraphConfig, Raster
from jigsawmil.nn.model import METHODS, build_model
from jigsawmil.nn.options import PAPER_METHODS
from jigsawmil.train.config import TrainConfig
from jigsawmil.train.feed import Feed
from jigsawmil.train.fit import fit
from jigsawmil.train.progress import Epoch

from .. import RESULTS, provenance, write
from .contenders import tissue_slide, train_ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--slides", type=int, default=100)
    parser.add_argument("--patches", type=int, default=3278)
    parser.add_argument("--epochs", type=int, default=3, help="timed epochs, after the one that reads")
    parser.add_argument("--memory-gb", type=float, default=4.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "loop.json")
    options = parser.parse_args()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        cohort = write_cohort(Path(folder), options.slides, options.patches)
        rows = [measure(name, cohort, options.epochs, options.memory_gb) for name in PAPER_METHODS]
    print("\n| method | first epoch, s | loop, ms a slide | bare step, ms a slide | loop / bare |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows:
        figures = (row["first_epoch_s"], row["loop_ms"], row["bare_ms"], row["ratio"])
        print("| {} | {:.1f} | {:.1f} | {:.1f} | {:.2f} |".format(row["method"], *figures))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # Linux states kilobytes
    print(f"\npeak memory of the process {peak:.1f} GB, of which at most {options.memory_gb} GB prepared slides")
    about = {"slides": options.slides, "patches": options.patches, "peak_gb": peak, **provenance()}
    write(options.out, json.dumps({"rows": rows, **about}, indent=2) + "\n")


def write_cohort(folder: Path, slides: int, patches: int) -> Cohort:
    """Random features: speed does not ask what they mean."""
    lines = ["slide_id,label"]
    for index in range(slides):
        bag = dataclasses.replace(tissue_slide(patches, seed=index), slide_id=f"{index:04d}")
        write_bag(bag, folder / "features" / f"{bag.slide_id}.h5")
        lines.append(f"{bag.slide_id},{index % 2}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return Cohort.read(folder / "labels.csv", folder / "features")


def measure(method: str, cohort: Cohort, epochs: int, memory_gb: float) -> dict[str, float | str]:
    """Median seconds a slide of whole epochs of `fit` and of bare steps, alternating."""
    print(f"{method} ...", flush=True)
    feed = Feed(cohort, GraphConfig() if METHODS[method].graph else None, Raster(), memory_gb=memory_gb)
    bags = list(range(len(feed)))
    step = train_ours(method)
    loop, bare = [], []

    def on_epoch(epoch: Epoch) -> None:
        """Between two epochs of the loop, one of bare steps over the same slides in the same memory."""
        loop.append(epoch.seconds / len(bags))
        start = time.perf_counter()
        for bag in bags:
            step(feed.batch([bag]))
        bare.append((time.perf_counter() - start) / len(bags))

    config = TrainConfig(epochs=epochs + 1, patience=0)
    fit(build_model(method, cohort.dim), feed, bags, [], config, seed=0, on_epoch=on_epoch)
    times = {"loop_ms": median(loop[1:]) * 1e3, "bare_ms": median(bare[1:]) * 1e3}
    first = loop[0] * len(bags)
    return {"method": method, "first_epoch_s": first, **times, "ratio": times["loop_ms"] / times["bare_ms"]}


if __name__ == "__main__":
    main()
