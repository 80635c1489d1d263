"""A run read back from its folder: what was run, what came out, and which model may speak about which slide."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..bags.bag import Bag
from ..bags.formats import find_bags, read_bag
from ..bags.survey import content_at
from ..cohort.labels import COVARIATE, slide_name
from ..cohort.split_files import read_folds
from ..cohort.splits import Fold
from ..config import choose
from ..errors import ConfigError, FeatureError, StudyError
from ..files import unguarded
from ..tasks import SingleTarget, Task, get_task
from ..train.ensemble import Weights
from ..train.out_of_fold import TARGETS
from .predictions import training_rows
from .records import JobRecord, StudyRecord, ValidationRecord
from .run_folder import PATIENT_TABLES, TABLES, JobFolder, RunFolder
from .targets import of_target

TEXT = (
    *("cohort", "slide_id", "patient_id", "label", "site", "features", "digest", "name", "reason", "positive", "level"),
    *("variant", "variant_a", "variant_b", "candidate", "design"),
)
WHOLE = (
    *("seed", "fold", "member", "patches", "folds", "seeds", "slides", "patients", "undefined_folds", "resamples"),
    *("default", "chosen"),
)
MAYBE_TEXT = ("target", "prediction")  # a value and a predicted value; of several targets a name and a class
RENAMED = {"method": "variant", "method_a": "variant_a", "method_b": "variant_b"}  # columns of older versions


@dataclass(frozen=True, kw_only=True)
class RunJob(JobRecord):
    """A job that is done."""

    cohort: str
    folder: Path
    weight: float | None = None  # of a member of an ensemble; None: all count the same

    @property
    def settings(self) -> Mapping[str, Any]:
        """As in `Settings`, and seed, shuffled and the fingerprints of cohort and folds."""
        return self.spec

    @property
    def files(self) -> JobFolder:
        return JobFolder(self.folder)


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """The results of a study. Tables have a column `cohort`; predictions are out of fold, `slide_id` being the
    patient if patients were pooled. jobs: the finished ones, without those of the control and those that choose.
    choices: what each fold chose, and from what. weights: of the members of committees, as they were learnt. control:
    predictions with places shuffled; control_tests: what that changed, per variant."""

    folder: Path
    record: StudyRecord = field(repr=False)
    jobs: tuple[RunJob, ...] = field(repr=False)
    predictions: pd.DataFrame = field(repr=False)
    summary: pd.DataFrame = field(repr=False)
    comparisons: pd.DataFrame = field(repr=False)
    choices: pd.DataFrame = field(repr=False)
    weights: pd.DataFrame = field(repr=False)
    control: pd.DataFrame = field(repr=False)
    control_tests: pd.DataFrame = field(repr=False)
    left_out: pd.DataFrame = field(repr=False)
    slides: pd.DataFrame = field(repr=False)
    target: str = ""  # of a run with several targets, the one that this is about, see `for_target`
    patient_predictions: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)  # of a validation
    patient_summary: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)

    @property
    def files(self) -> RunFolder:
        return RunFolder(self.folder)

    @property
    def cohorts(self) -> tuple[str, ...]:
        return tuple(self.record.cohorts)

    @property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """Of each cohort."""
        return {name: cohort.classes for name, cohort in self.record.cohorts.items()}

    @property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """What the audit of each cohort remarked."""
        return {name: cohort.notes for name, cohort in self.record.cohorts.items()}

    @property
    def failed(self) -> Mapping[str, str]:
        """Names of the jobs that failed, and why."""
        return self.record.failed

    @cached_property
    def variants(self) -> tuple[str, ...]:
        """In the order of the study, as far as they were judged; then the others."""
        judged = [] if self.summary.empty else list(self.summary["variant"])
        return tuple(dict.fromkeys([*judged, *(job.variant for job in self.jobs)]))

    @cached_property
    def level(self) -> str:
        """What all its variants predict as one: a slide, or a patient."""
        levels = {job.settings.get("level", "slide") for job in self.jobs}
        return "patient" if levels == {"patient"} else "slide"

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({job.seed for job in self.jobs}))

    @cached_property
    def settings(self) -> dict[str, Mapping[str, Any]]:
        """Of each variant, by their flat names; a run of an older version has those of its jobs."""
        return {job.variant: self.record.settings.get(job.variant, job.settings) for job in self.jobs}

    def task(self, cohort: str) -> str:
        return self.record.cohorts[cohort].task

    def deciding(self, cohort: str) -> Task:
        """The task of a cohort; of a validation, with decisions at the threshold that training fixed."""
        validation = self.record.validation
        return get_task(self.task(cohort)).at(None if validation is None else validation.threshold)

    @property
    def targets(self) -> dict[str, tuple[SingleTarget, ...]]:
        """Of each cohort."""
        return {name: get_task(self.task(name)).split(self.classes[name]) for name in self.cohorts}

    @property
    def by_target(self) -> "list[tuple[str, Run]]":
        """Each cohort, with the run; of several targets, each cohort and target with the run for that target, unless no
        slide of the cohort has a label of it (in a validation)."""
        views = [
            (name, self.for_target(target.name) if target.name else self)
            for name, targets in self.targets.items()
            for target in targets
        ]
        return [(name, view) for name, view in views if name in set(view.slides["cohort"])]

    def for_target(self, name: str | None) -> "Run":
        """The run as if it were about one target: its cohorts, labels, predictions, figures and maps. name: of a run
        without several targets, None; of others it must be given.

        Example: `open_run("run").for_target("her2").summary`
        """
        known = dict.fromkeys(target.name for own in self.targets.values() for target in own if target.name)
        if not known and name is None:
            return self
        if name not in known:
            raise ConfigError(
                f"{self.folder}: target: found {name or 'none'}, expected "
                + (f"one of {', '.join(known)}. Name it: --target." if known else "none: it has one target.")
            )
        kept = {cohort: target for cohort, own in self.targets.items() for target in own if target.name == name}
        cohorts = {
            cohort: replace(self.record.cohorts[cohort], task=target.task.name, classes=target.classes)
            for cohort, target in kept.items()
        }
        slides = self.slides[self.slides["cohort"].isin(kept)]
        labels = [kept[row.cohort].label(str(row.label)) for row in slides.itertuples()]
        slides = slides.assign(label=labels)
        tables = ("predictions", "summary", "comparisons", "control", "control_tests")
        own = {table: _of_target(getattr(self, table), name) for table in (*tables, *PATIENT_TABLES)}
        return replace(
            self,
            record=replace(self.record, cohorts=cohorts, validation=_validation_of(self.record.validation, name)),
            slides=slides[slides["label"] != ""],
            target=name,
            **own,
        )

    def cohort_of(self, slide_id: str, cohort: str | None = None) -> str:
        """The cohort that a slide belongs to; it must be named where the slide is in several."""
        if cohort is not None:
            choose("cohort", cohort, self.cohorts)
        rows = self.slides[self.slides["slide_id"] == slide_id]
        found = [name for name in rows["cohort"] if cohort in (None, name)]
        if not found:
            known = list(self.slides["slide_id"])
            raise StudyError(
                f"{slide_id}: no slide of {self.folder}{f' with a label of {self.target}' if self.target else ''}, "
                f"which has {len(known)}: {', '.join(known[:3])}, ... "
                f"See {self.files.table('slides')}."
            )
        if len(found) > 1:
            raise StudyError(f"{slide_id} is in the cohorts {', '.join(found)}. Name one of them.")
        return str(found[0])

    def jobs_of(
        self, slide_id: str, *, variant: str | None = None, cohort: str | None = None, seed: int | None = None
    ) -> tuple[RunJob, ...]:
        """The job whose model never saw this slide, since it was in the job's test fold; all members of an ensemble.
        Of several folds that tested it, the first.

        variant: None = the last of the study. seed: None = the first.
        """
        cohort = self.cohort_of(slide_id, cohort)
        variant = self.variants[-1] if variant is None else variant
        choose("variant", variant, self.variants)
        seed = self.seeds[0] if seed is None else seed
        own = self.slides[(self.slides["slide_id"] == slide_id) & (self.slides["cohort"] == cohort)]
        case = own["patient_id"].iloc[0] if self.level == "patient" else slide_id
        table = self.predictions
        rows = table[(table["slide_id"] == case) & (table["cohort"] == cohort) & (table["variant"] == variant)]
        folds = sorted(set(rows.loc[rows["seed"] == seed, "fold"]))[:1]
        wanted = (cohort, variant, seed)
        found = [job for job in self.jobs if (job.cohort, job.variant, job.seed) == wanted and job.fold in folds]
        if found:
            return tuple(sorted(found, key=lambda job: job.member or 0))
        raise StudyError(
            f"{slide_id}: no finished job of {variant}, seed {seed}, had it in its test fold. Run the study to its "
            "end; if its splits are a hold-out, choose a slide that they test."
        )

    def training(self, cohort: str) -> pd.DataFrame | None:
        """What each fold was trained on, see `compare_methods`; None if the run keeps no folds."""
        own = self.slides[self.slides["cohort"] == cohort]
        patient_of = dict(zip(own["slide_id"], own["patient_id"], strict=True))
        folds: dict[tuple[int, int], Fold] = {}
        for seed in self.seeds:
            paths = (self.files.folds(cohort, seed, single) for single in (True, False))
            path = next((path for path in paths if path.is_file()), None)
            if path is None:
                return None
            folds |= {(seed, number): fold for number, fold in enumerate(read_folds(path))}
        return training_rows(folds, patient_of, self.level)

    def features_of(self, slide_id: str, *, cohort: str | None = None, folder: str | Path | None = None) -> Path:
        """The slide's feature file, where it was when the study ran, or in another folder of features."""
        cohort = self.cohort_of(slide_id, cohort)
        if folder is not None:
            key = self.record.cohorts[cohort].options.features_key
            found = {slide_name(stem): path for stem, path in find_bags(folder, features_key=key).items()}
            if slide_id not in found:
                raise FeatureError(f"{folder}: no features of {slide_id} among {len(found)} files.")
            return found[slide_id]
        own = self.slides[(self.slides["slide_id"] == slide_id) & (self.slides["cohort"] == cohort)]
        path = Path(own["features"].iloc[0])
        if not path.exists():
            raise FeatureError(
                f"{path}: no longer there; the study read the features of {slide_id} from it. Give their new folder "
                "with --features."
            )
        return path

    def bag_of(self, slide_id: str, *, cohort: str | None = None, folder: str | Path | None = None) -> Bag:
        """The slide's bag, read as the study read it."""
        cohort = self.cohort_of(slide_id, cohort)
        reading = self.record.cohorts[cohort].options.reading
        path = self.features_of(slide_id, cohort=cohort, folder=folder)
        own = self.slides[(self.slides["slide_id"] == slide_id) & (self.slides["cohort"] == cohort)]
        if "mpp" in own and own["mpp"].notna().iloc[0]:
            reading = {**reading, "mpp": float(own["mpp"].iloc[0])}
        known = own["digest"].iloc[0] if "digest" in own else ""
        if folder is None and known and known != content_at(path, **reading):
            raise FeatureError(
                f"{path}: changed since the study read the features of {slide_id} from it. Give the folder that holds "
                "them now with --features, or run the study on these."
            )
        return replace(read_bag(path, **reading), slide_id=slide_id, covariates=self._known_of(slide_id, cohort))

    def _known_of(self, slide_id: str, cohort: str) -> dict[str, str] | None:
        """The clinical covariates of a slide's patient, from the table of slides."""
        names = [name for name in self.slides if name.startswith(COVARIATE)]
        row = self.slides[(self.slides["cohort"] == cohort) & (self.slides["slide_id"] == slide_id)].iloc[0]
        known = {name.removeprefix(COVARIATE): str(row[name]) for name in names}
        return known or None


