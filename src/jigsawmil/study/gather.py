"""The tables of a run folder, gathered from its jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..cohort.cohort import Cohort
from ..cohort.labels import COVARIATE
from ..cohort.splits import Fold, describe_splits
from ..errors import StudyError
from ..files import unguarded, write_csv
from ..tasks import SingleTarget, get_task
from ..train.ensemble import SPREAD, Weights, combine
from ..train.feed import cohort_groups
from ..train.origin import origin
from ..train.weights import learn_weights
from .compare import compare_methods, summarise
from .control import shuffle_control
from .job import LOGIT, Job
from .predictions import training_rows
from .records import CohortRecord, StudyRecord
from .run_folder import RunFolder
from .study import CohortSpec, Study
from .targets import of_target, target_rows


def by_reason(failed: Mapping[str, str]) -> dict[str, list[str]]:
    """Each reason once, with the jobs that it stopped."""
    names: dict[str, list[str]] = {}
    for name, why in failed.items():
        names.setdefault(why, []).append(name)
    return names


def gather(
    study: Study,
    out: Path,
    jobs: Sequence[Job],
    cohorts: Mapping[str, Cohort],
    failed: Mapping[str, str],
    choices: Mapping[bool, pd.DataFrame] | None = None,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write the tables of the run from its job folders, the control's beside its jobs, and study.json last.

    choices: what the folds chose, with true (False) and with shuffled places (True). notes: on cohorts, beside those of
    the audit."""
    run = RunFolder(out)
    for moved, table in (choices or {}).items():
        write_csv(table, (run.control if moved else run).table("choices"))
    plain, shuffled = ([job for job in jobs if job.shuffled == moved] for moved in (False, True))
    predictions = _write_tables(run, plain, cohorts)
    if shuffled:
        moved = _write_tables(run.control, shuffled, cohorts)
        _write_control(run, {False: (plain, predictions), True: (shuffled, moved)}, cohorts)
    write_slides(run, cohorts)
    record = StudyRecord(
        cohorts={
            name: cohort_record(
                study.cohorts[name],
                cohort,
                reference=study.references.get(name, {}),
                notes=(*_split_notes(jobs, name, cohort), *cohort.notes, *(notes or {}).get(name, ())),
            )
            for name, cohort in cohorts.items()
        },
        variants=tuple(study.variants),
        settings={name: settings.flat() for name, settings in study.variants.items()},
        choices={name: asdict(choice) for name, choice in study.choices.items()},
        jobs=len(jobs),
        failed=failed,
        by_site=study.by_site,
        phantom=study.phantom,
        published=study.published,
        file=study.file,
        origin=origin(),
        tables=run.table_marks(),
    )
    record.write(run.study)


def _split_notes(jobs: Sequence[Job], name: str, cohort: Cohort) -> list[str]:
    """What a reader has to know of folds that were given and are no cross-validation."""
    mine = [job for job in jobs if job.cohort == name]
    parts = {
        job.fold: Fold(job.split.train + job.split.val, job.split.test) for job in mine if job.seed == mine[0].seed
    }
    return describe_splits(list(parts.values()), list(cohort.slide_ids), list(cohort.patients))


def _training(jobs: Sequence[Job], name: str, cohort: Cohort, target: SingleTarget) -> pd.DataFrame:
    """What each fold was trained on, as far as the target is known."""
    mine = [job for job in jobs if job.cohort == name]
    folds = {(job.seed, job.fold): job.split for job in mine}
    known = [slide for slide in cohort.slides if target.label(cohort.label_of(slide))]
    return training_rows(folds, {slide.slide_id: slide.patient_id for slide in known}, mine[0].settings.level)


def cohort_record(source: CohortSpec, cohort: Cohort, **more: Any) -> CohortRecord:
    """A cohort as it was read from its source. more: other fields of the record."""
    return CohortRecord(
        labels=source.labels,
        features=source.features,
        options=source.options,
        classes=cohort.classes,
        task=cohort.task,
        dim=cohort.dim,
        encoder=cohort.encoder,
        **{"notes": cohort.notes, "guessed": cohort.guessed, **more},
    )


