"""Extraction beside the bare encoder, and what the whole way from painted slides gives.

    .venv/bin/python examples/from_slides.py --out from-slides      # first: paint, extract, compare, train, predict
    .venv/bin/python -m benchmarks.speed.extract --example from-slides    # measures, and writes docs/extract.md
    .venv/bin/python -m benchmarks.speed.extract --write                  # only the page, from results/extract.json

Speed: a slide is extracted anew (tissue, tiles, reading, encoding, writing), then its tiles, read beforehand, pass
through the encoder alone, in a process of its own as a person would start one; the two alternate, so that noise hits
both alike. The same in the process of extraction, which keeps its memory, is stated beside it. Truth: the painter's
masks and types.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score

from jigsawmil.maps.patch_maps import PatchMaps, explain
from jigsawmil.slides.encoders import encode, load_encoder
from jigsawmil.slides.extract_one import ExtractSettings, extract_slide, keep_memory, read_batches
from jigsawmil.slides.slide import open_slide
from jigsawmil.slides.tiles import make_tiles
from jigsawmil.slides.tissue import find_tissue
from jigsawmil.synthetic.painter import Plan, paint, write_slide
from jigsawmil.train.checkpoint import load_model

from .. import RESULTS, ROOT, paragraph, placed, provenance, where, write

ENCODER = "efficientnet-lite0"
RESULT, PAGE = RESULTS / "extract.json", ROOT / "docs" / "extract.md"
COMMAND = "benchmarks.speed.extract --write"
FEATURES = f"20x_256px_0px_overlap/features_{ENCODER}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--example", type=Path, default=Path("from-slides"), help="what examples/from_slides.py wrote")
    parser.add_argument("--rounds", type=int, default=6, help="times that each of the two is measured")
    parser.add_argument("--edge", type=int, default=20, help="tiles along the edge of the slide that is measured")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--write", action="store_true", help="only put the figures that are there into docs/extract.md")
    options = parser.parse_args()
    if not options.write:
        about = provenance()
        if not (options.example / "run" / "summary.csv").exists():
            parser.error(f"--example {options.example}: no run in it. First: examples/from_slides.py --out ...")
        slides = sorted((options.example / "painted" / "slides").glob("*.tif"))
        found = {"encoder": ENCODER, **quality(options.example, slides)}
        with tempfile.TemporaryDirectory() as folder:
            square = paint_square(options.edge, Path(folder))
            found["reading"] = reading(square)
            found["speed"] = [speed(square, options.rounds, threads) for threads in sorted({1, os.cpu_count() or 1})]
        write(options.out, json.dumps({**found, **about}, indent=2))
    text = table(json.loads(options.out.read_text()))
    print(text)
    if options.out == RESULT:
        write(PAGE, placed(PAGE.read_text(), COMMAND, text).rstrip("\n"))


def table(found: dict[str, Any]) -> str:
    """What docs/extract.md says."""
    rows = found["speed"]
    lines = [
        f"| {found['encoder']}, two readers | " + " | ".join(_threads(row) for row in rows) + " |",
        "| --- |" + " --- |" * len(rows),
        _row("tiles per second", rows, lambda row: f"{row['tiles_per_second']:.1f}"),
        _row("the encoder alone, on the same batches", rows, lambda row: f"{row['bare_tiles_per_second']:.1f}"),
        _row("speed relative to the encoder alone (quartiles)", rows, lambda row: _spread(row["of_the_bare_encoder"])),
        _row("the same by processor time", rows, lambda row: _spread(row["of_the_bare_encoder_cpu"])),
        _row("share of time spent waiting for tiles", rows, lambda row: f"{100 * row['waited_share']:.1f} %"),
        _row(
            "the encoder alone, freed memory kept: tiles per second",
            rows,
            lambda row: f"{row['kept_tiles_per_second']:.1f}",
        ),
        _row("speed relative to that (quartiles)", rows, lambda row: _spread(row["of_the_encoder_with_memory_kept"])),
    ]
    how = paragraph(
        f"Extraction is tissue, tiles, reading, encoding and writing; {rows[0]['rounds']} pairs, medians",
        f"({where(found)}).",
        f"Two readers deliver {found['reading']:.0f} tiles per second from a painted TIFF; for a faster encoder, raise",
        "`--workers`. Keeping freed memory between layers (`keep_memory`, which extraction calls) makes this",
        "convolutional network faster, so extraction can exceed the encoder alone. If the encoder uses all cores,",
        "decoding tiles slows it down.",
    )
    evidence = ", ".join(f"{value:.2f}" for value in found["evidence_alignment"])
    aucs = ", ".join(f"{name} {value:.3f}" for name, value in found["auc"].items())
    way = paragraph(
        f"The complete pipeline on {found['slides']} painted slides ({found['tiles']:,} tiles;",
        "`examples/from_slides.py`):",
        f"IoU of the mask with the truth {found['mask_iou_mean']:.3f} on average,",
        f"{found['mask_iou_least']:.3f} at worst;",
        f"pooled out-of-fold AUROC: {aucs}; on {len(found['evidence_alignment'])} new slides",
        f"contributions identify the planted type with an AUROC of {evidence}.",
    )
    return "\n".join([*lines, "", how, "", way])


def _row(name: str, rows: list[dict[str, Any]], show: Callable[[dict[str, Any]], str]) -> str:
    return f"| {name} | " + " | ".join(show(row) for row in rows) + " |"


def _threads(row: dict[str, Any]) -> str:
    return f"encoder on {row['threads']} thread{'s' * (row['threads'] > 1)}"


def _spread(values: list[float]) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def paint_square(edge: int, folder: Path) -> Path:
    """A slide of edge x edge tiles of five types: most of its time is encoding, as with real ones."""
    cells = np.stack(np.meshgrid(np.arange(edge), np.arange(edge)), axis=-1).reshape(-1, 2)
    rng = np.random.default_rng(0)
    plan = Plan(cells, rng.integers(0, 5, len(cells)), ("tumour", "stroma", "lymphocytes", "fat", "necrosis"))
    write_slide(paint(plan, rng).image, folder / "square.tif")
    return folder / "square.tif"


def reading(slide: Path) -> float:
    """Tiles a second of two readers, with nobody to encode them."""
    with open_slide(slide) as opened:
        tiles = make_tiles(opened, find_tissue(opened))
        start = perf_counter()
        read = sum(len(batch) for batch in read_batches(opened, tiles, 2, 8))
        return read / (perf_counter() - start)


def speed(slide: Path, rounds: int, threads: int) -> dict[str, Any]:
    """Extraction and the bare encoder on the same tiles, alternating; ratios of each pair."""
    keep_memory()
    torch.set_num_threads(threads)
    encoder, settings = load_encoder(ENCODER), ExtractSettings(workers=2)
    pairs: list[dict[str, float]] = []
    batches = preloaded(slide, settings)
    encode(encoder, batches[0])  # the first call is slower
    context = multiprocessing.get_context("spawn")
    line, theirs = context.Pipe()
    alone = context.Process(target=bare, args=(slide, threads, theirs), daemon=True)
    alone.start()
    line.recv()  # it is ready
    for turn in range(rounds):
        found: dict[str, float] = {}
        for what in ("extract", "bare", "kept")[:: 1 if turn % 2 else -1]:  # none always has the warmer machine
            start, cpu = perf_counter(), process_time()
            if what == "extract":
                with tempfile.TemporaryDirectory() as out:
                    one = extract_slide(slide, Path(out), encoder, settings)
                found |= {"tiles": one.tiles, "waited": one.waited}
            elif what == "kept":
                for tiles in batches:
                    encode(encoder, tiles)
            else:
                line.send(None)
                found |= line.recv()
                continue
            found |= {what: perf_counter() - start, f"{what}_cpu": process_time() - cpu}
        pairs.append(found)
        print(threads, {key: round(value, 2) for key, value in found.items()}, flush=True)
    alone.terminate()
    alone.join()
    return {
        "threads": threads,
        "rounds": rounds,
        "tiles_per_second": median(pair["tiles"] / pair["extract"] for pair in pairs),
        "bare_tiles_per_second": median(pair["tiles"] / pair["bare"] for pair in pairs),
        "of_the_bare_encoder": [pair["bare"] / pair["extract"] for pair in pairs],
        "of_the_bare_encoder_cpu": [pair["bare_cpu"] / pair["extract_cpu"] for pair in pairs],
        "kept_tiles_per_second": median(pair["tiles"] / pair["kept"] for pair in pairs),
        "of_the_encoder_with_memory_kept": [pair["kept"] / pair["extract"] for pair in pairs],
        "waited_share": median(pair["waited"] / pair["extract"] for pair in pairs),
    }


def bare(slide: Path, threads: int, line: Any) -> None:
    """The encoder alone, in a process that does nothing else and nothing special; a pass whenever it is told to."""
    torch.set_num_threads(threads)
    encoder = load_encoder(ENCODER)
    batches = preloaded(slide, ExtractSettings(workers=2))
    encode(encoder, batches[0])
    line.send(None)
    while True:
        line.recv()
        start, cpu = perf_counter(), process_time()
        for tiles in batches:
            encode(encoder, tiles)
        line.send({"bare": perf_counter() - start, "bare_cpu": process_time() - cpu})


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
        "auc": {str(row["variant"]): float(row["auc_oof"]) for row in summary.to_dict("records")},
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
