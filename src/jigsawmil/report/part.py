"""One cohort of a run, as the sections of its report see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from ..drawing import Styles
from ..study.predictions import Pooled, pool
from ..study.run import Run
from ..tasks import Task
from .headline import Answer, answer
from .html import Html, tag
from .tables import designs
from .validation import validation_answer

COUNTS = ("folds", "seeds", "slides", "patients", "undefined_folds")


def baseline_of(variants: Sequence[str], methods: Mapping[str, str]) -> str:
    """The variant to beat: the first that is ABMIL, else the first."""
    return next((name for name in variants if methods.get(name) == "abmil"), variants[0])


@dataclass(frozen=True, eq=False)
class CohortPart:
    """One cohort of a run; only methods all of whose folds are there are judged."""

    run: Run
    name: str
    styles: Styles
    horizons: tuple[float, ...] = ()  # at which survival is judged; none: quartiles of the event times

    @property
    def title(self) -> str:
        """The cohort, and which of several targets."""
        return f"{self.name}, {self.run.target}" if self.run.target else self.name

    @property
    def classes(self) -> tuple[str, ...]:
        return self.run.classes[self.name]

    @property
    def task(self) -> Task:
        """Of a validation, with the threshold that training fixed."""
        return self.run.deciding(self.name)

    @property
    def predicted(self) -> str:
        """What the predictions are."""
        if self.run.record.validation is not None:
            return "External predictions"
        if self.repeated:
            return (
                "Each slide counts once, with its mean probability over the splits that tested it. This averages "
                "several models, so it does not show the performance of one; the tables do"
            )
        if designs(self.summary) == {"hold-out"}:
            return "Predictions of the test set"
        return "Pooled out-of-fold predictions"

    @cached_property
    def summary(self) -> pd.DataFrame:
        found = self.rows(self.run.summary)
        return found.astype({name: int for name in COUNTS if name in found})

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        return self.rows(self.run.comparisons)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        table = self.rows(self.run.predictions).dropna(axis="columns", how="all")  # other cohorts have other classes
        return table[table["variant"].isin(set(self.summary["variant"]))]

    @cached_property
    def pooled(self) -> dict[str, Pooled]:
        found = pool(self.predictions, self.classes, self.task)
        return {method: found[method] for method in self.summary["variant"]}

    @property
    def repeated(self) -> bool:
        """Whether the folds are a repeated hold-out."""
        return "repeated hold-out" in designs(self.summary)

    @cached_property
    def by_patient(self) -> dict[str, Pooled]:
        """Of a validation: the same per patient."""
        table = self.run.patient_predictions
        several = len(table) and len(table) < len(self.predictions)
        found = pool(table, self.classes, self.task) if several else {}
        return {f"{variant}, by patient": one for variant, one in found.items()}

    @property
    def methods(self) -> dict[str, str]:
        """Variants and their methods."""
        return {variant: str(settings["method"]) for variant, settings in self.run.settings.items()}

    @property
    def baseline(self) -> str:
        """The variant to beat: the first that is ABMIL, else the first of the study."""
        return baseline_of([str(name) for name in self.summary["variant"]], self.methods)

    @cached_property
    def answer(self) -> Answer:
        if self.run.record.validation is not None:
            return validation_answer(self.run)
        return answer(self.summary, self.comparisons, self.baseline)

    @cached_property
    def marks(self) -> dict[str, Html]:
        """A spot of the method's colour, to be put before its name."""
        return {m: tag("span", class_="swatch", style=f"background:{c}") for m, (c, _) in self.styles.items()}

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["cohort"] == self.name] if len(frame) else frame