def _of_target(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Without the probabilities of the classes of other targets."""
    own = of_target(table, name)
    return own.drop(columns=[c for c in own if c.startswith("probability") and own[c].isna().all()])


def _validation_of(record: ValidationRecord | None, name: str) -> ValidationRecord | None:
    """What training states of one target."""
    if record is None:
        return None
    return replace(record, reference=dict(record.reference.get(TARGETS) or {}).get(name, {}))


def is_run(path: str | Path) -> bool:
    return RunFolder(Path(path)).study.is_file()


def open_run(path: str | Path) -> Run:
    """A run folder, as `run_study`, `jigsawmil compare`, `study` and `demo` write it.

    Example: `open_run("run").summary`
    """
    path = Path(path)
    files = RunFolder(path)
    if not is_run(path):
        what = "no such folder" if not path.exists() else f"no {files.study.name} in it"
        raise StudyError(
            f"{path}: {what}. Expected the folder that `jigsawmil compare` or `study` wrote to (--out), with every "
            "table in it; a run that was interrupted gets its tables when it is run again."
        )
    try:
        record = StudyRecord.read(files.study)
        jobs = tuple(_read_job(folder) for folder in files.finished_jobs())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StudyError(
            f"{path}: {files.study.name} or a {JobFolder.RECORD} is damaged or of another version ({error!r}). Run "
            "the study again: finished jobs are kept."
        ) from error
    _refuse_changes(files, record)
    one = next(iter(record.cohorts))
    try:
        tables = {name: _table(files.table(name), one) for name in (*TABLES, *PATIENT_TABLES)}
        tables["control"] = _table(files.control.table("predictions"), one)
        tables["control_tests"] = _table(files.control.table("control"), one)
    except (ValueError, OSError) as error:
        raise StudyError(
            f"{path}: a table of the run is damaged ({error}). Run the study again: finished jobs are kept."
        ) from error
    run = Run(folder=path, record=record, jobs=_weighed(jobs, tables["weights"]), **tables)
    _refuse_paths(run)
    return run


def _refuse_changes(files: RunFolder, record: StudyRecord) -> None:
    """The tables are those that the run wrote; older runs do not state it."""
    marks = files.table_marks()
    if changed := [name for name, mark in record.tables.items() if marks.get(name) != mark]:
        raise StudyError(
            f"{files.path}: {', '.join(changed)} changed or lost since the run wrote its tables. Run the study again: "
            "finished jobs are kept, and the tables are made of them."
        )


def _refuse_paths(run: Run) -> None:
    """Files are named after cohorts, variants and slides. A name with a separator, as a run from a stranger may have,
    leads elsewhere."""
    names = {*run.cohorts, *run.record.variants, *(job.variant for job in run.jobs)}
    for table, column in ((run.slides, "slide_id"), (run.predictions, "variant"), (run.summary, "variant")):
        names |= set(table[column]) if column in table else set()
    wrong = sorted(name for name in names if name in (".", "..") or re.search(r"[/\\\0]", name))
    if wrong:
        raise StudyError(
            f"{run.folder}: {wrong[0]!r} is the name of a slide, variant or cohort there; expected names "
            "without / and \\, since files are named after them. The folder was changed after the run; do not trust it."
        )


def _read_job(folder: JobFolder) -> RunJob:
    return RunJob(cohort=folder.path.parents[1].name, folder=folder.path, **vars(JobRecord.read(folder.record)))


def _weighed(jobs: Sequence[RunJob], weights: pd.DataFrame) -> tuple[RunJob, ...]:
    """Each member with its weight in its ensemble, if weights were learnt."""
    columns = ["cohort", "variant", "seed", "fold", "member"]
    known = {} if weights.empty else weights.set_index(columns)["weight"].to_dict()
    keys = [(job.cohort, job.variant, job.seed, job.fold, job.member) for job in jobs]
    return tuple(replace(job, weight=known.get(key)) for job, key in zip(jobs, keys, strict=True))


def weights_of(jobs: Sequence[RunJob]) -> Weights | None:
    """Of the members of an ensemble; over several ensembles at once, each of which counts the same."""
    if all(job.weight is None for job in jobs):
        return None
    size = Counter((job.seed, job.fold) for job in jobs)
    own = [1 / size[job.seed, job.fold] if job.weight is None else job.weight for job in jobs]
    return tuple(weight / sum(own) for weight in own)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text or 0))
    except ValueError:
        return False


def _table(path: Path, cohort: str) -> pd.DataFrame:
    """Ids stay text (007 is not 7), the rest are numbers. cohort: not named in a table of an older
    version with one cohort."""
    if not path.is_file() or path.stat().st_size <= 1:
        return pd.DataFrame()
    table = pd.read_csv(path, dtype=str, keep_default_na=False).rename(columns=RENAMED).map(unguarded)
    for column in (name for name in table.columns.difference(TEXT) if not name.startswith(COVARIATE)):
        if column in MAYBE_TEXT and not all(map(_is_number, table[column])):
            continue
        table[column] = table[column].map(lambda text: float(text or "nan"))  # exactly; pandas may round the last digit
        if column in WHOLE:
            table[column] = table[column].astype(int)
    if "positive" in table:
        table["positive"] = table["positive"].where(table["positive"] != "")  # of more than two classes there is none
    return table if "cohort" in table else table.assign(cohort=cohort)
