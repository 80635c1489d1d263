"""The tissue that is found beside the painted truth, and how long a look at a slide takes.

    .venv/bin/python -m benchmarks.evidence.tissue            # measures, and writes docs/slides.md
    .venv/bin/python -m benchmarks.evidence.tissue --write    # only the page, from results/tissue.json

The limits of the mask were set on other slides of the same painter. Seconds are of one thread's processor time; real
slides are measured where ../shared/data/slides is at hand.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch
from PIL import Image

from jigsawmil.slides.slide import open_slide
from jigsawmil.slides.tiles import make_tiles
from jigsawmil.slides.tissue import find_tissue, tissue_mask
from jigsawmil.synthetic.painted import plans, write_painted
from jigsawmil.synthetic.painter import Plan, paint, write_slide
from jigsawmil.synthetic.phantom_options import phantom_spec

from .. import RESULTS, ROOT, placed, provenance, where, write

RESULT, PAGE = RESULTS / "tissue.json", ROOT / "docs" / "slides.md"
COMMAND = "benchmarks.evidence.tissue --write"
REAL = {"cmu-small-region.svs": None, "tcga-cr-7395.svs": 0.5}  # the second does not say its resolution
SLIDES, SEED = 20, 11


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="only put the figures that are there into docs/slides.md")
    if not parser.parse_args().write:
        torch.set_num_threads(1)
        about = provenance()
        with tempfile.TemporaryDirectory() as folder:
            found = {"iou": overlaps(Path(folder) / "painted"), "seconds": times(Path(folder))}
        write(RESULT, json.dumps({**found, **about}, indent=2))
    text = table(json.loads(RESULT.read_text()))
    print(text)
    write(PAGE, placed(PAGE.read_text(), COMMAND, text).rstrip("\n"))


def table(found: dict[str, Any]) -> str:
    """What docs/slides.md says."""
    iou = found["iou"]
    least = f"IoU {np.mean(iou):.3f} on average, {min(iou):.3f} at worst"
    rows = [f"| mask against truth on {len(iou)} painted slides, with pen strokes and frames | {least} |"]
    rows += [f"| {name} | {_seconds(value)} |" for name, value in found["seconds"].items()]
    about = f"Processor time of one thread, median of five ({where(found)})."
    return "\n".join(["| what | result |", "| --- | --- |", *rows, "", about])


def overlaps(folder: Path) -> list[float]:
    spec = phantom_spec("composition", slides=SLIDES, seed=SEED, patches=100, spread=0.15, clump=5, dim=16)
    write_painted(plans(spec), folder, seed=SEED, artefacts=True)
    found = []
    for path in sorted((folder / "slides").glob("*.tif")):
        truth = np.asarray(Image.open(folder / "truth" / f"{path.stem}_tissue.png")) > 0
        with open_slide(path) as slide:
            drawn = Image.fromarray(find_tissue(slide).mask)
        mask = np.asarray(drawn.resize(truth.shape[::-1], Image.Resampling.NEAREST))
        found.append(float((mask & truth).sum() / (mask | truth).sum()))
    return found


def times(folder: Path) -> dict[str, float]:
    """Seconds."""
    found = {}
    for name, mpp in REAL.items():
        path = ROOT.parent / "shared" / "data" / "slides" / name
        if path.exists():
            with open_slide(path, mpp) as slide:
                stated = "" if mpp is None else f", as if at {mpp} microns"
                what = f"mask and tiles of `{name}`, {slide.size[0]:,} x {slide.size[1]:,} pixels{stated}"
                found[what] = seconds(lambda slide=slide: make_tiles(slide, find_tissue(slide)))  # type: ignore[misc]
    rng = np.random.default_rng(SEED)
    cells = np.stack(np.meshgrid(np.arange(12), np.arange(12)), axis=-1).reshape(-1, 2)
    plan = Plan(cells, rng.integers(0, 3, len(cells)), ("tumour", "stroma", "fat"))
    square = folder / "square.tif"
    size = paint(plan, rng).image.shape[:2]
    what = f"painting and writing a slide of {size[1]:,} x {size[0]:,} pixels"
    found[what] = seconds(lambda: write_slide(paint(plan, np.random.default_rng(0)).image, square))
    with open_slide(square) as slide:
        tiles = make_tiles(slide, find_tissue(slide))
        hundred = seconds(lambda: [tiles.read(slide, index) for index in range(100)])
        found["reading a tile of 256 pixels from a deflated TIFF"] = hundred / 100
        thumbnail = slide.thumbnail_at(8.0).image
    large = np.tile(thumbnail, (-(-2600 // thumbnail.shape[0]), -(-3300 // thumbnail.shape[1]), 1))[:2600, :3300]
    found["mask of a slide of 26 x 21 mm, 8.6 million thumbnail pixels"] = seconds(lambda: tissue_mask(large, 8.0))
    return found


def seconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        start = process_time()
        work()
        taken.append(process_time() - start)
    return median(taken)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.1 else f"{1000 * value:.1f} ms"


if __name__ == "__main__":
    main()
