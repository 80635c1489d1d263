"""Slides to look at: those a method was surest of, rightly and wrongly, with a small map of its attention."""

from collections.abc import Iterator, Sequence

import numpy as np

from ..drawing import image
from ..errors import StudyError
from ..maps.pictures import small_map
from ..maps.values import attends
from ..statistics.metrics import Floats
from ..study.attention import read_attention
from ..study.predictions import Pooled
from ..study.run import Run, RunJob, weights_of
from ..train.ensemble import average
from .html import Html, join, picture, tag

SHOWN = 4  # slides of each kind


def example_cards(
    run: Run, cohort: str, variant: str, one: Pooled, classes: Sequence[str]
) -> Iterator[tuple[str, Html]]:
    """Titles and rows of cards, as the task sorts its cases: of classes the surest right, then the surest wrong."""
    for title, rows, empty in one.task.sort_cases(one.truth, one.probability):
        if len(rows):
            cards = (_card(run, cohort, variant, one, int(row), classes) for row in rows[:SHOWN])
            yield title, tag("div", *cards, class_="cards")
        elif empty:
            yield title, tag("p", empty)


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
    """Slide, coords and attention of the first of these slides that a job kept, the average over the members of an
    ensemble; None if one kept none of them."""
    kept = [found for job in jobs if (found := read_attention(job.files.attention, names)) is not None]
    if len(kept) < len(jobs):
        return None
    slide, coords, first = kept[0]
    return slide, coords, first if len(kept) == 1 else average(np.stack([own for _, _, own in kept]), weights_of(jobs))


def _card(run: Run, cohort: str, variant: str, one: Pooled, row: int, classes: Sequence[str]) -> Html:
    case, patient = one.cases[row], one.patients[row]
    found, words = None, "no attention kept"
    try:
        found = attention_of(run, cohort, variant, case)
    except StudyError as error:
        words = str(error)
    if found is None:
        shown, below = tag("div", words, class_="blank"), ""
    else:
        slide, coords, attention = found
        below = f"{len(attention):,} patches" + (f" of {slide}" if slide != case else "")
        if attends(attention):
            drawn = image(small_map(slide, coords, attention), "png")
            shown = picture(drawn, f"Attention over slide {slide}, {len(attention)} patches")
        else:
            shown = tag("div", "mean pooling: every patch has the same weight", class_="blank")
    whose = f"patient {patient}" if patient != case else ""
    said = one.task.case_lines(one.truth[row], one.probability[row], classes)
    lines = [*said, *filter(None, (whose, below))]
    return tag("div", shown, tag("b", case), join(lines, "<br>"), class_="card")
