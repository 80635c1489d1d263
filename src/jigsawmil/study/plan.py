"""A study expanded to jobs, on folds that the run folder keeps."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

from ..cohort.cohort import Cohort
from ..cohort.labels import listed
from ..cohort.split_files import read_splits, write_folds
from ..cohort.splits import Fold, make_folds
from ..config import choose
from ..errors import JigsawmilError, SplitError, StudyError
from ..files import unguarded
from ..graph import GraphConfig
from ..tasks import get_task
from ..train.covariates import check_covariates
from ..train.decision import Decision
from ..train.ensemble import splits_of_members
from ..train.identity import features_changes, features_record, fingerprint
from ..train.places import check_places
from ..train.possible import check_models
from ..train.settings import Settings
from ..train.train_model import check_patients
from .job import Job
from .records import JobRecord
from .run_folder import RunFolder
from .study import Study

DEFAULTS = Settings().flat()
Folds = Mapping[tuple[str, int], list[Fold]]  # of a cohort and a seed
Decisions = Mapping[tuple[str, str, bool, int, int], Decision]  # of cohort, variant, shuffled, seed and fold


def plan(study: Study, out: Path, processes: int = 1) -> tuple[list[Job], dict[str, Cohort]]:
    """Read the cohorts, make or reuse the folds, and list every job of the study in the order of running."""
    cohorts, folds = prepare(study)
    RunFolder(out).make()
    return expand(study, cohorts, folds, out, processes), cohorts


def prepare(study: Study) -> tuple[dict[str, Cohort], Folds]:
    """Cohorts and folds: everything that can be known without a run folder."""
    cohorts = {name: spec.read() for name, spec in study.cohorts.items()}
    for name, images in study.references.items():
        for label in images:
            choose(f"cohorts.{name}.reference: class", label, cohorts[name].classes)
    for cohort in cohorts.values():
        check_places(cohort, study.variants.values(), shuffled=study.shuffle_control)
        check_covariates(cohort, study.variants.values())
        model_notes(study, cohort)
    if any(settings.level == "patient" for settings in study.variants.values()):
        for cohort in cohorts.values():
            check_patients(cohort)
    return cohorts, {
        (name, seed): _folds(study, name, cohort, seed) for name, cohort in cohorts.items() for seed in study.seeds
    }


def model_notes(study: Study, cohort: Cohort) -> list[str]:
    """What to say of the models of a study on a cohort; refuses those that cannot be trained on it."""
    offered = [choice.candidates(study.variants[name]).values() for name, choice in study.choices.items()]
    return check_models(cohort, [*study.variants.values(), *chain.from_iterable(offered)])


def expand(
    study: Study,
    cohorts: Mapping[str, Cohort],
    folds: Folds,
    out: Path,
    processes: int,
    decisions: Decisions | None = None,
) -> list[Job]:
    """Every job in the order of running, on the folds that the run folder has or is given here.

    decisions: what was chosen; a variant that chooses has its default settings where nothing was yet.
    """
    run = RunFolder(out)
    _keep_folds(study, cohorts, folds, run)
    members = [own for settings in study.variants.values() for own in settings.each_member()]
    marks = {name: (fingerprint(cohort), features_record(cohort)) for name, cohort in cohorts.items()}
    controls = (False, True) if study.shuffle_control else (False,)
    jobs = []
    for name, shuffled, variant in product(cohorts, controls, study.variants):
        own = _chosen(study, variant, name, shuffled, decisions or {})
        for training in _trainings(cohorts[name], study.variants[variant], study.seeds, folds, name, own):
            where = (name, variant, training.seed, training.fold, training.member)
            of = (name, variant, shuffled, training.seed, training.fold)
            jobs.append(
                Job(
                    cohort=name,
                    source=study.cohorts[name],
                    fingerprint=marks[name][0],
                    features=marks[name][1],
                    variant=variant,
                    graph=graph_for(training.settings, members),
                    shuffled=shuffled,
                    attention=study.attention and not shuffled,
                    memory_gb=study.memory_gb / max(1, processes),
                    folder=(run.control if shuffled else run).job(*where),
                    choice=(decisions or {}).get(of),
                    **training._asdict(),
                )
            )
    return jobs


class _Training(NamedTuple):
    settings: Settings
    seed: int
    fold: int
    member: int | None
    split: Fold


def _trainings(
    cohort: Cohort,
    settings: Settings,
    seeds: Sequence[int],
    folds: Folds,
    name: str,
    chosen: Mapping[tuple[int, int], Settings],
) -> Iterator[_Training]:
    """Every model that a variant needs on a cohort. Members come before folds: those of one graph share its slides.

    chosen: (seed, fold) -> settings, where they are not those of the variant.
    """
    members = len(settings.each_member())
    fits = {
        (seed, number): (own.each_member(), splits_of_members(cohort, fold, own, seed))
        for seed in seeds
        for number, fold in enumerate(folds[name, seed])
        for own in [chosen.get((seed, number), settings)]
    }
    for member in range(members):
        for (seed, number), (each, parts) in fits.items():
            yield _Training(each[member], seed, number, member if members > 1 else None, parts[member])


def _chosen(
    study: Study, variant: str, cohort: str, shuffled: bool, decisions: Decisions
) -> dict[tuple[int, int], Settings]:
    """(seed, fold) -> the settings that were chosen there."""
    if variant not in study.choices:
        return {}
    candidates = study.choices[variant].candidates(study.variants[variant])
    return {
        where[3:]: candidates[decision.chosen]
        for where, decision in decisions.items()
        if where[:3] == (cohort, variant, shuffled)
    }


def refuse_other_settings(jobs: Sequence[Job], cohorts: Mapping[str, Cohort], out: Path) -> dict[str, int]:
    """Results of other settings, folds, labels or features are never mixed with these.

    Returns, by cohort, how many jobs are of a version that did not record the features: they are kept unchecked.
    """
    unknown: Counter[str] = Counter()
    for job in jobs:
        if not job.done:
            continue
        try:
            found, wanted = JobRecord.read(job.files.record).spec, job.spec
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            name = job.files.record.name
            raise StudyError(f"{job.folder}: {name} is damaged ({error!r}). Remove that folder.") from error
        found = {**DEFAULTS, **found}  # a run of a version that did not know a setting had its default
        before, features = found.pop("features", None), wanted.pop("features", {})
        changed = [_change(key, found.get(key), wanted[key]) for key in wanted if found.get(key) != wanted[key]]
        if features and before is None:
            unknown[job.cohort] += 1
        elif features and (others := features_changes(before, features)):
            changed += [*others, *_changed_files(RunFolder(out), job.cohort, cohorts[job.cohort])]
        if job.attention and not job.files.attention.is_file():
            changed.append("attention was not kept")
        if changed:
            raise StudyError(
                f"{job.folder} holds results of other settings ({', '.join(changed)}). Give another --out, or remove "
                "that folder."
            )
    return unknown


def _changed_files(run: RunFolder, name: str, cohort: Cohort) -> list[str]:
    """Feature files that changed, in words, as far as the tables of the run tell."""
    before: dict[str, str] = {}
    if (table := run.table("slides")).is_file():
        with open(table, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row.get("cohort", name) == name and row.get("digest")]
        before = {unguarded(row["slide_id"]): row["digest"] for row in rows}
    now = {slide.slide_id: slide.survey.content for slide in cohort.slides if slide.survey is not None}
    changed = [slide for slide, content in now.items() if before.get(slide, content) != content]
    return [f"in {len(changed)} of {len(now)} slides: {listed(changed, 5)}"] if changed else []


def unrecorded_note(jobs: int) -> str:
    """What a run says of jobs that `refuse_other_settings` could not check."""
    return (
        f"{jobs} jobs are of an older version that did not record their features. They are kept; if features may have "
        "changed since, run again with another --out."
    )


def _change(key: str, found: Any, wanted: Any) -> str:
    words = {"cohort": "other slides, patients or labels", "folds": "other folds"}
    return words.get(key, f"{key.rstrip('_')} was {found!r}, is {wanted!r}")


def graph_for(settings: Settings, variants: Iterable[Settings]) -> GraphConfig | None:
    """Methods without a graph share the slides prepared for those with one, so that slides are read once."""
    if settings.needs_graph:
        return settings.graph
    shared = (settings.model.raster, settings.level)
    kin = [v for v in variants if v.needs_graph and (v.model.raster, v.level) == shared]
    return kin[0].graph if kin else None


def _folds(study: Study, name: str, cohort: Cohort, seed: int) -> list[Fold]:
    """The folds of a cohort, from a given file or made."""
    ids, patients = list(cohort.slide_ids), list(cohort.patients)
    if name in study.splits:
        folds = read_splits(study.splits[name], ids, patients, left_out=[item.name for item in cohort.left_out])
        _check_targets(cohort, folds)
    else:
        sites = list(cohort.sites) if study.by_site else None
        if study.by_site and not all(cohort.sites):
            raise JigsawmilError(
                f"{name}: by_site, but the site of some slides is unknown. Name its column (site_column); TCGA "
                "barcodes carry it."
            )
        if problem := get_task(cohort.task).check_enough(cohort.labels, cohort.patients, study.folds):
            raise SplitError(f"{name}: {problem}")
        folds = make_folds(
            ids, patients, cohort.stratum_names, folds=study.folds, seed=seed, sites=sites,
            allow_similar=study.cohorts[name].options.allow_similar,
        )  # fmt: skip
        _check_targets(cohort, folds)
    return folds


def _check_targets(cohort: Cohort, folds: Sequence[Fold]) -> None:
    """Refuse folds that cannot be trained on, or tested, for want of some target values."""
    for number, fold in enumerate(folds):
        train, test = (cohort.labels[cohort.rows_of(part)] for part in ([*fold.train, *fold.val], fold.test))
        if problem := get_task(cohort.task).check_fold(train, test, cohort.classes):
            raise SplitError(f"fold {number}: {problem}")


def _keep_folds(study: Study, cohorts: Mapping[str, Cohort], folds: Folds, run: RunFolder) -> None:
    """Write the folds that the run folder lacks; never others than those it has."""
    lacking, single = [], len(study.cohorts) == 1 and len(study.seeds) == 1
    for (name, seed), parts in folds.items():
        path, cohort = run.folds(name, seed, single), cohorts[name]
        ids, patients = list(cohort.slide_ids), list(cohort.patients)
        if not path.exists():
            lacking.append((parts, path, ids, patients, None if name in study.splits else seed))
        elif read_splits(path, ids, patients) != parts:
            raise StudyError(
                f"{path} holds other folds than this study asks for: the labels, the number of folds, the seed, "
                "by_site or splits have changed since. Give another --out; to keep those folds, name that file as "
                "splits."
            )
    for parts, path, ids, patients, made_by in lacking:
        write_folds(parts, path, ids, patients, seed=made_by)