def write_slides(run: RunFolder, cohorts: Mapping[str, Cohort]) -> None:
    """The tables of slides, so that a run folder says by itself what it is about, and of what was left out."""
    left = [
        {"cohort": name, "name": entry.name, "reason": entry.reason}
        for name, cohort in cohorts.items()
        for entry in cohort.left_out
    ]
    write_csv(pd.DataFrame(left, columns=["cohort", "name", "reason"]), run.table("left_out"))
    rows = [
        {
            "cohort": name,
            "slide_id": slide.slide_id,
            "patient_id": slide.patient_id,
            "label": cohort.label_of(slide),
            "site": slide.site or "",
            "patches": slide.patches,
            "mpp": "" if slide.survey is None or slide.survey.info.mpp is None else slide.survey.info.mpp,
            "features": str(slide.path.resolve()) if slide.path else "",
            "digest": slide.survey.content if slide.survey else "",
            **{COVARIATE + name: cell for name, cell in cohort.known_of(slide).items()},
        }
        for name, cohort in cohorts.items()
        for slide in cohort.slides
    ]
    write_csv(pd.DataFrame(rows), run.table("slides"))


def _write_tables(run: RunFolder, jobs: Sequence[Job], cohorts: Mapping[str, Cohort]) -> pd.DataFrame:
    """Predictions, and summary and comparisons of the variants that are whole; the predictions are returned."""
    found: dict[str, list[pd.DataFrame]] = {"predictions": [], "summary": [], "comparisons": [], "weights": []}
    for name, cohort in cohorts.items():
        groups = _ensembles([job for job in jobs if job.cohort == name])
        groups = [group for group in groups if all(job.done for job in group)]
        if not groups:
            continue
        weights = [_weights(group, cohort) for group in groups]
        found["weights"] += [_weight_rows(*both) for both in zip(groups, weights, strict=True)]
        for target in get_task(cohort.task).split(cohort.classes):
            each = [_predictions(group, cohort, own, target) for group, own in zip(groups, weights, strict=True)]
            table = pd.concat(each, ignore_index=True)
            mark = {"cohort": name, **({"target": target.name} if target.name else {})}
            found["predictions"].append(table.assign(**mark))
            complete = table[table["variant"].isin(whole(jobs, name))]
            if len(complete):
                training = _training(jobs, name, cohort, target)
                of = {"classes": target.classes, "task": target.task, "training": training}
                found["summary"].append(summarise(complete, **of).assign(**mark))
                pairs = compare_methods(complete, **of).assign(**mark)
                if groups[0][0].settings.level == "patient":  # one row per patient already: none has several
                    pairs["level"] = "patient"
                found["comparisons"].append(pairs)
    found["weights"] = [table for table in found["weights"] if len(table)]
    tables = {name: pd.concat(parts, ignore_index=True) if parts else pd.DataFrame() for name, parts in found.items()}
    for name, table in tables.items():
        write_csv(table, run.table(name))
    return tables["predictions"]


def _write_control(
    run: RunFolder, by_place: Mapping[bool, tuple[Sequence[Job], pd.DataFrame]], cohorts: Mapping[str, Cohort]
) -> None:
    """What shuffled places change, of the variants that are whole with true and with shuffled places."""
    tests = []
    for name, cohort in cohorts.items():
        both = set.intersection(*(whole(jobs, name) for jobs, _ in by_place.values()))
        for target in get_task(cohort.task).split(cohort.classes) if both else ():
            tables = (of_target(t[t["cohort"] == name], target.name) for _, t in by_place.values())
            true, moved = (t[t["variant"].isin(both)] for t in tables)
            training = _training([job for jobs, _ in by_place.values() for job in jobs], name, cohort, target)
            control = shuffle_control(true, moved, target.classes, target.task, training=training)
            mark = {"cohort": name, **({"target": target.name} if target.name else {})}
            tests.append(control.assign(**mark))
    write_csv(pd.concat(tests, ignore_index=True) if tests else pd.DataFrame(), run.control.table("control"))


