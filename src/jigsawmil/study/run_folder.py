"""A run folder read back: what was run, what came out, and which model may speak about which slide."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..bags.bag import Bag
from ..bags.formats import find_bags, read_bag
from ..bags.names import slide_name
from ..config import choose
from ..errors import FeatureError, StudyError

TEXT = (
    *("cohort", "slide_id", "patient_id", "label", "site", "features", "name", "reason", "positive", "level"),
    *("variant", "variant_a", "variant_b"),
)
WHOLE = ("seed", "fold", "patches", "folds", "seeds", "slides", "patients", "undefined_folds")
RENAMED = {"method": "variant", "method_a": "variant_a", "method_b": "variant_b"}  # columns of older versions
READING = ("mpp", "patch_size", "unit")  # options of a cohort that are options of `read_bag`


@dataclass(frozen=True, kw_only=True)
class RunJob:
    """A job that is done. settings: as in `Settings`, and seed, shuffled and the marks of cohort and folds.
    seconds: fit, predict, epochs."""

    cohort: str
    variant: str
    seed: int
    fold: int
    folder: Path  # holds the model, predictions.csv, trace.csv
    settings: Mapping[str, Any] = field(repr=False)
    best_epoch: int | None
    seconds: Mapping[str, float] = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """about: study.json. Tables have a column `cohort`; predictions are out of fold, `slide_id` being the patient where
    patients were pooled. control: predictions with places shuffled. jobs: without those of the control."""

    folder: Path
    about: Mapping[str, Any] = field(repr=False)
    classes: Mapping[str, tuple[str, ...]]
    jobs: tuple[RunJob, ...] = field(repr=False)
    predictions: pd.DataFrame = field(repr=False)
    summary: pd.DataFrame = field(repr=False)
    comparisons: pd.DataFrame = field(repr=False)
    control: pd.DataFrame = field(repr=False)
    left_out: pd.DataFrame = field(repr=False)
    slides: pd.DataFrame = field(repr=False)

    @property
    def cohorts(self) -> tuple[str, ...]:
        return tuple(self.classes)

    @cached_property
    def variants(self) -> tuple[str, ...]:
        """In the order of the study, as far as they were judged; then the others."""
        judged = [] if self.summary.empty else list(self.summary["variant"])
        return tuple(dict.fromkeys([*judged, *(job.variant for job in self.jobs)]))

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({job.seed for job in self.jobs}))

    def task(self, cohort: str) -> str:
        return str(self.about["cohorts"][cohort]["task"])

    def cohort_of(self, slide_id: str, cohort: str | None = None) -> str:
        """The cohort that a slide belongs to; it must be named where the slide is in several."""
        if cohort is not None:
            choose("cohort", cohort, self.cohorts)
        rows = self.slides[self.slides["slide_id"] == slide_id]
        found = [name for name in rows["cohort"] if cohort in (None, name)]
        if not found:
            known = list(self.slides["slide_id"])
            raise StudyError(
                f"{slide_id}: no slide of {self.folder}, which has {len(known)}: {', '.join(known[:3])}, ... "
                f"See {self.folder / 'slides.csv'}."
            )
        if len(found) > 1:
            raise StudyError(f"{slide_id} is in the cohorts {', '.join(found)}. Name one of them.")
        return str(found[0])

    def job_of(
        self, slide_id: str, *, variant: str | None = None, cohort: str | None = None, seed: int | None = None
    ) -> RunJob:
        """The job whose model never saw this slide: it was in the job's test fold.

        variant: None = the last of the study. seed: None = the first.
        """
        cohort = self.cohort_of(slide_id, cohort)
        variant = self.variants[-1] if variant is None else variant
        choose("variant", variant, self.variants)
        seed = self.seeds[0] if seed is None else seed
        level = {job.settings.get("level", "slide") for job in self.jobs if job.variant == variant}
        own = self.slides[(self.slides["slide_id"] == slide_id) & (self.slides["cohort"] == cohort)]
        case = own["patient_id"].iloc[0] if level == {"patient"} else slide_id
        table = self.predictions
        rows = table[(table["slide_id"] == case) & (table["cohort"] == cohort) & (table["variant"] == variant)]
        folds = set(rows.loc[rows["seed"] == seed, "fold"])
        for job in self.jobs:
            if (job.cohort, job.variant, job.seed) == (cohort, variant, seed) and job.fold in folds:
                return job
        raise StudyError(
            f"{slide_id}: no finished job of {variant}, seed {seed}, had it in its test fold. Run the study to its end."
        )

    def features_of(self, slide_id: str, *, cohort: str | None = None, folder: str | Path | None = None) -> Path:
        """The slide's feature file, where it was when the study ran, or in another folder of features."""
        cohort = self.cohort_of(slide_id, cohort)
        if folder is not None:
            found = {slide_name(stem): path for stem, path in find_bags(folder).items()}
            if slide_id not in found:
                raise FeatureError(f"{folder}: no features of {slide_id} among {len(found)} files.")
            return found[slide_id]
        own = self.slides[(self.slides["slide_id"] == slide_id) & (self.slides["cohort"] == cohort)]
        path = Path(own["features"].iloc[0])
        if not path.exists():
            raise FeatureError(
                f"{path}: no longer there; the study read the features of {slide_id} from it. Say where they are now "
                "with --features."
            )
        return path

    def bag_of(self, slide_id: str, *, cohort: str | None = None, folder: str | Path | None = None) -> Bag:
        """The slide's bag, read as the study read it."""
        cohort = self.cohort_of(slide_id, cohort)
        options = dict(self.about["cohorts"][cohort]["options"])
        reading = {key: value for key, value in options.items() if key in READING}
        path = self.features_of(slide_id, cohort=cohort, folder=folder)
        return replace(read_bag(path, **reading), slide_id=slide_id)


