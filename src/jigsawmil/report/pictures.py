"""The pictures of a run folder: made from its tables and job folders alone. `attention` adds those of attention."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from ..study.run_folder import RunFolder
from ..tasks import measure_of, task_of_table
from .plots.curves import roc_plot
from .plots.forest import forest_plot
from .plots.training import trace_plot
from .tables import by_measure


def write_pictures(
    run: Path,
    predictions: pd.DataFrame,
    summary: pd.DataFrame,
    classes: Mapping[str, Sequence[str]],
    tasks: Mapping[str, str] | None = None,
) -> list[Path]:
    """ROC of each cohort, forest and traces; the files in `run/plots`.

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
    for rows in (groups := by_measure(summary)):
        name = "" if len(groups) == 1 else f"-{measure_of(rows).name}"
        written.append(folder / f"forest{name}.png")
        forest_plot(rows, written[-1])
    written.append(folder / "traces.png")
    trace_plot(run, written[-1])
    return written
