"""The tables of a run folder, gathered from its jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..cohort.cohort import Cohort
from ..errors import StudyError
from ..files import write_csv, write_json
from ..train.origin import origin
from .compare import compare_methods, summarise
from .job import Job


@dataclass(frozen=True)
class Result:
    """The tables of a run. control: predictions with places shuffled. classes, notes: of each cohort; the notes are
    what its audit remarked. failed: job -> why."""

    predictions: pd.DataFrame
    summary: pd.DataFrame
    comparisons: pd.DataFrame
    control: pd.DataFrame
    left_out: pd.DataFrame
    classes: Mapping[str, tuple[str, ...]]
    notes: Mapping[str, tuple[str, ...]]
    failed: Mapping[str, str]


def by_reason(failed: Mapping[str, str]) -> dict[str, list[str]]:
    """Each reason once, with the jobs that it stopped."""
    names: dict[str, list[str]] = {}
    for name, why in failed.items():
        names.setdefault(why, []).append(name)
    return names


def gather(
    out: Path,
    jobs: Sequence[Job],
    cohorts: Mapping[str, Cohort],
    failed: Mapping[str, str],
    about: Mapping[str, Any],
) -> Result:
    """Tables from the job folders, written into the run folder; the control's into `control`. about: for study.json."""
    tables = _write_tables(out, [job for job in jobs if not job.shuffled], cohorts)
    shuffled = [job for job in jobs if job.shuffled]
    control = _write_tables(out / "control", shuffled, cohorts)[0] if shuffled else pd.DataFrame()
    rows = [
        {"cohort": name, "name": entry.name, "reason": entry.reason}
        for name, cohort in cohorts.items()
        for entry in cohort.left_out
    ]
    left_out = pd.DataFrame(rows, columns=["cohort", "name", "reason"])
    write_csv(left_out, out / "left_out.csv")
    write_csv(_slides(cohorts), out / "slides.csv")
    classes = {name: cohort.classes for name, cohort in cohorts.items()}
    counts = {"jobs": len(jobs), "failed": dict(failed), "classes": classes, "origin": origin()}
    sources = {job.cohort: asdict(job.source) for job in jobs}
    kinds = {
        name: {"task": cohort.task, "dim": cohort.dim, "encoder": cohort.encoder} for name, cohort in cohorts.items()
    }
    of_cohorts = {name: {**sources[name], **kinds[name], "notes": cohorts[name].notes} for name in cohorts}
    write_json(out / "study.json", {"format": 1, **counts, "cohorts": of_cohorts, **about})
    notes = {name: cohort.notes for name, cohort in cohorts.items()}
    return Result(*tables, control, left_out, classes, notes, failed)


def _slides(cohorts: Mapping[str, Cohort]) -> pd.DataFrame:
    """A row a slide, so that a run folder says by itself what it is about."""
    rows = [
        {
            "cohort": name,
            "slide_id": slide.slide_id,
            "patient_id": slide.patient_id,
            "label": cohort.label_of(slide),
            "site": slide.site or "",
            "patches": slide.patches,
            "features": str(slide.path.resolve()) if slide.path else "",
        }
        for name, cohort in cohorts.items()
        for slide in cohort.slides
    ]
    return pd.DataFrame(rows)


def _write_tables(
    out: Path, jobs: Sequence[Job], cohorts: Mapping[str, Cohort]
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    predictions, summaries, comparisons = [], [], []
    for name, cohort in cohorts.items():
        mine = [job for job in jobs if job.cohort == name and job.done]
        if not mine:
            continue
        table = pd.concat([_predictions(job) for job in mine], ignore_index=True)
        predictions.append(table.assign(cohort=name))
        complete = table[table["variant"].isin(whole(jobs, name))]
        if len(complete):
            summaries.append(summarise(complete, cohort.classes, cohort.task).assign(cohort=name))
            pairs = compare_methods(complete, cohort.classes, cohort.task).assign(cohort=name)
            if mine[0].settings.level == "patient":  # a row a patient already: none has several
                pairs["level"] = "patient"
            comparisons.append(pairs)
    tables = [pd.concat(t, ignore_index=True) if t else pd.DataFrame() for t in (predictions, summaries, comparisons)]
    for table, file in zip(tables, ("predictions.csv", "summary.csv", "comparisons.csv"), strict=True):
        write_csv(table, out / file)
    return tables[0], tables[1], tables[2]


def _predictions(job: Job) -> pd.DataFrame:
    try:  # all as text: ids may look like a number or like NA, and pandas may round numbers in their last digit
        table = pd.read_csv(job.folder / "predictions.csv", dtype=str, keep_default_na=False)
        for column in table.columns[table.columns.str.startswith("probability")]:
            table[column] = table[column].map(float)
    except (OSError, ValueError) as error:
        raise StudyError(f"{job.folder}: predictions.csv is damaged ({error}). Remove that folder.") from error
    table.insert(0, "seed", job.seed)
    table.insert(0, "fold", job.fold)
    table.insert(0, "variant", job.variant)
    return table


def whole(jobs: Sequence[Job], cohort: str) -> set[str]:
    """Variants all of whose jobs are done. Only these are judged: others would be judged on other slides."""
    mine = [job for job in jobs if job.cohort == cohort]
    return {job.variant for job in mine} - {job.variant for job in mine if not job.done}
