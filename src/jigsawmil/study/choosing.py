"""The first pass of a study that chooses settings: inner jobs, and what they decide.

Inner jobs are jobs like any other: kept, resumed and distributed. They see the training patients of one fold only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd

from ..cohort.cohort import Cohort
from ..errors import StudyError
from ..train.decision import Decision, Inner, decide, inner_folds
from .job import Job
from .plan import Folds, graph_for
from .records import JobRecord
from .run_folder import RunFolder
from .study import Study

Where = tuple[str, str, bool, int, int]  # cohort, variant, shuffled, seed, fold


def where_of(job: Job) -> Where:
    return job.cohort, job.variant, job.shuffled, job.seed, job.fold


def expand_inner(
    study: Study, jobs: Sequence[Job], cohorts: Mapping[str, Cohort], folds: Folds, out: Path
) -> list[Job]:
    """The inner jobs of the variants that choose. jobs: those of the study."""
    run = RunFolder(out)
    firsts: dict[Where, Job] = {}  # one per fold, whatever the number of members: single models choose
    for job in jobs:
        if job.variant in study.choices:
            firsts.setdefault(where_of(job), job)
    inner = []
    for (name, variant, shuffled, seed, fold), job in firsts.items():
        choice = study.choices[variant]
        candidates = {label: own.replace(members=1) for label, own in choice.candidates(job.settings).items()}
        parts = inner_folds(cohorts[name], folds[name, seed][fold], choice, seed, fold, by_site=study.by_site)
        for (label, settings), ((repeat, number), split) in product(candidates.items(), parts.items()):
            what = Inner(label, repeat, number)
            inner.append(
                replace(
                    job,
                    inner=what,
                    settings=settings,
                    graph=graph_for(settings, candidates.values()),
                    split=split,
                    member=None,
                    attention=False,
                    folder=(run.control if shuffled else run).inner_job(name, variant, seed, fold, what),
                )
            )
    turn = {key: number for number, key in enumerate(dict.fromkeys(map(_slides_of, inner)))}
    return sorted(inner, key=lambda job: turn[_slides_of(job)])


def _slides_of(job: Job) -> tuple[object, ...]:
    """Trainings of one candidate run one after the other in all folds: they share the prepared slides."""
    return job.cohort, job.variant, job.shuffled, job.inner and job.inner.candidate


def decisions_of(study: Study, inner: Sequence[Job]) -> dict[Where, Decision]:
    """What each fold chooses; a fold with an inner job that is not done has not chosen."""
    groups: dict[Where, dict[str, list[Job]]] = {}
    for job in inner:
        assert job.inner is not None
        groups.setdefault(where_of(job), {}).setdefault(job.inner.candidate, []).append(job)
    return {
        where: decide({name: [_loss(job) for job in own] for name, own in tried.items()}, study.choices[where[1]].folds)
        for where, tried in groups.items()
        if all(job.done for own in tried.values() for job in own)
    }


def _loss(job: Job) -> float:
    record = JobRecord.read(job.files.record)
    if record.scored is None:
        raise StudyError(f"{job.folder}: {job.files.record.name} has no score. Remove that folder and run again.")
    return float(record.scored["loss"])


def choice_tables(inner: Sequence[Job], decisions: Mapping[Where, Decision]) -> dict[bool, pd.DataFrame]:
    """Whether places were shuffled -> a row per fold and candidate: its inner loss, its gain over the default with the
    standard error, whether it was chosen, and the seconds that its inner jobs took."""
    seconds: dict[tuple[Where, str], float] = {}
    for job in inner:
        if job.inner is not None and where_of(job) in decisions:
            key = where_of(job), job.inner.candidate
            seconds[key] = seconds.get(key, 0.0) + float(JobRecord.read(job.files.record).seconds.get("fit", 0))
    rows: dict[bool, list[dict[str, object]]] = {}
    for where, decision in decisions.items():
        cohort, variant, shuffled, seed, fold = where
        for each in decision.judged:
            row = {"cohort": cohort, "variant": variant, "seed": seed, "fold": fold, **each._asdict()}
            row["default"] = int(each.candidate == decision.default)
            row["chosen"] = int(each.candidate == decision.chosen)
            row["seconds"] = round(seconds[where, each.candidate], 3)
            rows.setdefault(shuffled, []).append(row)
    return {shuffled: pd.DataFrame(own) for shuffled, own in rows.items()}