def _ensembles(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs that predict the same slides together: a single model, or all members of an ensemble."""
    groups: dict[tuple[str, int, int], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.variant, job.seed, job.fold), []).append(job)
    return list(groups.values())


def _weights(jobs: Sequence[Job], cohort: Cohort) -> Weights | None:
    """Of the members of an ensemble, learnt from the training patients that each held out; see `learn_weights`."""
    if len(jobs) == 1 or not all(job.files.held_out.is_file() for job in jobs):  # as in runs of older versions
        return None
    held_out = []
    for job in jobs:
        table = _read_scores(job, job.files.held_out, job.split.val, cohort)
        scores = table[[column for column in table if column.startswith(LOGIT)]].to_numpy(dtype=float)
        held_out.append(dict(zip(table["slide_id"], scores, strict=True)))
    known = set().union(*held_out)
    groups = cohort_groups(cohort, jobs[0].settings.level)
    truth = {name: cohort.labels[rows[0]] for name, rows in groups if name in known}
    task = get_task(cohort.task).of(cohort.classes)
    return learn_weights([job.settings for job in jobs], held_out, truth, task, len(cohort.classes))


def _weight_rows(jobs: Sequence[Job], weights: Weights | None) -> pd.DataFrame:
    rows = [
        {"cohort": job.cohort, "variant": job.variant, "seed": job.seed, "fold": job.fold, "member": job.member}
        for job in jobs
    ]
    return pd.DataFrame() if weights is None else pd.DataFrame(rows).assign(weight=weights)


def _predictions(jobs: Sequence[Job], cohort: Cohort, weights: Weights | None, target: SingleTarget) -> pd.DataFrame:
    """Of a single model, or of an ensemble: then what the average scores predict, and how far members disagree.
    Of a task with several targets, those of one of them."""
    table, *others = (_read_scores(job, job.files.predictions, job.split.test, cohort) for job in jobs)
    logits = [column for column in table if column.startswith(LOGIT)]
    stacked = np.stack([other[logits].to_numpy(dtype=float) for other in (table, *others)]) if logits else None
    table = table.drop(columns=logits)
    if target.name:
        p = get_task(cohort.task).matrix(table, cohort.classes)
        table = target_rows(table[["slide_id", "patient_id", "label"]], target, p, stacked, weights)
    elif stacked is not None:
        found = combine(stacked, cohort.task, len(cohort.classes), weights)
        rows = [target.task.row(p, cohort.classes) for p in found.probabilities]
        table = table.assign(**pd.DataFrame(rows, index=table.index))
        table[SPREAD] = found.spread
    job = jobs[0]
    table.insert(0, "seed", job.seed)
    table.insert(0, "fold", job.fold)
    table.insert(0, "variant", job.variant)
    return table


def _read_scores(job: Job, path: Path, slides: Sequence[str], cohort: Cohort) -> pd.DataFrame:
    """A table of what a job says of some slides, or of their patients."""
    try:  # all as text: ids may look like a number or like NA, and pandas may round numbers in their last digit
        table = pd.read_csv(path, dtype=str, keep_default_na=False).map(unguarded)
        numbers = get_task(cohort.task).columns(cohort.classes)
        for column in table:
            if column in numbers or column.startswith(LOGIT):
                table[column] = table[column].map(float)
                if not np.isfinite(table[column]).all():
                    raise ValueError(f"column {column} holds NaN or infinity")
        _check_rows(table, job, slides, cohort)
    except (OSError, ValueError) as error:
        raise StudyError(
            f"{job.folder}: {path.name} is damaged ({error}). Remove that folder and run again."
        ) from error
    return table


def _check_rows(table: pd.DataFrame, job: Job, slides: Sequence[str], cohort: Cohort) -> None:
    """Every slide (or patient) has one row; a ValueError names those that have none, or no place there."""
    rows = cohort.rows_of(slides)
    cases = cohort.patients[rows] if job.settings.level == "patient" else np.asarray(slides)
    found, expected = list(table["slide_id"]), set(map(str, cases))
    if wrong := sorted(expected ^ set(found)):
        raise ValueError(
            f"{len(set(found))} cases, expected {len(expected)}; missing or unknown: {', '.join(wrong[:5])}"
        )
    if len(found) > len(expected):
        raise ValueError(f"{len(found)} rows for {len(expected)} cases")


def whole(jobs: Sequence[Job], cohort: str) -> set[str]:
    """Variants all of whose jobs are done. Only these are judged: others would be judged on other slides."""
    mine = [job for job in jobs if job.cohort == cohort]
    return {job.variant for job in mine} - {job.variant for job in mine if not job.done}
