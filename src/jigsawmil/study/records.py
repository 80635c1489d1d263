"""What a run says of itself: study.json of the run, job.json of each job."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..cohort.options import CohortOptions
from ..cohort.positive import positive_lines
from ..files import write_json
from .published import Published


@dataclass(frozen=True, kw_only=True)
class CohortRecord:
    """A cohort as the study read it."""

    labels: str
    features: str
    options: CohortOptions = field(default_factory=CohortOptions)
    classes: tuple[str, ...]
    task: str
    dim: int | None = None
    encoder: str | None = None
    notes: tuple[str, ...] = ()
    guessed: bool = False  # nobody named the positive class
    reference: Mapping[str, str] = field(default_factory=dict)  # class -> image of its known morphology


@dataclass(frozen=True, kw_only=True)
class ValidationRecord:
    """What was validated on the cohort of a run, which no model of it was trained on.

    source: folder of the model or the run. models: how many answer together; words: what they are. threshold: fixed in
    training. reference: the figures that training states, by the names of summary.csv; empty if there are none;
    reference_words: what they are. overlap: with the training set, in words; empty if there is none.
    """

    source: str
    models: int
    words: str
    threshold: float | None = None
    reference: Mapping[str, Any] = field(default_factory=dict)
    reference_words: str = ""
    overlap: str = ""


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """study.json. settings: of each variant, by their flat names; the defaults of one that chooses. choices: what those
    choose from, as `Choice` has it. jobs: how many were asked for, those of the control included and those that choose
    not; None if not recorded. failed: names of jobs and why. phantom: the cohorts are stand-ins. file: the study
    file, if there was one. tables: digests, see `RunFolder.table_marks`. validation: of a run that validates a model on
    a cohort of its own."""

    cohorts: Mapping[str, CohortRecord]
    variants: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    jobs: int | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    by_site: bool = False
    phantom: bool = False
    published: Published | None = None
    file: str | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    validation: ValidationRecord | None = None

    @classmethod
    def read(cls, path: Path) -> "StudyRecord":
        """Raises ValueError, KeyError, TypeError or AttributeError if the file is not one."""
        values = json.loads(path.read_text())
        published, validation = values.get("published"), values.get("validation")
        return cls(
            cohorts={name: _cohort(values["cohorts"][name], names) for name, names in values["classes"].items()},
            variants=tuple(map(_text, values.get("variants") or ())),
            settings=values.get("settings") or {},
            choices=values.get("choices") or {},
            jobs=values.get("jobs"),
            failed={name: str(why) for name, why in (values.get("failed") or {}).items()},
            by_site=bool(values.get("by_site")),
            phantom=bool(values.get("phantom")),
            published=None if published is None else Published(**published),
            file=values.get("file"),
            origin=values.get("origin") or {},
            tables=dict(values.get("tables") or {}),
            validation=None if validation is None else ValidationRecord(**validation),
        )

    @property
    def positive_lines(self) -> tuple[str, ...]:
        """What a result begins with."""
        return positive_lines(self.cohorts, file=self.file, trained=self.validation is not None)

    def write(self, path: Path) -> None:
        cohorts = {
            name: {**asdict(cohort), "options": sorted(cohort.options.given().items())}
            for name, cohort in self.cohorts.items()
        }
        classes = {name: values.pop("classes") for name, values in cohorts.items()}
        write_json(path, {"format": 1, **asdict(self), "classes": classes, "cohorts": cohorts})


def _cohort(values: Mapping[str, Any], classes: list[str]) -> CohortRecord:
    return CohortRecord(
        labels=values["labels"],
        features=values["features"],
        options=CohortOptions(**dict(values["options"])),
        classes=tuple(classes),
        task=values["task"],
        dim=values.get("dim"),
        encoder=values.get("encoder"),
        notes=tuple(map(str, values.get("notes") or ())),
        guessed=bool(values.get("guessed")),
        reference=dict(values.get("reference") or {}),
    )


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """job.json. spec: what the results depend on, see `Job.spec`. seconds: fit, predict, processor, and the number of
    epochs. peak_mb: the most memory that the job's process had held at its end. choice: of a variant that chooses, see
    `Decision.record`. scored: of an inner job, its loss and score."""

    name: str
    spec: Mapping[str, Any] = field(repr=False)
    best_epoch: int | None
    seconds: Mapping[str, float] = field(repr=False)
    variant: str
    fold: int
    member: int | None = None  # of an ensemble
    peak_mb: float | None = None
    choice: Mapping[str, Any] | None = field(default=None, repr=False)
    scored: Mapping[str, float] | None = None
    origin: Mapping[str, Any] = field(repr=False)

    @property
    def seed(self) -> int:
        return int(self.spec["seed"])

    @classmethod
    def read(cls, path: Path) -> "JobRecord":
        """Raises ValueError, KeyError, TypeError or AttributeError if the file is not one."""
        values = json.loads(path.read_text())
        return cls(
            name=values.get("name", ""),
            spec=dict(values["spec"]),
            best_epoch=values.get("best_epoch"),
            seconds=values.get("seconds") or {},
            variant=_text(values["variant"]),
            fold=int(values["fold"]),
            member=values.get("member"),
            peak_mb=values.get("peak_mb"),
            choice=values.get("choice"),
            scored=values.get("scored"),
            origin=values.get("origin") or {},
        )

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"found {value!r} as the name of a variant, expected text")
    return value
