"""A measured value, such as an age, a score or the expression of a gene."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .. import statistics
from ..config import require
from ..errors import LabelError
from .measure import resampled_measure, resampled_test
from .numeric import not_numbers, numbers, quantile_groups
from .task import Task
from .terms import Booleans, Floats, Integers, LabelProblem, Sorted, Targets

if TYPE_CHECKING:
    from .heads import Head

FIGURES = ("pearson", "spearman", "r2", "mae")
GROUPS, A_GROUP = 4, 10  # at most so many groups of values are spread over folds, of so many slides at least


class RegressionTask(Task):
    """One logit, the value in its own unit; the model learns it standardised by the mean and the standard deviation of
    the training fold, which are saved with it."""

    name = "regression"
    measure = resampled_measure("pearson", "Pearson's r", "a measured value", chance=0.0, least=-1.0, intervals=FIGURES)
    losses = {  # noqa: RUF012
        "huber": "Huber's loss of the standardised error, quadratic up to one standard deviation and linear beyond",
        "squared": "squared error of the standardised value",
    }
    headers = {"pearson_patient": "r by\npatient", "spearman": "Spearman", "r2": "R²"}  # noqa: RUF012
    sections = ("values",)
    rows_title = "value"

    # Labels

    def targets(self, labels: Sequence[str], positive: str | None = None) -> Targets:
        if positive is not None:
            raise LabelError(
                f"positive={positive!r} applies to classification only; the task is {self.name}. Leave it out."
            )
        return Targets(("target",), self.values_of(labels, ("target",)))

    def values_of(self, labels: Sequence[str], classes: Sequence[str]) -> Floats:
        if wrong := not_numbers(labels):
            raise LabelError(
                f"{len(wrong)} of {len(labels)} labels are not finite numbers: {', '.join(map(repr, wrong[:5]))}; "
                "expected numbers such as 3.5. Name another column (--label-column), or correct the table."
            )
        return numbers(labels)

    def label_problems(self, slides: Sequence[tuple[str, str]]) -> Iterator[LabelProblem]:
        if wrong := {f"{patient}: {label!r}" for patient, label in slides if not_numbers([label])}:
            text = f"{len(wrong)} label{'s' * (len(wrong) > 1)} without a finite number"
            remedy = "Name another column (--label-column), or write numbers such as 3.5 and leave other cells empty."
            yield LabelProblem("no-number", text, remedy, tuple(sorted(wrong)))
        elif slides and len(set(numbers([label for _, label in slides]))) == 1:
            text = f"All slides have the value {slides[0][1]}"
            yield LabelProblem("constant", text, "A constant cannot be learned: is this the right column?")

    def label_counts(self, labels: Sequence[str]) -> str:
        return "" if not_numbers(labels) else f"Values: {spread_words(numbers(labels))}."

    def cohort_rows(self, labels: Sequence[str], classes: Sequence[str]) -> list[tuple[str, Booleans]]:
        values = numbers(labels)
        groups = self.strata(values)
        return [
            (f"{values[groups == index].min():g} to {values[groups == index].max():g}", groups == index)
            for index in range(groups.max() + 1)
        ]

    def cohort_words(self, labels: Sequence[str], classes: Sequence[str]) -> str:
        return f"values {spread_words(numbers(labels))}"

    def strata(self, values: Floats) -> Integers:
        """Quarters of the values, or fewer groups of a small cohort."""
        return quantile_groups(values, min(GROUPS, max(2, len(values) // A_GROUP)))

    def stratum_names(self, classes: Sequence[str]) -> Sequence[str]:
        return tuple(f"values of group {index + 1}" for index in range(GROUPS))

    def check_fold(self, train: Floats, test: Floats, classes: Sequence[str]) -> str:
        if len(train) and train.min() == train.max():
            return f"all training slides have the value {train[0]:g}; expected different ones. Use other folds."
        return ""

    def label(self, value: Any, classes: Sequence[str]) -> str:
        return repr(float(value))

    def label_words(self, label: str) -> str:
        return label if not_numbers([label]) else f"{float(label):.4g}"

    def truth(self, value: Any, classes: Sequence[str]) -> dict[str, float]:
        return {"target": float(value)}

    # Model

    def check_classes(self, number: int) -> None:
        require("classes", number, number == 1, f"1 for {self.name}, the name of the value")

    def head_for(self, width: int, classes: int, loss: str = "") -> Head:
        from .value_heads import RegressionHead

        self.check_loss(loss)
        return RegressionHead(width, loss or next(iter(self.losses)))

    def probabilities(self, scores: Floats, classes: int) -> Floats:
        return scores

    def validation(self, y: Floats, p: Floats, losses: Floats) -> tuple[float, float]:
        return float(np.mean(losses)), statistics.pearson(y, p[:, 0])

    # Predictions

    def columns(self, classes: Sequence[str]) -> tuple[str, ...]:
        return ("prediction",)

    def row(self, p: ArrayLike, classes: Sequence[str]) -> dict[str, Any]:
        return {"prediction": float(np.asarray(p)[0])}

    def said(self, p: Floats, classes: Sequence[str]) -> str:
        return f"predicted {p[0]:.4g}"

    def column_words(self, column: str, classes: Sequence[str]) -> str:
        return "predicted value"

    # Figures

    def area(self, y: ArrayLike, p: ArrayLike) -> float:
        return statistics.pearson(y, np.asarray(p)[:, 0])

    def score(self, y: ArrayLike, p: ArrayLike) -> dict[str, float]:
        said = np.asarray(p)[:, 0]
        figures = {name: float(getattr(statistics, name)(y, said)) for name in FIGURES}
        return figures | {"undefined": float(sum(np.isnan(value) for value in figures.values()))}

    def bounds(
        self, y: Floats, p: Floats, patients: ArrayLike, *, resamples: int = 2000, seed: int = 0
    ) -> dict[str, float]:
        found = dict[str, float]()
        for name in FIGURES:
            own = statistics.regression_interval(name, y, p[:, 0], patients, seed, resamples=resamples)
            found |= {f"{name}_low": own.low, f"{name}_high": own.high}
        return found

    def test(
        self, y: Floats, p: Floats, q: Floats, patients: ArrayLike, *, clustered: bool = False
    ) -> dict[str, float]:
        return resampled_test(statistics.regression_difference("pearson", y, p[:, 0], q[:, 0], patients, 0))

    # Report

    def describe(self, classes: Sequence[str]) -> str:
        return "a measured value"

    def sort_cases(self, y: Floats, p: Floats) -> list[Sorted]:
        gap = np.abs(p[:, 0] - y)
        order = np.argsort(gap, kind="stable")
        return [Sorted("Nearest to the truth", order), Sorted("Farthest from the truth", order[::-1])]

    def case_lines(self, y: Any, p: Floats, classes: Sequence[str]) -> list[str]:
        return [f"is {y:.4g}", self.said(p, classes)]

    # Maps

    def shown(self, p: Floats) -> int:
        return 0

    def evidence(self, evidence: Floats, index: int) -> Floats:
        """What a patch adds to the value, in its unit."""
        return evidence[:, 0]

    def against(self, index: int, classes: Sequence[str]) -> str:
        return "for a lower value"


def spread_words(values: Floats) -> str:
    return f"{values.min():g} to {values.max():g}, median {np.median(values):g}"


TASK = RegressionTask()
