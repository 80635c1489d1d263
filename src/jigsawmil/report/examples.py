"""Slides to look at: those a method was surest of, rightly and wrongly, with a small map of its attention."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from ..drawing import image
from ..maps.pictures import small_map
from ..maps.values import attends
from ..statistics.metrics import Floats
from ..study.predictions import Pooled
from ..study.run import Run, RunJob
from .html import Html, join, picture, tag

SHOWN = 4  # slides of each kind


class Example(NamedTuple):
    case: str
    patient: str
    truth: int
    called: int
    probability: float  # of the class that was called


def surest(one: Pooled, right: bool, number: int = SHOWN) -> list[Example]:
    """The cases called rightly (or wrongly) with the highest probability, the surest first; ids break ties."""
    called = one.decision
    p = one.probability[np.arange(len(called)), called]
    rows = np.flatnonzero((called == one.truth) == right)
    order = rows[np.argsort(-p[rows], kind="stable")][:number]
    return [
        Example(one.cases[i], one.patients[i], int(one.truth[i]), int(called[i]), float(p[i])) for i in order.tolist()
    ]


def example_cards(
    run: Run, cohort: str, variant: str, one: Pooled, classes: Sequence[str]
) -> Iterator[tuple[str, Html]]:
    """Titles and rows of cards: the surest right, then the surest wrong."""
    for right, title in ((True, "Most confidently right"), (False, "Most confidently wrong")):
        found = surest(one, right)
        if found:
            yield title, tag("div", *(_card(run, cohort, variant, e, classes) for e in found), class_="cards")
        else:
            words = "Every case was called wrongly." if right else "No case was called wrongly."
            yield title, tag("p", words)


def has_attention(run: Run, cohort: str, variant: str) -> bool:
    jobs = (job for job in run.jobs if (job.cohort, job.variant) == (cohort, variant))
    return any(job.files.attention.is_file() for job in jobs)


def attention_of(run: Run, cohort: str, variant: str, case: str) -> tuple[str, Floats, Floats] | None:
    """Slide, coords and attention of a case from the job that had it in its test fold (first seed); None if not kept.

    A patient whose slides were pooled is shown by the first of them.
    """
    table, slides = run.predictions, run.slides
    mine = table[(table["cohort"] == cohort) & (table["variant"] == variant) & (table["slide_id"] == case)]
    own = slides[(slides["cohort"] == cohort) & ((slides["slide_id"] == case) | (slides["patient_id"] == case))]
    names = [case, *own["slide_id"].astype(str)]
    for seed, fold in sorted(zip(mine["seed"], mine["fold"], strict=True)):
        wanted = (cohort, variant, seed, fold)
        found = [job for job in run.jobs if (job.cohort, job.variant, job.seed, job.fold) == wanted]
        if found:
            return kept_attention(found, names)
    return None


def kept_attention(jobs: Sequence[RunJob], names: Sequence[str]) -> tuple[str, Floats, Floats] | None:
    """Slide, coords and attention of the first of these slides that a job kept, the mean over the members of an
    ensemble; None if one kept none of them."""
    kept = [found for job in jobs if (found := _kept(job.files.attention, names)) is not None]
    if len(kept) < len(jobs):
        return None
    slide, coords, first = kept[0]
    return slide, coords, first if len(kept) == 1 else np.mean([own for _, _, own in kept], axis=0)


def _kept(file: Path, names: Sequence[str]) -> tuple[str, Floats, Floats] | None:
    try:
        with safe_open(file, framework="numpy") as held:
            keys = set(held.keys())
            for name in names:
                if name in keys and f"{name}/coords" in keys:
                    return name, held.get_tensor(f"{name}/coords"), held.get_tensor(name)
    except (OSError, SafetensorError):  # not kept, or damaged: the page says that there is no map
        pass
    return None


def _card(run: Run, cohort: str, variant: str, example: Example, classes: Sequence[str]) -> Html:
    found = attention_of(run, cohort, variant, example.case)
    if found is None:
        shown, below = tag("div", "no attention kept", class_="blank"), ""
    else:
        slide, coords, attention = found
        below = f"{len(attention):,} patches" + (f" of {slide}" if slide != example.case else "")
        if attends(attention):
            drawn = image(small_map(slide, coords, attention), "png")
            shown = picture(drawn, f"Attention over slide {slide}, {len(attention)} patches")
        else:
            shown = tag("div", "mean pooling: every patch counts the same", class_="blank")
    patient = f"patient {example.patient}" if example.patient != example.case else ""
    called = f"called {classes[example.called]}, p = {example.probability:.2f}"
    lines = [f"is {classes[example.truth]}", called, *filter(None, (patient, below))]
    return tag("div", shown, tag("b", example.case), join(lines, "<br>"), class_="card")
