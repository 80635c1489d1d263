"""Pictures of a run: ROC curves, traces of training, forest plots and maps of attention.

Each `*_plot` writes a file (.png, .pdf or .svg) made from the `*_figure` beside it. No global state of matplotlib is
read or changed, and the same input gives the same bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Literal

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.spatial import cKDTree
from scipy.stats import rankdata

from ..errors import StudyError
from ..files import replacing
from ..study.compare import summarise
from ..study.metrics import Floats, named, roc_points
from .tables import cohort_line, cohorts, interval, one_cohort

Dash = Literal["-", "--", ":", "-."]
Map = tuple[str, Floats, Floats, float | None]  # title, coords (N, 2), attention (N,), patch_size

# Okabe and Ito's colours (safe for the colour-blind) but for their yellow, which a white page swallows. Blue without a
# graph, green to red with one; the darker of two neighbours has the jigsaw.
COLOURS = {
    "abmil": "#56B4E9",
    "abmil+jigsaw": "#0072B2",
    "graph-mil": "#009E73",
    "graph-abmil": "#E69F00",
    "graph-abmil+jigsaw": "#D55E00",
}
SPARE = ("#CC79A7", "#000000", "#7F7F7F")  # for variants by other names
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")  # once the colours are used up
STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "jigsawmil",  # else element ids differ from run to run
    "text.parse_math": False,  # a slide may be called a$b$
}
METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    ".svg": {"Date": None, "Creator": None},
}
TRACES = {"mil": "MIL loss", "jigsaw": "jigsaw loss", "lambda_": "lambda", "val_auc": "validation AUC"}
GREY = "0.6"


def roc_plot(predictions: pd.DataFrame, classes: Sequence[str], path: str | Path) -> None:
    """Pooled out-of-fold ROC curves, one a method; beyond two classes one panel a class against the rest."""
    with _style():
        _save(roc_figure(predictions, classes), Path(path))


def trace_plot(run: str | Path, path: str | Path) -> None:
    """Losses, lambda and validation AUC over the epochs of every job of a run folder."""
    with _style():
        _save(trace_figure(read_traces(run)), Path(path))


def forest_plot(summary: pd.DataFrame, path: str | Path) -> None:
    """Pooled AUC of each method with its 95 % interval, and the mean of folds beside it; one panel a cohort."""
    with _style():
        _save(forest_figure(summary), Path(path))


def attention_maps(items: Sequence[Map], path: str | Path) -> None:
    """Patches where they lie, coloured by the percentile of their attention within the slide.

    items: (title, coords (N, 2) of top-left corners, attention (N,), patch_size in the unit of coords; None takes the
    usual distance between neighbours).
    """
    with _style():
        _save(attention_figure(items), Path(path))


def roc_figure(predictions: pd.DataFrame, classes: Sequence[str]) -> Figure:
    panels = _one_against_rest(predictions, [str(c) for c in classes])
    styles = method_styles(predictions["method"].astype(str))
    slides = predictions.groupby(predictions["method"].astype(str))["slide_id"].nunique()
    most = slides.max()  # a method some of whose folds failed has fewer
    shown = {m: m if slides[m] == most else f"{m} ({slides[m]} of {most} slides)" for m in styles}
    longest = max(map(len, shown.values()))
    columns = min(3, len(panels))
    rows = ceil(len(panels) / columns)
    # a legend of that many characters in a monospaced font of 8 points, below the curves that it would hide
    width, legend = max(4.9, 0.068 * (longest + 24) + 0.8), 0.17 * len(styles) + 0.35
    figure = Figure(figsize=(width * columns, (4.5 + legend) * rows), layout="constrained")
    axes = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=[4.5, legend] * rows)
    for ax in axes[1::2].ravel():
        ax.set_axis_off()
    for spare in axes[::2].ravel()[len(panels) :]:
        spare.remove()
    for ax, below, (title, table, names) in zip(axes[::2].flat, axes[1::2].flat, panels, strict=False):
        figures = summarise(table, names, resamples=1).set_index("method")  # the bootstrap is not drawn
        for method, (colour, dash) in styles.items():
            points = roc_points(*_pooled(table, method, names[1]))
            area, low, high = figures.loc[method, ["auc_oof", "auc_low", "auc_high"]]
            stated = "a class is missing" if np.isnan(area) else f"{area:.3f} [{low:.3f}, {high:.3f}]"
            label = f"{shown[method]:<{longest}}  {stated}"
            ax.plot(points.fpr, points.tpr, color=colour, linestyle=dash, linewidth=1.6, label=label)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
        ax.set(title=fill(title, 58), xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        below.legend(
            handles=ax.get_lines()[:-1],
            title="pooled out-of-fold AUC [95 % interval]",
            title_fontsize=8,
            prop={"family": "monospace", "size": 8},
            loc="upper center",
            borderaxespad=0,
        )
    return figure


def read_traces(run: str | Path) -> pd.DataFrame:
    """Every trace.csv of a run folder, with its cohort, method and job."""
    files = sorted((Path(run) / "jobs").glob("*/*/seed*/trace.csv"))
    if not files:
        raise StudyError(
            f"{run}: no jobs/<cohort>/<variant>/<job>/trace.csv; expected a run folder. Run the study first."
        )
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
        traces.append(trace.assign(cohort=cohort, method=variant, job=job))
    return pd.concat(traces, ignore_index=True)


def trace_figure(traces: pd.DataFrame) -> Figure:
    """One row of panels a cohort, a line a job; a dot marks the epoch whose weights were kept.

    Methods without a jigsaw have no line in the panels of jigsaw and lambda, whatever their trace holds there.
    """
    styles = method_styles(sorted(traces["method"].unique(), key=lambda m: ([*COLOURS, m].index(m), m)))
    jigsaw = traces.groupby(["cohort", "method"])["jigsaw"].transform(lambda loss: bool((loss != 0).any()))
    traces = traces.assign(**{c: traces[c].where(jigsaw) for c in ("jigsaw", "lambda_")})
    shown = [c for c in TRACES if traces[c].notna().any()]
    by_cohort = list(cohorts(traces))
    handles = [Line2D([], [], color=c, linestyle=d, linewidth=2, label=m) for m, (c, d) in styles.items()]
    if traces["val_loss"].notna().any():
        handles.append(Line2D([], [], color="0.3", marker="o", linestyle="", markersize=4, label="weights kept"))
    width = 2.9 * max(2, len(shown))
    a_row = max(1, int(width / (0.075 * max(map(len, [*styles, "weights kept"])) + 0.55)))  # entries of the legend
    height = 2.6 * len(by_cohort) + 0.2 * ceil(len(handles) / a_row) + 0.2
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(len(by_cohort), len(shown), squeeze=False)
    for row, (cohort, rows) in zip(axes, by_cohort, strict=True):
        for ax, column in zip(row, shown, strict=True):
            for (method, _), job in rows.groupby(["method", "job"]):
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


def forest_figure(summary: pd.DataFrame) -> Figure:
    by_cohort = list(cohorts(summary))
    methods = [len(rows) for _, rows in by_cohort]
    styles = method_styles(summary["method"].astype(str))
    room = int((7.0 - 0.072 * min(32, max(map(len, styles)))) / 0.075)  # characters of a title right of the names
    bounds = np.array([interval(row) for _, row in summary.iterrows()])
    least = np.nanmin([0.5, *summary["auc_mean"], *bounds[:, 0], *summary["auc_oof"]])
    figure = Figure(figsize=(7.2, sum(0.32 * n + 0.75 for n in methods) + 0.3), layout="constrained")
    axes = figure.subplots(len(methods), 1, squeeze=False, sharex=True, height_ratios=[n + 0.5 for n in methods])[:, 0]
    for ax, (cohort, rows) in zip(axes, by_cohort, strict=True):
        ax.axvline(0.5, color=GREY, linewidth=0.8, linestyle=(0, (4, 4)))
        for y, (_, row) in enumerate(rows.iterrows()):
            colour, _dash = styles[str(row["method"])]
            low, high = interval(row)
            ax.plot([low, high], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
            ax.plot(row["auc_oof"], y, "s", color=colour, markersize=6)
            ax.plot(row["auc_mean"], y, "D", markeredgecolor="black", markerfacecolor="none", markersize=5)
            ax.text(1.02, y, _stated(row), transform=ax.get_yaxis_transform(), va="center")
        ax.set(
            title=fill(cohort_line(cohort, rows), room),
            ylim=(len(rows) - 0.5, -0.5),
            xlim=(np.floor(least * 20 - 0.2) / 20, 1.005),
        )
        ax.set_yticks(range(len(rows)), [fill(str(m), 32) for m in rows["method"]])
        ax.tick_params(axis="y", length=0)
    axes[-1].set_xlabel("AUC")
    marks = [
        Line2D([], [], color="0.3", marker="s", markersize=6, linewidth=2, label="pooled out-of-fold, 95 % interval"),
        Line2D(
            [], [], color="black", marker="D", markerfacecolor="none", markersize=5, linestyle="", label="mean of folds"
        ),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=2)
    return figure


def attention_figure(items: Sequence[Map]) -> Figure:
    if not items:
        raise StudyError("No slide to map; expected at least one. Name slides, or run the study with attention kept.")
    for title, coords, attention, _ in items:
        _check_map(title, coords, attention)
    edges = [patch_size or _spacing(coords) for _, coords, _, patch_size in items]
    sizes = [np.ptp(coords, axis=0) + edge for (_, coords, _, _), edge in zip(items, edges, strict=True)]
    ratio = float(np.clip(np.median([high / wide for wide, high in sizes]), 0.5, 2.0))  # of all panels, so they align
    columns = len(items) if len(items) < 4 else ceil(len(items) ** 0.5)
    rows = ceil(len(items) / columns)
    figure = Figure(figsize=(3.6 * columns + 0.8, (3.5 * ratio + 0.6) * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[len(items) :]:
        spare.remove()
    for ax, (title, coords, attention, _), edge, size in zip(axes, items, edges, sizes, strict=False):
        order = np.argsort(attention, kind="stable")  # where patches overlap, the one looked at lies on top
        corners = coords[order, None] + edge * np.array([[0, 0], [1, 0], [1, 1], [0, 1]])  # (N, 4, 2)
        # edges are not drawn and not smoothed: seams between patches would look like a pattern
        squares = PolyCollection(list(corners), edgecolors="none", antialiaseds=False, cmap="viridis", rasterized=True)
        squares.set_array(percentiles(attention)[order])
        squares.set_clim(0, 100)
        ax.add_collection(squares)
        half = np.max(size / (1, ratio)) * np.array([1, ratio]) / 2
        (left, top), (right, bottom) = (coords.min(0) + size / 2 + sign * half for sign in (-1, 1))
        ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])  # y runs down the slide
        ax.spines[:].set_visible(False)
        ax.set_title(fill(title, 42))
        ax.set_xlabel(f"half of the attention on {_half(attention):,} of {len(attention):,} patches", fontsize=8)
    bar = figure.colorbar(squares, ax=axes[: len(items)].tolist(), shrink=0.8, aspect=30, panchor=False)
    bar.set_label("attention percentile in the slide")
    return figure


def percentiles(attention: Floats) -> Floats:
    """(N,): rank of each patch within its slide in percent, ties sharing theirs; equal attention is 50 throughout."""
    return (rankdata(attention) - 0.5) / len(attention) * 100


def method_styles(methods: Iterable[str]) -> dict[str, tuple[str, Dash]]:
    """Colour and dash of each method, in order of appearance.

    They depend only on which methods there are: the five have their own colour, others take what is left by name.
    """
    names = list(dict.fromkeys(methods))
    others = sorted(set(names) - set(COLOURS))
    free = [c for m, c in COLOURS.items() if m not in names]
    palette = [*SPARE[:1], *free, *SPARE[1:]]
    styles: dict[str, tuple[str, Dash]] = {m: (COLOURS[m], DASHES[0]) for m in names if m in COLOURS}
    for i, name in enumerate(others):
        styles[name] = (palette[i % len(palette)], DASHES[i // len(palette) % len(DASHES)])
    return {name: styles[name] for name in names}


def _one_against_rest(predictions: pd.DataFrame, classes: list[str]) -> list[tuple[str, pd.DataFrame, tuple[str, str]]]:
    """Title, table with one probability, and (negative, positive) names: of the last class, or of each beyond two."""
    if predictions.empty:
        raise StudyError("The table of predictions has no rows; expected one a method, seed and slide. Run the study.")
    one_cohort(predictions)
    labels = predictions["label"].astype(str)
    if unknown := sorted(set(labels) - set(classes)):
        raise StudyError(f"Labels {named(unknown)} are none of the classes {named(classes)}. Name every class.")
    if "probability" in predictions:
        return [(f"positive class {classes[-1]}", predictions, (classes[0], classes[-1]))]
    panels = []
    for name in classes if len(classes) > 2 else classes[-1:]:
        if f"probability_{name}" not in predictions:
            raise StudyError(f"No column probability_{name} in the table of predictions; expected one for each class.")
        rest = f"not {name}"
        table = predictions.assign(
            label=np.where(labels == name, name, rest), probability=predictions[f"probability_{name}"]
        )
        table = table.drop(columns=[c for c in predictions if str(c).startswith("probability_")])
        panels.append((f"{name} against the rest", table, (rest, name)))
    return panels


def _pooled(table: pd.DataFrame, method: str, positive: str) -> tuple[pd.Series, pd.Series]:
    """Of each slide: whether it is positive, and its mean probability over seeds."""
    slides = table[table["method"].astype(str) == method].groupby("slide_id")
    return slides["label"].first().astype(str) == positive, slides["probability"].mean()


def _stated(row: pd.Series) -> str:
    low, high = interval(row)
    return f"{row['auc_oof']:.3f} [{low:.3f}, {high:.3f}]"


def _check_map(title: str, coords: Floats, attention: Floats) -> None:
    n = len(attention)
    if attention.shape != (n,) or coords.shape != (n, 2) or n == 0:
        raise StudyError(
            f"{title}: coords of shape {coords.shape} and attention of shape {attention.shape}; expected (N, 2) and "
            "(N,) with at least one patch. Take both from the same slide."
        )
    if not (np.isfinite(attention).all() and np.isfinite(coords).all()):
        raise StudyError(f"{title}: attention or coords are not finite; expected numbers. Look for a diverged run.")


def _spacing(coords: Floats) -> float:
    """The usual distance from a patch to its nearest neighbour; 1 where there is none."""
    if len(coords) < 2:
        return 1.0
    nearest = cKDTree(coords).query(coords, k=2)[0][:, 1]
    return float(np.median(nearest[nearest > 0])) if nearest.any() else 1.0


def _half(attention: Floats) -> int:
    """The fewest patches that hold half of the attention."""
    held = np.cumsum(np.sort(attention.astype(float))[::-1])
    return int(np.searchsorted(held, held[-1] / 2 * (1 - 1e-6))) + 1


@contextmanager
def _style() -> Iterator[None]:
    """Our style over matplotlib's own defaults, whatever the user's matplotlibrc says, and only in here."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def _save(figure: Figure, path: Path) -> None:
    if path.suffix not in METADATA:
        raise StudyError(
            f"{path.name}: a picture cannot be written as {path.suffix!r}; expected {', '.join(METADATA)}."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], metadata=METADATA[path.suffix])
    except OSError as error:
        raise StudyError(f"{path}: cannot be written ({error.strerror}). Choose a folder you can write to.") from error
