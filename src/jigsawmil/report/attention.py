"""The attention figure of a cohort: one test slide per class, every variant's attention weights, and a reference.

Without classes it is one slide per group of the report's table of the cohort: quarters of measured values; of survival,
cases with the event and censored ones.

Which slide: of each class or group, the test slides of the first fold (first seed) are ordered by their number of
patches, then by id; the one in the middle is shown (of two, the one with fewer patches). No result takes part in the
choice.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd

from ..drawing import own_style, save
from ..errors import StudyError
from ..files import write_csv
from ..maps.attention_figure import Panel, SlideRow, attention_figure
from ..statistics.metrics import Floats
from ..study.run import Run
from ..synthetic.planted import Planted, read_planted
from ..tasks import get_task
from .examples import has_attention, kept_attention

DPI = 300  # of a PNG
HOW = (
    "No reference images were given. To add the column, name one image per class in the study file, such as "
    '[cohorts.BRCA.reference] with ILC = "lobular.png", and run the study again: finished jobs are kept.'
)


class Shown(NamedTuple):
    """A test slide of the figure. case: what was predicted as one, the slide or its patient. label: the class, or the
    group of labels that are no classes."""

    slide_id: str
    case: str
    label: str
    fold: int
    patches: int


def shown_slides(run: Run, cohort: str) -> list[Shown]:
    """One test slide per class, by the rule above. A class without a test slide in the first fold takes the next."""
    table, slides = run.predictions, run.slides[run.slides["cohort"] == cohort]
    rows = table[(table["cohort"] == cohort) & (table["seed"] == run.seeds[0])]
    cases = rows[["slide_id", "label", "fold"]].drop_duplicates().rename(columns={"slide_id": "case"})
    own = slides[["slide_id", "patient_id", "patches"]]
    found = cases.merge(own, left_on="case", right_on=f"{run.level}_id")
    shown = []
    labels = [str(label) for label in found["label"]]
    for label, members in get_task(run.task(cohort)).cohort_rows(labels, run.classes[cohort]):
        mine = found[members]
        first = mine[mine["fold"] == mine["fold"].min()].sort_values(["patches", "slide_id"])
        if len(first):
            row = first.iloc[(len(first) - 1) // 2]
            shown.append(Shown(row["slide_id"], row["case"], label, int(row["fold"]), int(row["patches"])))
    return shown


def attention_rows(run: Run, cohort: str) -> list[SlideRow]:
    """What the figure shows; no rows if the run kept no attention, or if features have no coordinates.

    Example: `attention_rows(open_run("run"), "BRCA")[0].panels[0].attention`
    """
    variants = [name for name in run.variants if has_attention(run, cohort, name)]
    what = get_task(run.task(cohort)).rows_title
    rows = []
    for slide in shown_slides(run, cohort) if variants else ():
        coords, panels = None, []
        for variant in variants:
            places, panel = _panel(run, cohort, variant, slide)
            panels.append(panel)
            if coords is not None and places is not None and not np.array_equal(coords, places):
                raise StudyError(
                    f"{slide.slide_id}: {variant} has other patch coordinates than {variants[0]}; expected the same. "
                    "The features changed between jobs: give another --out and run the study again."
                )
            coords = places if coords is None else coords
        if coords is not None and np.ptp(coords, axis=0).any():  # else one patch, or no coordinates
            where = f"test fold {slide.fold}" + (f" of seed {run.seeds[0]}" if len(run.seeds) > 1 else "")
            title = f"True {what} {slide.label}: slide {slide.slide_id}, {slide.patches:,} patches, {where}"
            rows.append(
                SlideRow(
                    slide_id=slide.slide_id,
                    label=slide.label,
                    fold=slide.fold,
                    title=title,
                    coords=coords,
                    panels=tuple(panels),
                    reference=_reference(run, cohort, slide, coords),
                )
            )
    return rows


def attention_points(rows: Sequence[SlideRow]) -> pd.DataFrame:
    """The points of the figure: slide_id, label, fold, x, y (top-left corner as in the feature file), one column of
    attention per variant, and for a phantom the planted type.

    Example: `attention_points(attention_rows(open_run("run"), "BRCA")).plot.scatter("x", "y", c="abmil")`
    """
    parts = []
    for row in rows:
        about = {"slide_id": row.slide_id, "label": row.label, "fold": row.fold}
        places = {"x": row.coords[:, 0], "y": row.coords[:, 1]}
        weights = {panel.variant: np.nan if panel.attention is None else panel.attention for panel in row.panels}
        truth = row.reference
        planted = {"planted": np.array(truth.names)[truth.types]} if isinstance(truth, Planted) else {}
        parts.append(pd.DataFrame({**about, **places, **weights, **planted}))
    return pd.concat(parts, ignore_index=True)


def write_attention_figure(run: Run, cohort: str, path: str | Path) -> list[Path]:
    """Draw the figure as .png, .pdf or .svg, and write its points beside it as .csv; the files.

    Nothing is written if the run kept no attention.

    Example: `write_attention_figure(open_run("run"), "BRCA", "attention.pdf")`
    """
    path, rows = Path(path), attention_rows(run, cohort)
    if not rows:
        return []
    with own_style(), matplotlib.rc_context({"savefig.dpi": DPI}):
        save(attention_figure(rows), path)
    write_csv(attention_points(rows), path.with_suffix(".csv"))
    return [path, path.with_suffix(".csv")]


def attention_caption(rows: Sequence[SlideRow], *, of_classes: bool = True) -> str:
    each = "class" if of_classes else "group of the table of the cohort"
    words = (
        "Attention weights of the pooling, one point per patch, on slides that the models were not trained on. For "
        f"each {each}, the test slide of the first fold with the median number of patches is shown; results play no "
        "part in this choice. Every panel has its own logarithmic scale (weights below a thousandth of the largest "
        "share the lowest colour). The weights of a slide (of all slides of a patient, if they are pooled) sum to 1. "
    )
    return words + (HOW if of_classes and all(row.reference is None for row in rows) else "")


def _panel(run: Run, cohort: str, variant: str, slide: Shown) -> tuple[Floats | None, Panel]:
    try:
        jobs = run.jobs_of(slide.slide_id, variant=variant, cohort=cohort)
    except StudyError:
        return None, Panel(variant, "its job did not finish", None)
    try:
        kept = kept_attention(jobs, [slide.slide_id])
    except StudyError:
        return None, Panel(variant, "its attention cannot be read", None)
    table = run.predictions
    rows = table[(table["cohort"] == cohort) & (table["variant"] == variant) & (table["seed"] == jobs[0].seed)]
    task, classes = run.deciding(cohort), run.classes[cohort]
    p = task.matrix(rows[rows["slide_id"] == slide.case].dropna(axis="columns", how="all"), classes)
    words = f"predicted {task.said(p[0], classes).removeprefix('predicted ')}"
    if kept is None:
        return None, Panel(variant, f"{words}; attention not kept", None)
    return kept[1], Panel(variant, words, kept[2])


def _reference(run: Run, cohort: str, slide: Shown, coords: Floats) -> Path | Planted | str | None:
    """An image that the study names, else the planted truth of a phantom, else None."""
    images = run.record.cohorts[cohort].reference
    if images:
        if slide.label not in images:
            return f"no image given for {slide.label}"
        image = Path(images[slide.label])
        return image if image.is_file() else f"{image.name} is missing"
    own = run.slides[(run.slides["cohort"] == cohort) & (run.slides["slide_id"] == slide.slide_id)]
    planted = read_planted(own["features"].iloc[0])
    return planted if planted is not None and np.array_equal(planted.coords, coords) else None
