"""The pictures of a run folder: made from its tables and job folders alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from safetensors.numpy import load_file

from ..maps.pictures import AttentionMap, attention_maps
from ..study.run_folder import JobFolder, RunFolder
from ..tasks import task_of_table
from .plots.curves import roc_plot
from .plots.forest import forest_plot
from .plots.training import trace_plot


def write_pictures(
    run: Path,
    predictions: pd.DataFrame,
    summary: pd.DataFrame,
    classes: Mapping[str, Sequence[str]],
    tasks: Mapping[str, str] | None = None,
) -> list[Path]:
    """ROC of each cohort, forest, traces, and attention maps if attention was kept; the files in `run/plots`.

    tasks: name of each cohort's task; None: as the columns of its predictions have it.
    """
    files = RunFolder(run)
    folder = files.plots
    folder.mkdir(exist_ok=True)
    written = []
    for cohort, names in classes.items():
        table = predictions[predictions["cohort"] == cohort]
        task = task_of_table(table.dropna(axis="columns", how="all"), tasks[cohort] if tasks else None)
        if table.empty or "curves" not in task.sections:  # empty: none of its jobs came through
            continue
        written.append(folder / ("roc.png" if len(classes) == 1 else f"roc-{cohort}.png"))
        roc_plot(table, names, written[-1], task=task.name)
    written.append(folder / "forest.png")
    forest_plot(summary, written[-1])
    written.append(folder / "traces.png")
    trace_plot(run, written[-1])
    for job in files.first_jobs():
        if job.attention.exists():
            variant = job.path.parent
            name = variant.name if len(classes) == 1 else f"{variant.parent.name}-{variant.name}"
            written.append(folder / f"attention-{name}.png")
            attention_maps(four_maps(job), written[-1])
    return written


def four_maps(job: JobFolder) -> list[AttentionMap]:
    """The first two test slides of each of the first two classes, with label and prediction in the title.

    Where rows are patients with slides by other names, the first four slides without.
    """
    table = pd.read_csv(job.predictions, dtype={"slide_id": str, "label": str}, keep_default_na=False)
    kept = load_file(job.attention)
    maps: list[AttentionMap] = []
    for label in sorted(table["label"].unique())[:2]:
        for row in table[table["label"] == label].head(2).to_dict("records"):
            slide = str(row["slide_id"])
            if slide in kept:
                p = f", p = {row['probability']:.2f}" if "probability" in row else ""
                maps.append((f"{slide}: {label}{p}", kept[f"{slide}/coords"], kept[slide], None))
    slides = sorted(name for name in kept if f"{name}/coords" in kept)[:4]
    return maps or [(slide, kept[f"{slide}/coords"], kept[slide], None) for slide in slides]
