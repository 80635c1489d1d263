"""Extraction beside the bare encoder, and what the whole way from painted slides gives.

    .venv/bin/python examples/from_slides.py --out from-slides      # first: paint, extract, compare, train, predict
    .venv/bin/python -m benchmarks.extract --example from-slides

Speed: a slide is extracted anew (tissue, tiles, reading, encoding, writing), then its tiles, read beforehand, pass
through the encoder alone; the two alternate, so that noise hits both alike. Truth: the painter's masks and types.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score

from jigsawmil.slides.encoders import Encoder, encode, load_encoder
from jigsawmil.slides.extract import ExtractSettings, extract_slide, read_batches
from jigsawmil.slides.painter import Plan, paint, write_slide
from jigsawmil.slides.slide import open_slide
from jigsawmil.slides.tiles import make_tiles
from jigsawmil.slides.tissue import find_tissue
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.explain import PatchMaps, explain

from . import ROOT, provenance, write

ENCODER = "efficientnet-lite0"
FEATURES = f"20x_256px_0px_overlap/features_{ENCODER}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--example", type=Path, default=Path("from-slides"), help="what examples/from_slides.py wrote")
    parser.add_argument("--rounds", type=int, default=5, help="times that each of the two is measured")
    parser.add_argument("--edge", type=int, default=20, help="tiles along the edge of the slide that is measured")
    parser.add_argument("--threads", type=int, default=1, help="of the encoder; reading has two of its own")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "extract.json")
    options = parser.parse_args()
    about = provenance()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        measured = speed(paint_square(options.edge, Path(folder)), load_encoder(ENCODER), options.rounds)
    slides = sorted((options.example / "painted" / "slides").glob("*.tif"))
    about_run = {"encoder": ENCODER, "threads": options.threads}
    found = {**about_run, **measured, **quality(options.example, slides)}
    write(options.out, json.dumps({**found, **about}, indent=2))
    for key, value in found.items():
        print(f"{key}: {value}")


def paint_square(edge: int, folder: Path) -> Path:
    """A slide of edge x edge tiles of five types: most of its time is encoding, as with real ones."""
    cells = np.stack(np.meshgrid(np.arange(edge), np.arange(edge)), axis=-1).reshape(-1, 2)
    rng = np.random.default_rng(0)
    plan = Plan(cells, rng.integers(0, 5, len(cells)), ("tumour", "stroma", "lymphocytes", "fat", "necrosis"))
    write_slide(paint(plan, rng).image, folder / "square.tif")
    return folder / "square.tif"


def speed(slide: Path, encoder: Encoder, rounds: int) -> dict[str, Any]:
    """Extraction and the bare encoder on the same tiles, alternating; ratios of each pair, and their median."""
    settings = ExtractSettings(workers=2)
    pairs: list[dict[str, float]] = []
    batches = preloaded(slide, settings)
    encode(encoder, batches[0])  # the first call is slower
    for _ in range(rounds):
        start, cpu = perf_counter(), process_time()
        with tempfile.TemporaryDirectory() as out:
            one = extract_slide(slide, Path(out), encoder, settings)
        middle, middle_cpu = perf_counter(), process_time()
        for tiles in batches:
            encode(encoder, tiles)
        bare, bare_cpu = perf_counter() - middle, process_time() - middle_cpu
        times = {"extract": middle - start, "bare": bare, "extract_cpu": middle_cpu - cpu, "bare_cpu": bare_cpu}
        pairs.append({"tiles": one.tiles, "waited": one.waited, **times})
        print({key: round(value, 2) for key, value in pairs[-1].items()}, flush=True)
    return {
        "tiles_per_second": median(pair["tiles"] / pair["extract"] for pair in pairs),
        "tiles_per_cpu_second": median(pair["tiles"] / pair["extract_cpu"] for pair in pairs),
        "bare_tiles_per_second": median(pair["tiles"] / pair["bare"] for pair in pairs),
        "of_the_bare_encoder": median(pair["bare"] / pair["extract"] for pair in pairs),
        "of_the_bare_encoder_cpu": median(pair["bare_cpu"] / pair["extract_cpu"] for pair in pairs),
        "waited_share": median(pair["waited"] / pair["extract"] for pair in pairs),
        "waited_seconds": median(pair["waited"] for pair in pairs),
        "pairs": pairs,
    }


def preloaded(path: Path, settings: ExtractSettings) -> list[torch.Tensor]:
    with open_slide(path) as slide:
        return list(read_batches(slide, make_tiles(slide, find_tissue(slide)), 1, settings.at_once))


def quality(example: Path, slides: Sequence[Path]) -> dict[str, Any]:
    overlaps = [mask_iou(example, slide.stem) for slide in slides]
    summary = pd.read_csv(example / "run" / "summary.csv")
    aligned = [alignment(example, slide) for slide in sorted((example / "new" / "slides").glob("*.tif"))]
    return {
        "slides": len(slides),
        "tiles": int(pd.read_csv(example / "features" / FEATURES / "extracted.csv")["tiles"].sum()),
        "mask_iou_mean": float(np.mean(overlaps)),
        "mask_iou_least": float(np.min(overlaps)),
        "auc": {str(row["method"]): float(row["auc_oof"]) for row in summary.to_dict("records")},
        "evidence_alignment": [found["evidence"] for found in aligned],
        "attention_alignment": [found["attention"] for found in aligned],
    }


def mask_iou(example: Path, name: str) -> float:
    """Of the tissue that extraction found with the painted one, pixel by pixel of the finer of the two."""
    truth = np.asarray(Image.open(example / "painted" / "truth" / f"{name}_tissue.png")) > 0
    found = Image.open(example / "features" / "contours" / f"{name}.png")
    mask = np.asarray(found.resize(truth.shape[::-1], Image.Resampling.NEAREST)) > 0
    return float((mask & truth).sum() / (mask | truth).sum())


def alignment(example: Path, slide: Path) -> dict[str, float]:
    """ROC-AUC with which a map tells the tiles that are mostly tumour from the others, on a slide that no training saw;
    1: all evidence for tumour lies in tumour, 0.5: no better than by chance."""
    truth = json.loads((example / "new" / "truth" / "truth.json").read_text())
    types = np.asarray(Image.open(example / "new" / "truth" / f"{slide.stem}_types.png"))
    maps = maps_of(example, slide)
    edge = int(maps.bag.patch_size or 0) // truth["scale"]
    planted = 1 + truth["types"].index("tumour")
    inside = []
    for x, y in (maps.coords / truth["scale"]).astype(int):
        tile = types[y : y + edge, x : x + edge]
        inside.append((tile == planted).sum() > 0.5 * max(1, (tile > 0).sum()))
    told = len(set(inside)) == 2
    scores = {"evidence": maps.evidence_for("tumour"), "attention": maps.attention}
    return {name: float(roc_auc_score(inside, score)) if told else float("nan") for name, score in scores.items()}


def maps_of(example: Path, slide: Path) -> PatchMaps:
    model, card = load_model(example / "model")
    [maps] = explain(model, card, example / "predictions-features" / FEATURES / f"{slide.stem}.h5", neighbours=False)
    return maps


if __name__ == "__main__":
    main()
