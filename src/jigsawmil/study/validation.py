"""A trained model on a second, labelled cohort: external validation.

What is written is a run with one variant and one fold, whose test slides are the whole cohort, and with one job for
each model that answers. So report, viewer and maps read a validation as they read any other run.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ..bags.join import Folders, one_folder
from ..cohort.cohort import Cohort
from ..cohort.options import CohortOptions
from ..config import choose, from_mapping
from ..errors import ConfigError, StudyError
from ..files import write_csv
from ..nn.model import Model
from ..statistics.metrics import Floats
from ..tasks import SingleTarget
from ..train.answers import Answers
from ..train.apply import Group, apply_groups, check_fits, check_known, notes_on
from ..train.checkpoint import CARD, ModelCard, load_members, load_model, save_model
from ..train.ensemble import Ensemble, members_of
from ..train.feed import cohort_groups
from ..train.identity import fingerprint
from ..train.infer import Seen
from ..train.origin import origin
from ..train.out_of_fold import TARGETS
from ..train.train_model import check_patients
from ..train.trained_on import TrainedSlide, find_overlap
from .attention import write_attention
from .compare import comparison_columns, summarise
from .external import read_external
from .gather import cohort_record, write_slides
from .job import LOGIT
from .predictions import pool
from .records import JobRecord, StudyRecord, ValidationRecord
from .run import Run, is_run, open_run, weights_of
from .run_folder import JobFolder, RunFolder
from .slide_maps import the_cohort
from .study import CohortSpec
from .targets import target_rows

EXTERNAL = "external"  # what the cohort of a validation is called
Follow = Callable[[Iterator[Seen], int], Iterator[Seen]]  # given a number of cases, shows how far it is


@dataclass(frozen=True)
class Subject:
    """What is validated. settings: of the variant. record: of where it came from. trained_on: see `ModelCard`."""

    model: Model | Ensemble
    card: ModelCard
    variant: str
    settings: dict[str, Any]
    record: ValidationRecord
    trained_on: tuple[TrainedSlide, ...]


def subject_of(source: str | Path, *, variant: str | None = None, cohort: str | None = None) -> Subject:
    """A model with its card, or all fold models of one variant of a run as one ensemble: every seed, fold and member.

    variant: of a run; None: the last of the study. cohort: of a run with several.
    """
    source = Path(source)
    if is_run(source):
        return _of_run(open_run(source), variant, cohort)
    if not (source / CARD).is_file():
        what = "neither a run (study.json) nor a model (model.json) is in it" if source.exists() else "no such folder"
        raise StudyError(
            f"{source}: {what}. Give the folder that `jigsawmil compare`, `study` or `train` wrote to (--out)."
        )
    if variant or cohort:
        raise ConfigError(f"--variant and --cohort belong to a run, and {source} holds a model. Leave them out.")
    model, card = load_model(source)
    settings = dict((card.training or {}).get("settings") or {"method": card.model.method})
    count = len(members_of(model))
    what = "a single model" if count == 1 else f"an ensemble of {count} models"
    record = ValidationRecord(
        source=str(source),
        models=count,
        words=f"{what}, trained on all slides of its cohort",
        threshold=card.threshold,
        reference=card.performance or {},
        reference_words=f"out of fold, {card.performance['predictions']}" if card.performance else "",
    )
    return Subject(model, card, str(settings["method"]), settings, record, card.trained_on)


def _of_run(run: Run, variant: str | None, cohort: str | None) -> Subject:
    if run.record.validation is not None:
        raise StudyError(
            f"{run.folder}: is itself a validation. Give the run or model: {run.record.validation.source}."
        )
    name = the_cohort(run, cohort)
    variant = run.variants[-1] if variant is None else variant
    choose("--variant", variant, run.variants)
    judged = run.summary if len(run.summary) else pd.DataFrame(columns=["cohort", "variant"])
    rows = judged[(judged["cohort"] == name) & (judged["variant"] == variant)]
    if rows.empty:
        raise StudyError(f"{run.folder}: {variant} lacks some folds on {name}. Run the study to its end first.")
    jobs = [job for job in run.jobs if (job.cohort, job.variant) == (name, variant)]
    model, card = load_members([job.folder for job in jobs], weights_of(jobs))
    folds, seeds = ({getattr(job, what) for job in jobs} for what in ("fold", "seed"))
    counts = {"folds": len(folds), "seeds": len(seeds), "members": len(jobs) // (len(folds) * len(seeds))}
    spelled = " x ".join(f"{count} {what}" for what, count in counts.items() if count > 1 or what == "folds")
    views = {view.target: _reference(view, name, variant) for of, view in run.by_target if of == name}
    reference, threshold = views.get("", ({TARGETS: {target: own for target, (own, _) in views.items()}}, None))
    design = str(rows.iloc[0].get("design", "cross-validation"))
    record = ValidationRecord(
        source=str(run.folder),
        models=len(jobs),
        words=f"the ensemble of all {len(jobs)} fold models of {variant} ({spelled})",
        threshold=threshold,
        reference=reference,
        reference_words={
            "repeated hold-out": "mean over the test sets of the repeated hold-out",
            "hold-out": "predictions of the test set",
        }.get(design, "pooled out-of-fold predictions of the cross-validation"),
    )
    return Subject(
        model,
        replace(card, threshold=record.threshold),
        variant,
        dict(run.settings[variant]),
        record,
        _trained_on(run, name, card),
    )


def _reference(run: Run, cohort: str, variant: str) -> tuple[dict[str, Any], float | None]:
    """What a run says of a variant, with decisions at the threshold that its predictions fix; of a run that is about
    one of several targets, at that of the task, for the model has no other."""
    table, summary = (
        own[(own["cohort"] == cohort) & (own["variant"] == variant)] for own in (run.predictions, run.summary)
    )
    row, task = summary.iloc[0], run.task(cohort)
    one = pool(table.dropna(axis="columns", how="all"), run.classes[cohort], task)[variant]
    figures = {key: value for key, value in row.to_dict().items() if isinstance(value, float)}
    threshold = None if run.target else one.task.best_threshold(one.truth, one.probability)
    decided = one.task.at(threshold).score(one.truth, one.probability)
    figures |= {key: value for key, value in decided.items() if key in figures}  # those of a decision change
    design = str(row.get("design", "cross-validation"))
    return {**figures, "design": design, "slides": len(one.cases), "patients": len(set(one.patients))}, threshold


def _trained_on(run: Run, cohort: str, card: ModelCard) -> tuple[TrainedSlide, ...]:
    """A run knows the slides of its cohort, and those of its models that say so know their digests."""
    known = {row.slide_id: row for own in card.members or (card,) for row in own.trained_on}
    rows = run.slides[run.slides["cohort"] == cohort]
    return tuple(
        known.get(row.slide_id) or TrainedSlide(str(row.slide_id), str(row.patient_id), int(row.patches))
        for row in rows.itertuples()
    )


def overlap_words(cohort: Cohort, subject: Subject, allow: bool) -> tuple[str, list[str]]:
    """What the cohort shares with the training set, in words, and notes; refused unless it is allowed."""
    if not subject.trained_on:
        return "", [
            "Overlap with the training set cannot be checked: the model does not state its training slides (it is of "
            "an older version, or their table was removed)."
        ]
    notes = []
    if not all(row.digest for row in subject.trained_on):
        notes.append(
            "Overlap was checked by ids only: the models are of an older version and hold no digests of their "
            "training slides."
        )
    words = find_overlap(cohort, subject.trained_on).words
    if words and not allow:
        raise StudyError(
            f"The cohort shares slides or patients with the training set of {subject.record.source} ({words}); "
            "expected slides of patients that the model has not seen. Leave them out of the label table; if the names "
            "agree by chance, or overlap is meant, give --allow-overlap (allow_overlap=True)."
        )
    return words, notes


def write_validation(
    source: str | Path,
    labels: str | Path,
    features: Folders,
    folder: Path,
    *,
    variant: str | None = None,
    cohort: str | None = None,
    allow_overlap: bool = False,
    attention: bool = False,
    device: str = "auto",
    on_cohorts: Callable[[Mapping[str, Cohort]], None] = lambda cohorts: None,
    follow: Follow = lambda seen, total: seen,
    **options: Any,
) -> Run:
    """Write the tables and jobs of a validation into a folder that is there, and open it; see `report.validate`."""
    subject, features = subject_of(source, variant=variant, cohort=cohort), one_folder(features)
    card, given = subject.card, from_mapping(CohortOptions, options, "validate")
    read, notes = read_external(str(labels), str(features), given, card)
    if card.level == "patient":
        check_patients(read)
    headers = [slide.survey.info for slide in read.slides if slide.survey is not None]
    for header in headers:
        check_fits(header, card)
    overlap, remarks = overlap_words(read, subject, allow_overlap)
    notes += remarks
    notes += notes_on(headers, card)
    groups: list[Group] = [
        (name, [partial(read.bag, index) for index in rows]) for name, rows in cohort_groups(read, card.level)
    ]
    notes += check_known(card, [(slide.slide_id, read.known_of(slide)) for slide in read.slides])
    on_cohorts({EXTERNAL: read})
    started = time.time()
    found = apply_groups(subject.model, card, groups, device=device)
    members = _Members(subject, read, attention)
    for seen in follow(found, len(groups)):
        members.add(seen)
    run = RunFolder(folder)
    members.write(run, time.time() - started)
    _write_tables(run, members, read)
    write_slides(run, {EXTERNAL: read})
    StudyRecord(
        cohorts={
            EXTERNAL: cohort_record(
                CohortSpec(labels=str(labels), features=str(features), options=given),
                read,
                notes=(*read.notes, *notes),
            )
        },
        variants=(subject.variant,),
        settings={subject.variant: subject.settings},
        jobs=subject.record.models,
        origin=origin(),
        tables=run.table_marks(),
        validation=replace(subject.record, overlap=overlap),
    ).write(run.study)
    return open_run(folder)


class _Members:
    """What each model says of each case, on its way to the jobs of the run."""

    def __init__(self, subject: Subject, cohort: Cohort, attention: bool) -> None:
        self.subject, self.cohort, self.answers = subject, cohort, Answers(subject.card)
        self.cases: list[dict[str, Any]] = []
        self._rows: list[list[dict[str, Any]]] = [[] for _ in members_of(subject.model)]
        self._attention: list[dict[str, Any]] | None = [{} for _ in self._rows] if attention else None
        self._slides = dict(cohort_groups(cohort, subject.card.level))

    def add(self, seen: Seen) -> None:
        first, task = self.cohort.slides[self._slides[seen.name][0]], self.answers.task
        label = self.cohort.label_of(first)
        truth = task.truth(first.label, self.cohort.classes)
        self.cases.append({"slide_id": seen.name, "patient_id": first.patient_id, "label": label, **truth})
        self.answers.add(seen)
        for number, own in enumerate(seen.members or (seen,)):
            logits = {f"{LOGIT}{i}": float(value) for i, value in enumerate(own.scores)}
            row = task.row(own.probabilities, self.cohort.classes)
            self._rows[number].append({**self.cases[-1], **row, **logits})
            if self._attention is not None:
                ids, kept = own.batch.slide_ids, self._attention[number]
                kept |= zip(ids, own.attention, strict=True)
                kept |= {f"{slide}/coords": at for slide, at in zip(ids, own.coords, strict=True)}

    def write(self, run: RunFolder, seconds: float) -> None:
        """A job for each model: its predictions, a copy of it, and what it was trained with."""
        card, variant, mark = self.subject.card, self.subject.variant, fingerprint(self.cohort)
        models, cards = members_of(self.subject.model), card.members or (card,)
        for number, (model, own) in enumerate(zip(models, cards, strict=True)):
            member = number if len(models) > 1 else None
            files = JobFolder(run.job(EXTERNAL, variant, 0, 0, member))
            save_model(files.path, model, own)
            write_csv(pd.DataFrame(self._rows[number]), files.predictions)
            if self._attention is not None:
                write_attention(files.attention, self._attention[number])
            training = own.training or {}
            JobRecord(
                name=f"{EXTERNAL} {variant}" + ("" if member is None else f" member {member}"),
                spec={**(training.get("settings") or self.subject.settings), "seed": 0, "cohort": mark},
                best_epoch=training.get("best_epoch"),
                seconds={"predict": seconds / len(models)},
                variant=variant,
                fold=0,
                member=member,
                origin=origin(),
            ).write(files.record)


def _write_tables(run: RunFolder, members: _Members, cohort: Cohort) -> None:
    """Predictions and summary with the columns of `compare`, by slide and by patient."""
    first = {"variant": members.subject.variant, "fold": 0, "seed": 0}
    answers, task = members.answers, members.answers.task

    weights = members.subject.card.member_weights
    level, scores = members.subject.card.level, answers.scores if len(answers.scores) > 1 else None
    found: dict[str, list[pd.DataFrame]] = {}

    def table(
        target: SingleTarget, cases: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], scores: Floats | None
    ) -> pd.DataFrame:
        if target.name:
            p = task.matrix(pd.DataFrame(rows), cohort.classes)
            own = target_rows(pd.DataFrame(cases), target, p, scores, weights)
            return own.assign(**first, target=target.name)
        extra = {"prediction"} - set(task.columns(cohort.classes))
        kept = [{key: value for key, value in row.items() if key not in extra} for row in rows]
        return pd.DataFrame([{**first, **case, **row} for case, row in zip(cases, kept, strict=True)])

    def add(name: str, table: pd.DataFrame, target: SingleTarget) -> None:
        mark = {"target": target.name} if target.name else {}
        found.setdefault(name, []).append(table.assign(cohort=EXTERNAL, **mark))

    for target in task.split(cohort.classes):
        of = (target.classes, target.task.at(task.threshold))
        predictions = table(target, members.cases, answers.rows, scores)
        if predictions.empty:  # no slide of this cohort has a label of that target
            continue
        figures = summarise(predictions, *of)
        if level == "slide" and predictions.groupby("patient_id")["label"].nunique().max() == 1:
            first_of = {case["patient_id"]: case for case in reversed(members.cases)}
            names, rows = answers.of_patients({case["slide_id"]: case["patient_id"] for case in members.cases})
            cases = [{**first_of[name], "slide_id": name} for name in names]
            patients = table(target, cases, rows, None)
            by_patient = summarise(patients, *of)
            own = f"{target.task.measure.name}_patient"
            figures[own] = by_patient[own]  # of mean scores, as `predict` has them
            add("patient_predictions", patients, target)
            add("patient_summary", by_patient, target)
        add("predictions", predictions, target)
        add("summary", figures, target)
    if weights is not None:
        rows_of = {**first, "cohort": EXTERNAL, "member": range(len(weights)), "weight": weights}
        write_csv(pd.DataFrame(rows_of), run.table("weights"))
    for name, tables in found.items():
        write_csv(pd.concat(tables, ignore_index=True), run.table(name))
    write_csv(pd.DataFrame(columns=[*comparison_columns(task.measure), "cohort"]), run.table("comparisons"))