def is_run(path: str | Path) -> bool:
    return (Path(path) / "study.json").is_file()


def open_run(path: str | Path) -> Run:
    """A run folder, as `jigsawmil compare`, `study` and `demo` write it."""
    path = Path(path)
    if not is_run(path):
        what = "no such folder" if not path.exists() else "no study.json in it"
        raise StudyError(
            f"{path}: {what}. Expected the folder that `jigsawmil compare` or `study` wrote to (--out), with every "
            "table in it; a run that was cut short gets its tables when it is run again."
        )
    try:
        about = json.loads((path / "study.json").read_text())
        classes = {name: tuple(names) for name, names in about["classes"].items()}
        about["cohorts"]  # a run of an older version has none
        jobs = tuple(_jobs(path / "jobs"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StudyError(
            f"{path}: study.json or a job.json is damaged or of another version ({error!r}). Run the study again: "
            "finished jobs are kept."
        ) from error
    try:
        tables = _tables(path, classes)
    except (ValueError, OSError) as error:
        raise StudyError(
            f"{path}: a table of the run is damaged ({error}). Run the study again: finished jobs are kept."
        ) from error
    return Run(folder=path, about=about, classes=classes, jobs=jobs, **tables)


def _tables(path: Path, classes: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    return {
        name: _table(path / f"{file}.csv", classes)
        for name, file in {
            **{name: name for name in ("predictions", "summary", "comparisons", "left_out", "slides")},
            "control": "control/predictions",
        }.items()
    }


def _jobs(folder: Path) -> list[RunJob]:
    found = []
    for file in sorted(folder.glob("*/*/seed*-fold*/job.json")):
        values = json.loads(file.read_text())
        found.append(
            RunJob(
                cohort=file.parents[2].name,
                variant=values["variant"],
                seed=int(values["spec"]["seed"]),
                fold=int(values["fold"]),
                folder=file.parent,
                settings=values["spec"],
                best_epoch=values.get("best_epoch"),
                seconds=values.get("seconds", {}),
            )
        )
    return found


def _table(path: Path, classes: Mapping[str, Any]) -> pd.DataFrame:
    """Ids stay text (007 is not 7), the rest are numbers. Older versions left the name of a single cohort out."""
    if not path.is_file() or path.stat().st_size <= 1:
        return pd.DataFrame()
    table = pd.read_csv(path, dtype=str, keep_default_na=False).rename(columns=RENAMED)
    for column in table.columns.difference(TEXT):
        table[column] = table[column].map(lambda text: float(text or "nan"))  # exactly; pandas may round the last digit
        if column in WHOLE:
            table[column] = table[column].astype(int)
    if "cohort" not in table:
        table["cohort"] = next(iter(classes))
    return table
