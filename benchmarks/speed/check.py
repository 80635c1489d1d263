"""How long `jigsawmil check` takes on many small feature files: `python -m benchmarks.speed.check [--slides 10000]`.

The files are drawn once and read twice; the second time, with all of them in the cache of the system, counts. Printed
are seconds on the clock and seconds of the processor, of this process and the one that opens HDF5 files first."""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

PATCHES, DIM = 20, 32


def write_cohort(folder: Path, slides: int) -> tuple[Path, Path]:
    """A label table and features in TRIDENT's layout."""
    rng, features = np.random.default_rng(0), folder / "features"
    features.mkdir()
    grid = np.stack(np.meshgrid(np.arange(5), np.arange(4)), -1).reshape(-1, 2) * 512
    for index in range(slides):
        with h5py.File(features / f"slide{index:05}.h5", "w") as file:
            file["features"] = rng.normal(size=(PATCHES, DIM)).astype(np.float32)
            file["coords"] = grid
            file["coords"].attrs.update(patch_size=256, patch_size_level0=512, level0_magnification=40)
    labels = folder / "labels.csv"
    rows = [f"slide{index:05},{'AB'[index % 2]}\n" for index in range(slides)]
    labels.write_text("slide_id,label\n" + "".join(rows))
    return labels, features


def spent() -> float:
    """Seconds of the processor: of this process and those that it has ended."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in (own, children))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slides", type=int, default=10000)
    slides = parser.parse_args().slides
    from jigsawmil.bags.formats import hdf5
    from jigsawmil.cohort.cohort import check

    with tempfile.TemporaryDirectory() as folder:
        cohort = write_cohort(Path(folder), slides)
        for turn in ("first", "warm"):
            clock, processor = time.perf_counter(), spent()
            report = check(*cohort)
            hdf5.stop()  # so that the other process counts
            print(
                f"{turn}: {len(report.entries)} slides, {time.perf_counter() - clock:.1f} s on the clock, "
                f"{spent() - processor:.1f} s of the processor"
            )


if __name__ == "__main__":
    main()
