"""A run folder: what its files are called.

Nothing else spells the name of a file of a run: `RunFolder` and `JobFolder` know them all.

    study.json  predictions.csv  summary.csv  comparisons.csv  choices.csv  weights.csv  slides.csv  left_out.csv
    folds*.json
    jobs/COHORT/VARIANT/seedN-foldN[-memberN]/    job.json, predictions.csv, trace.csv, the model,
        attention.safetensors if it was asked for, held_out.csv of a member of an ensemble
    choose/COHORT/VARIANT/seedN-foldN/CANDIDATE/repeatN-innerN/    inner jobs: job.json, predictions.csv, trace.csv
    control/    jobs/ and tables with the places of patches shuffled, and control.csv
    patient_predictions.csv  patient_summary.csv    of a validation, which has one fold that no job was trained on
    plots/  faithfulness/COHORT/VARIANT.json  table.md  report.html  standins/
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..bags.digest import whole_mark
from ..errors import StudyError
from ..files import alone_in
from ..train.checkpoint import CARD, WEIGHTS
from ..train.decision import Inner

TABLES = ("predictions", "summary", "comparisons", "choices", "weights", "slides", "left_out")
PATIENT_TABLES = ("patient_predictions", "patient_summary")  # of a validation, by the mean logit of a patient's slides


@dataclass(frozen=True)
class JobFolder:
    """The files of one job. The folder appears whole or not at all; `record` is written last."""

    path: Path
    RECORD = "job.json"

    @property
    def record(self) -> Path:
        return self.path / self.RECORD

    @property
    def predictions(self) -> Path:
        return self.path / "predictions.csv"

    @property
    def held_out(self) -> Path:
        """What a member of an ensemble says of the patients it stopped by, from which weights are learnt."""
        return self.path / "held_out.csv"

    @property
    def trace(self) -> Path:
        return self.path / "trace.csv"

    @property
    def attention(self) -> Path:
        return self.path / "attention.safetensors"

    @property
    def done(self) -> bool:
        return self.record.is_file()

    def missing(self, attention: bool, model: bool = True) -> list[str]:
        """Names of files that a finished job has and this one has not. attention, model: whether the job keeps it."""
        files = [self.predictions, self.trace, *[self.path / WEIGHTS, self.path / CARD] * model, self.record]
        return [file.name for file in [*files, *[self.attention] * attention] if not file.is_file()]

    def state(self, key: str) -> Path:
        """Where an unfinished training is kept, beside the folder. key: of the job's settings; `*` for all."""
        return self.path.with_name(f".{self.path.name}.{key}.state")


@dataclass(frozen=True)
class RunFolder:
    """The names and places of everything in a run folder."""

    path: Path
    STANDINS = "standins"
    CHOOSE = "choose"

    @property
    def study(self) -> Path:
        return self.path / "study.json"

    def table(self, name: str) -> Path:
        """name: one of TABLES or PATIENT_TABLES, or `control` in the folder of the control."""
        return self.path / f"{name}.csv"

    def table_marks(self) -> dict[str, str]:
        """A digest of every table, those of the control included, by its path in the folder."""
        names = [f"{name}.csv" for name in (*TABLES, *PATIENT_TABLES)]
        names += [f"{self.control.path.name}/{name}.csv" for name in (*TABLES, "control")]
        return {name: whole_mark(self.path / name) for name in names if (self.path / name).is_file()}

    @property
    def control(self) -> "RunFolder":
        """The run with places shuffled, which has jobs and tables of the same names."""
        return RunFolder(self.path / "control")

    @property
    def plots(self) -> Path:
        return self.path / "plots"

    @property
    def paper_table(self) -> Path:
        return self.path / "table.md"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def standins(self) -> Path:
        """Phantoms that take the place of cohorts."""
        return self.path / self.STANDINS

    @property
    def token(self) -> Path:
        """Written by the driver, so that workers can tell whether they see the same storage."""
        return self.path / ".shared-with-workers"

    @property
    def jobs(self) -> Path:
        return self.path / "jobs"

    def faithfulness(self, cohort: str = "", variant: str = "") -> Path:
        """Without a suffix: `.json` holds the figures, `.csv` the slides."""
        return self.path / "faithfulness" / cohort / variant

    def job(self, cohort: str, variant: str, seed: int, fold: int, member: int | None = None) -> Path:
        """member: of an ensemble."""
        name = f"seed{seed}-fold{fold}" + ("" if member is None else f"-member{member}")
        return self.jobs / cohort / variant / name

    def inner_job(self, cohort: str, variant: str, seed: int, fold: int, inner: Inner) -> Path:
        """A training inside the training patients of a fold, by which settings are chosen."""
        of = self.path / self.CHOOSE / cohort / variant / f"seed{seed}-fold{fold}"
        return of / inner.candidate / f"repeat{inner.repeat}-inner{inner.number}"

    def finished_inner_jobs(self) -> list[JobFolder]:
        found = sorted(self.path.glob(f"{self.CHOOSE}/*/*/seed*-fold*/*/repeat*-inner*/{JobFolder.RECORD}"))
        return [JobFolder(file.parent) for file in found]

    def finished_jobs(self) -> list[JobFolder]:
        """In the order of cohorts, variants, seeds and folds by name."""
        found = sorted(self.jobs.glob(f"*/*/seed*-fold*/{JobFolder.RECORD}"))
        return [JobFolder(file.parent) for file in found]

    def traces(self) -> list[Path]:
        """The trace of every job; its folder is named after the job, that one's after the variant, then the cohort."""
        return sorted(self.jobs.glob("*/*/seed*/trace.csv"))

    def folds(self, cohort: str, seed: int, single: bool) -> Path:
        """single: the run has one cohort and one seed."""
        return self.path / ("folds.json" if single else f"folds-{cohort}-seed{seed}.json")

    def fold_files(self, cohort: str) -> list[Path]:
        files = [self.folds(cohort, 0, single=True), *sorted(self.path.glob(f"folds-{cohort}-seed*.json"))]
        return [file for file in files if file.is_file()]

    @classmethod
    def is_folds(cls, inside: str) -> bool:
        """Whether a path relative to the run is a file of folds."""
        return "/" not in inside and inside.startswith("folds")

    @classmethod
    def is_shared(cls, inside: Path) -> bool:
        """Whether a path relative to the run is neither a job's, nor of a phantom, nor hidden (locks, tokens)."""
        parts = inside.parts
        own = {"jobs", cls.CHOOSE}.intersection(parts)
        return not own and parts[0] != cls.STANDINS and not any(part.startswith(".") for part in parts)

    def make(self) -> None:
        try:
            self.jobs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StudyError(f"{self.path}: cannot be written ({error.strerror}). Choose another --out.") from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of the folder, or say that another process holds it."""
        with alone_in(self.path, "another run is writing there"):
            yield
