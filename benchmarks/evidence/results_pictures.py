"""The pictures of docs/results.md, drawn from the committed JSON files alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from jigsawmil.drawing import DASHES, own_style, save
from jigsawmil.report.plots.forest import forest_figure
from jigsawmil.report.plots.styles import method_styles
from jigsawmil.report.plots.training import trace_figure

from .jigsaw_cases import LEAST, RULES

TRACED = ("position, centre", "arrangement, clumps of 5", "composition, 20 slides, noise 3")
VERDICT = {"helps": "#009E73", "neutral": "0.55", "hurts": "#D55E00"}
GREY = "0.6"
HIGHLIGHT = "#D55E00"


def draw(results: Mapping[str, Any], images: Path) -> list[Path]:
    """Every picture whose figures are there; the files."""
    figures = {
        "unseen": unseen_figure,
        "jigsaw_cases": gain_figure,
        "learning_curve": curve_figure,
        "crc_codex": codex_figure,
        "small_cohorts": small_figure,
    }
    written = []
    with own_style():
        for name, figure in figures.items():
            if results.get(name):
                written.append(images / f"results-{name.replace('_', '-')}.png")
                save(figure(results[name]), written[-1])
        for name, one in (results.get("rivals") or {"cohorts": {}})["cohorts"].items():
            if one["control"]:  # real ones
                written.append(images.parent / rivals_picture(name))
                save(rivals_figure(results["rivals"], name), written[-1])
        if results.get("jigsaw_cases"):
            written.append(images / "results-lambda.png")
            save(lambda_figure(results["jigsaw_cases"]), written[-1])
    return written


def unseen_figure(found: Mapping[str, Any]) -> Figure:
    return forest_figure(pd.DataFrame(found["summary"]))


def codex_figure(found: Mapping[str, Any]) -> Figure:
    """The same of the patients of CODEX; repeats take the place of folds."""
    rows = [
        {**row, "variant": plain_name(row["name"]), "cohort": "", "auc_oof": row["auc_patient"]}
        for row in found["rows"]
    ]
    patients, protocol = found["data"]["patients"], found["protocol"]
    shape = {"slides": patients, "patients": patients, "folds": protocol["folds"], "seeds": protocol["repeats"]}
    figure = forest_figure(pd.DataFrame(rows).assign(**shape, positive="DII"))
    words = ("AUROC of the mean prediction, 95 % interval", "mean of repeats")
    for text, own in zip(figure.legends[0].get_texts(), words, strict=True):
        text.set_text(own)
    return figure


def plain_name(name: str) -> str:
    """A row of CODEX in the words of the page; the file has the names of its run."""
    return name.replace("places shuffled", "positions shuffled").replace("chosen inside", "settings chosen in training")


def rivals_picture(cohort: str) -> str:
    """Its file, beside the page."""
    return f"img/results-rivals-{cohort.lower()}.png"


def rivals_figure(found: Mapping[str, Any], cohort: str) -> Figure:
    """Every method on one cohort, the highest first; our default in orange, torchmil's in grey."""
    one = found["cohorts"][cohort]
    rows = pd.DataFrame(sorted(one["rows"], key=lambda row: -row["auc_oof"])).assign(cohort="")
    styles = {
        name: (HIGHLIGHT if name == found["reference"] else GREY if name.startswith("torchmil") else "0.15", DASHES[0])
        for name in rows["variant"]
    }
    figure = forest_figure(rows, styles=styles)
    title = f"{cohort}: {one['slides']} images (orange: our default; black: other methods here; grey: torchmil)"
    figure.axes[0].set_title(title)
    return figure


def gain_figure(found: Mapping[str, Any]) -> Figure:
    """A panel a rule, a row a case: gain in AUROC over no jigsaw with its 95 % interval, coloured by the verdict."""
    rows = found["cases"]
    figure = Figure(figsize=(9.6, 0.27 * len(rows) + 1.0), layout="constrained")
    axes = figure.subplots(1, len(RULES), sharex=True, sharey=True)
    for ax, rule in zip(axes, RULES, strict=True):
        ax.axvspan(-LEAST, LEAST, color="0.93", linewidth=0)
        ax.axvline(0, color=GREY, linewidth=0.8)
        for y, row in enumerate(rows):
            gain = row["gains"][rule]
            colour = VERDICT[gain["verdict"]]
            ax.plot([gain["low"], gain["high"]], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
            ax.plot(gain["mean"], y, "s", color=colour, markersize=5)
        ax.set(title=f"lambda {rule}", ylim=(len(rows) - 0.5, -0.5), xlabel="gain in AUROC")
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(rows)), [row_name(row) for row in rows])
    return figure


