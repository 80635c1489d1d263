"""The pictures of a run folder: made from its tables and job folders alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from safetensors.numpy import load_file

from .plots import Map, attention_maps, forest_plot, roc_plot, trace_plot


def write_pictures(
    run: Path, predictions: pd.DataFrame, summary: pd.DataFrame, classes: Mapping[str, Sequence[str]]
) -> list[Path]:
    """ROC a cohort, forest, traces, and attention maps where attention was kept; the files in `run/plots`."""
    folder = run / "plots"
    folder.mkdir(exist_ok=True)
    written = []
    for cohort, names in classes.items():
        table = predictions[predictions["cohort"] == cohort] if "cohort" in predictions else predictions
        written.append(folder / ("roc.png" if len(classes) == 1 else f"roc-{cohort}.png"))
        roc_plot(table, names, written[-1])
    written.append(folder / "forest.png")
    forest_plot(summary, written[-1])
    written.append(folder / "traces.png")
    trace_plot(run, written[-1])
    for files in sorted(run.glob("jobs/*/*/seed*-fold0/attention.safetensors")):
        cohort, variant = files.parts[-4:-2]
        maps = four_maps(files.parent)
        name = f"attention-{variant}.png" if len(classes) == 1 else f"attention-{cohort}-{variant}.png"
        written.append(folder / name)
        attention_maps(maps, written[-1])
    return written


def four_maps(job: Path) -> list[Map]:
    """The first two test slides of each of the first two classes, with label and prediction in the title."""
    table = pd.read_csv(job / "predictions.csv", dtype={"slide_id": str, "label": str})
    kept = load_file(job / "attention.safetensors")
    maps: list[Map] = []
    for label in sorted(table["label"].unique())[:2]:
        for row in table[table["label"] == label].head(2).to_dict("records"):
            slide = str(row["slide_id"])
            if slide in kept:
                p = f", p = {row['probability']:.2f}" if "probability" in row else ""
                maps.append((f"{slide}: {label}{p}", kept[f"{slide}/coords"], kept[slide], None))
    return maps
