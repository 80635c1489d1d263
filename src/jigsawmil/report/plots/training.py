"""What training did: losses, lambda and validation of every job over its epochs."""

from math import ceil
from pathlib import Path
from textwrap import fill

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ...drawing import Styles, own_style, save
from ...errors import StudyError
from ...study.run_folder import RunFolder
from ..tables import cohorts
from .styles import COLOURS, method_styles

TRACES = {"mil": "MIL loss", "jigsaw": "jigsaw loss", "lambda_": "lambda", "val_auc": "validation AUROC"}


def trace_plot(run: str | Path, path: str | Path) -> None:
    """Losses, lambda and validation AUROC over the epochs of every job of a run folder."""
    with own_style():
        save(trace_figure(read_traces(run)), Path(path))


def read_traces(run: str | Path) -> pd.DataFrame:
    """Every trace.csv of a run folder, with its cohort, method and job."""
    files = RunFolder(Path(run)).traces()
    if not files:
        raise StudyError(f"{run}: no trace of any job in it; expected a run folder. Run the study first.")
    traces = []
    for file in files:
        try:
            trace = pd.read_csv(file)
        except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
            raise StudyError(
                f"{file}: cannot be read ({error}). Delete the folder of this job and run again."
            ) from error
        if missing := [c for c in ("epoch", "kept", "val_loss", *TRACES) if c not in trace]:
            raise StudyError(f"{file}: no column {', '.join(missing)}. Delete the folder of this job and run again.")
        job, variant, cohort = (parent.name for parent in list(file.parents)[:3])
        traces.append(trace.assign(cohort=cohort, variant=variant, job=job))
    return pd.concat(traces, ignore_index=True)


def trace_figure(traces: pd.DataFrame, across: int = len(TRACES), styles: Styles | None = None) -> Figure:
    """A line a job, and a dot at the epoch whose weights were kept; each cohort's panels, `across` beside each other.

    Methods without a jigsaw have no line in the panels of jigsaw and lambda, whatever their trace holds there.
    """
    names = sorted(traces["variant"].unique(), key=lambda m: ([*COLOURS, m].index(m), m))
    styles = method_styles(names) if styles is None else {name: styles[name] for name in names}
    jigsaw = traces.groupby(["cohort", "variant"])["jigsaw"].transform(lambda loss: bool((loss != 0).any()))
    traces = traces.assign(**{c: traces[c].where(jigsaw) for c in ("jigsaw", "lambda_")})
    shown = [c for c in TRACES if traces[c].notna().any()]
    by_cohort = list(cohorts(traces))
    handles = [Line2D([], [], color=c, linestyle=d, linewidth=2, label=m) for m, (c, d) in styles.items()]
    if traces["val_loss"].notna().any():
        handles.append(Line2D([], [], color="0.3", marker="o", linestyle="", markersize=4, label="weights kept"))
    columns, a_cohort = min(across, len(shown)), ceil(len(shown) / across)  # panels beside and below each other
    width = 2.9 * columns if columns > 2 else 7.2
    a_row = max(1, int(width / (0.075 * max(map(len, [*styles, "weights kept"])) + 0.55)))  # entries of the legend
    height = 2.6 * a_cohort * len(by_cohort) + 0.2 * ceil(len(handles) / a_row) + 0.2
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(a_cohort * len(by_cohort), columns, squeeze=False).reshape(len(by_cohort), -1)
    for own, (cohort, rows) in zip(axes, by_cohort, strict=True):
        for spare in own[len(shown) :]:
            spare.remove()
        for ax, column in zip(own, shown, strict=False):
            for (method, _), job in rows.groupby(["variant", "job"]):
                colour, dash = styles[str(method)]
                ax.plot(job["epoch"], job[column], color=colour, linestyle=dash, linewidth=0.9, alpha=0.85)
                if job["val_loss"].notna().any():
                    kept = job[job["kept"]]
                    ax.plot(kept["epoch"], kept[column], "o", color=colour, markersize=3.5)
            title = TRACES[column] if len(by_cohort) == 1 else f"{fill(cohort, 28)}\n{TRACES[column]}"
            ax.set(title=title, xlabel="epoch")
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    figure.legend(handles=handles, loc="outside lower center", ncols=a_row)
    return figure