def row_name(row: Mapping[str, Any]) -> str:
    """A case with its phantom, as the table has them in two columns."""
    case, kind = str(row["case"]), str(row["kind"])
    return case if case.startswith(kind) else f"{kind}, {case.removeprefix('the same, ')}"


def lambda_figure(found: Mapping[str, Any]) -> Figure:
    """Losses and lambda of every rule, epoch by epoch, mean over the cohorts of a case."""
    tables = [
        pd.DataFrame(row["traces"][rule]).assign(cohort=row["case"], variant=rule)
        for row in found["cases"]
        if row["case"] in TRACED
        for rule in RULES
    ]
    traces = pd.concat([table.assign(epoch=range(1, len(table) + 1)) for table in tables], ignore_index=True)
    traces = traces.assign(job="", kept=False, val_loss=float("nan"), val_auc=float("nan"))
    return trace_figure(traces, styles=method_styles(RULES))


def curve_figure(found: Mapping[str, Any]) -> Figure:
    """A panel a phantom: mean AUROC over cohorts against the slides to fit on; the band is one standard error."""
    curves = found["curves"]
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for ax, (kind, by_method) in zip(axes, curves.items(), strict=True):
        ax.axhline(0.5, color=GREY, linewidth=0.8, linestyle=(0, (4, 4)))
        for method, (colour, dash) in method_styles(by_method).items():
            points = pd.DataFrame(by_method[method])
            low, high = points["mean"] - points["error"], points["mean"] + points["error"]
            ax.fill_between(points["slides"], low, high, color=colour, alpha=0.2, linewidth=0)
            ax.plot(points["slides"], points["mean"], dash, color=colour, marker="o", markersize=3.5, label=method)
        ax.set(title=kind, xlabel="slides to fit on", xscale="log")
        ax.set_xticks([point["slides"] for point in next(iter(by_method.values()))])
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_locator(NullLocator())
    axes[0].set_ylabel("AUROC on new slides")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def small_figure(found: Mapping[str, Any]) -> Figure:
    """Differences to the default by arm; then training loss and AUROC of the test slides, epoch by epoch."""
    rows = [*found["rows"][1:], found["ensemble"]]
    figure = Figure(figsize=(9.6, 0.27 * len(rows) + 1.0), layout="constrained")
    gains, losses, areas = figure.subplots(1, 3)
    gains.axvspan(-LEAST, LEAST, color="0.93", linewidth=0)
    gains.axvline(0, color=GREY, linewidth=0.8)
    for y, row in enumerate(rows):
        gain, colour = row["gain"], VERDICT[row["gain"]["verdict"]]
        gains.plot([gain["low"], gain["high"]], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
        gains.plot(gain["mean"], y, "s", color=colour, markersize=5)
    gains.set(ylim=(len(rows) - 0.5, -0.5), xlabel="difference of AUROC to the default")
    gains.set_yticks(range(len(rows)), [row["arm"] for row in rows])
    gains.tick_params(axis="y", length=0)
    for colour, kind in zip(("#56B4E9", "#E69F00", "#009E73"), found["noise"], strict=True):
        label = kind
        for cohort, trace in zip(found["cohorts"], found["traces"]["each"], strict=True):
            if cohort["kind"] == kind:
                epochs, kept = range(1, len(trace["mil"]) + 1), trace["kept"]
                losses.plot(epochs, trace["mil"], color=colour, linewidth=0.9, label=label)
                areas.plot(epochs, trace["test_auc"], color=colour, linewidth=0.9)
                areas.plot(kept, trace["test_auc"][kept - 1], "o", color=colour, markersize=3.5)
                label = ""
    losses.set(title="training loss", xlabel="epoch", yscale="log")
    losses.yaxis.set_major_formatter("{x:g}")  # no mathematics in pictures
    losses.yaxis.set_minor_locator(NullLocator())
    areas.set(title="test AUROC, dot: kept", xlabel="epoch")
    areas.axhline(0.5, color=GREY, linewidth=0.8, linestyle=(0, (4, 4)))
    figure.legend(*losses.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
