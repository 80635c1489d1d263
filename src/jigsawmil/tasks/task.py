"""The contract of a task: everything the rest of the program needs to know about what is predicted."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from numpy.typing import ArrayLike

from ..config import require
from ..errors import ConfigError
from .target import SingleTarget
from .terms import (
    Booleans,
    Calibration,
    CalibrationWords,
    Floats,
    Integers,
    LabelCells,
    LabelProblem,
    Sorted,
    Targets,
    Values,
)  # fmt: skip

if TYPE_CHECKING:
    import pandas as pd

    from .heads import Head
    from .measure import Measure


class Task(ABC):
    """One kind of prediction, as an object without state: `register_task(MyTask())` makes its name known everywhere.

    Shapes: y (case,) or (case, several) are target values, p (case, output) what the head predicts; `classes` are the
    names of its outputs. `ClassTask` (classes.py) implements most of this for tasks that predict one class of several,
    where p are probabilities.
    """

    name: str  # in --task, study files, study.json and model.json
    of_classes: bool = False  # whether one class of several is predicted, so that tables hold their probabilities
    calls_classes: bool = False  # the same, of one target or of several
    measure: Measure
    losses: ClassVar[Mapping[str, str]] = {}  # to choose from, the default first -> in words; none: there is one
    headers: ClassVar[Mapping[str, str]] = {}  # figures of `score` that only this task has -> header in tables
    sections: tuple[str, ...] = ()  # which the report has, beside the tables
    column_options: tuple[str, ...] = ("label_column",)  # options that name columns of the label table

    # Labels

    def pick_columns(self, table: LabelCells, named: Mapping[str, Any], taken: set[str | None]) -> tuple[str, ...]:
        """The columns that the label is read from. named: values of `column_options`; taken: columns of other roles."""
        return (table.pick_label(named.get("label_column"), taken),)

    def name_columns(self, columns: Sequence[str]) -> dict[str, str]:
        """The options that name these columns of `pick_columns`."""
        return dict(zip(self.column_options, columns, strict=True))

    def join_cells(self, columns: Sequence[str], cells: Sequence[str]) -> str:
        """The label of a row, as text; "" if it is missing."""
        return cells[0]

    def text_of(self, label: object) -> str:
        """A label that was given in Python, as text."""
        return str(label).strip()

    @abstractmethod
    def targets(self, labels: Sequence[str], positive: str | None = None) -> Targets:
        """What the labels of all slides mean; a LabelError if the task cannot be about them.

        positive: the class that the user calls positive."""

    @abstractmethod
    def values_of(self, labels: Sequence[str], classes: Sequence[str]) -> Values:
        """Target values of the labels of another cohort, under the classes of a trained model; a LabelError names
        labels that it does not know."""

    def reads_as(self) -> str:
        """The task by which the label table of another cohort is read first: that cohort may lack some classes."""
        return self.name

    def label_problems(self, slides: Sequence[tuple[str, str]]) -> Iterable[LabelProblem]:
        """For the audit of a label table. slides: (patient id, label) of each."""
        return ()

    @abstractmethod
    def label_counts(self, labels: Sequence[str]) -> str:
        """What the labels of all slides are, in a line of the audit."""

    @abstractmethod
    def cohort_rows(self, labels: Sequence[str], classes: Sequence[str]) -> list[tuple[str, Booleans]]:
        """Groups of slides that a report counts: title, and whether each slide belongs to it."""

    rows_title = "class"  # what these groups are

    def cohort_words(self, labels: Sequence[str], classes: Sequence[str]) -> str:
        """The same in a phrase."""
        return ", ".join(f"{rows.sum()} {title}" for title, rows in self.cohort_rows(labels, classes))

    def strata(self, values: Values) -> Integers:
        """(slide,): index of the group that is spread evenly over folds."""
        return values

    def stratum_names(self, classes: Sequence[str]) -> Sequence[str]:
        return classes

    def check_enough(self, values: Values, patients: ArrayLike, folds: int) -> str:
        """What keeps slides from being split into so many folds; "" if nothing does."""
        return ""

    def check_fold(self, train: Values, test: Values, classes: Sequence[str]) -> str:
        """What keeps a model from being trained on some target values, or tested on others; "" if nothing does."""
        return ""

    @abstractmethod
    def label(self, value: Any, classes: Sequence[str]) -> str:
        """A target value as tables have it: the inverse of `targets`."""

    def label_words(self, label: str) -> str:
        """A label of a table, for people."""
        return label

    def truth(self, value: Any, classes: Sequence[str]) -> dict[str, float]:
        """The same in columns of their own, if a table of predictions has such."""
        return {}

    # Model

    @abstractmethod
    def check_classes(self, number: int) -> None:
        """A ConfigError if there can be no head for that many classes."""

    def check_loss(self, loss: str) -> None:
        """A ConfigError if the task has no such loss; "" is its default."""
        names = ", ".join(self.losses) if self.losses else f"none, for {self.name} has one loss"
        require("loss", loss, loss in ("", *self.losses), f"{names}. Leave it out for the default")

    def loss_words(self, loss: str) -> str:
        """Which of the task's losses is learnt by, "" for the default; empty if there is no choice."""
        return self.losses.get(loss or next(iter(self.losses), ""), "")

    @abstractmethod
    def head_for(self, width: int, classes: int, loss: str = "") -> Head:
        """The head with one of the task's losses, "" for the default. Imports torch, as nothing else of a task does."""

    @abstractmethod
    def probabilities(self, scores: Floats, classes: int) -> Floats:
        """(case, output) from the scores of the head (case, score), see `Head.scores`."""

    @abstractmethod
    def validation(self, y: Values, p: Floats, losses: Floats) -> tuple[float, float]:
        """Loss, by which an epoch is chosen, and a score to look at. losses: (case,) of `Head.held_out`."""

    def log_loss(self, y: Values, p: Floats) -> float:
        """Mean over cases; of tasks that call classes."""
        raise NotImplementedError(f"{self.name} calls no class")

    def spread_of(self, scores: Floats, classes: int) -> Floats:
        """(member, case): what the members of an ensemble say, so that its standard deviation is their disagreement.
        scores: (member, case, score)"""
        return scores.mean(axis=2)

    # Predictions

    def of(self, classes: Sequence[str]) -> Self:
        """The task of outputs of these names; for tasks whose figures depend on the names."""
        return self

    def of_form(self, form: str) -> Self:
        """The task whose name ends in `(form)`; for tasks whose head depends on more than the number of outputs."""
        raise ConfigError(f"task: found {self.name}({form}), expected {self.name}. Leave out what is in brackets.")

    def split(self, classes: Sequence[str]) -> tuple[SingleTarget, ...]:
        """The targets, each with a task of its own by which it is judged; most tasks have one."""
        return (SingleTarget("", self.of(classes), tuple(classes)),)

    def find_target(self, classes: Sequence[str], name: str | None) -> SingleTarget:
        """The target of that name; None is the name if there is one target only."""
        targets = self.split(classes)
        for target in targets:
            if target.name == (name or ""):
                return target
        known = ", ".join(target.name for target in targets if target.name)
        expected = f"one of {known}. Name it: --target" if known else "none: the model has one target"
        raise ConfigError(f"target: found {name or 'none'}, expected {expected}.")

    @abstractmethod
    def columns(self, classes: Sequence[str]) -> tuple[str, ...]:
        """Columns of a table of predictions, all of them numbers."""

    def columns_in(self, frame: pd.DataFrame, classes: Sequence[str]) -> tuple[str, ...]:
        """The same in a table that may have been written elsewhere."""
        return self.columns(classes)

    @abstractmethod
    def row(self, p: ArrayLike, classes: Sequence[str]) -> dict[str, Any]:
        """The columns of one prediction, p (output,); further columns may follow."""

    def call(self, p: ArrayLike, classes: Sequence[str]) -> dict[str, Any]:
        """What stands before `row` in a table of predictions for new slides: what is called."""
        return {}

    @abstractmethod
    def said(self, p: Floats, classes: Sequence[str]) -> str:
        """A prediction (output,) in a few words."""

    def decision(self, p: ArrayLike) -> Integers:
        """(case,): index of the class that is called."""
        raise NotImplementedError(f"{self.name} predicts no class")

    def called(self, p: Floats) -> int:
        """Index of the output that a prediction (output,) is about: of classes, the one that is called."""
        return self.shown(p)

    def title(self, p: Floats, classes: Sequence[str]) -> str:
        """A prediction above a map."""
        return self.said(p, classes)

    def output_words(self, index: int, classes: Sequence[str]) -> str:
        """An output as a measurement of a slide."""
        return classes[index]

    def brief(self, p: Floats, classes: Sequence[str]) -> str:
        """A prediction in a cell of a list."""
        return f"{p[self.shown(p)]:.3g}"

    def matrix(self, frame: pd.DataFrame, classes: Sequence[str]) -> Floats:
        """(row, output): the inverse of `row` for a table."""
        return frame[list(self.columns(classes))].to_numpy(dtype=float)

    def reported(self, number: int) -> Sequence[int]:
        """Outputs that tables print and figures judge; the others follow from them."""
        return range(number)

    def row_words(self, row: Mapping[str, Any], classes: Sequence[str]) -> str:
        """A row of predictions for new slides, for people."""
        return ", ".join(f"{self.column_words(name, classes)} {row[name]:.4g}" for name in self.columns(classes))

    threshold: float | None = None  # above which the positive class is called; None: the most probable class is

    def at(self, threshold: float | None) -> Self:
        """The same task with decisions at a threshold that was fixed before; without one, the task as it is."""
        if threshold is None:
            return self
        task = copy.copy(self)
        task.threshold = threshold
        task.decision_words = f"a probability above {threshold:.3g}, fixed in training"
        return task

    def best_threshold(self, y: Values, p: Floats) -> float | None:
        """The threshold that training fixes by its out-of-fold predictions; None if the task decides without one."""
        return None

    @abstractmethod
    def column_words(self, column: str, classes: Sequence[str]) -> str:
        """A column of `columns` for a person who reads one prediction."""

    # Figures

    @abstractmethod
    def area(self, y: ArrayLike, p: ArrayLike) -> float:
        """The figure by which variants are compared, see `measure`; nan where it is undefined."""

    @abstractmethod
    def score(self, y: ArrayLike, p: ArrayLike) -> dict[str, float]:
        """Every figure of merit, that of `measure` first; `undefined`, the last, counts those that are nan."""

    @abstractmethod
    def bounds(
        self, y: Values, p: Floats, patients: ArrayLike, *, resamples: int = 2000, seed: int = 0
    ) -> dict[str, float]:
        """Bounds of the intervals of the figures, by the names of their columns."""

    @abstractmethod
    def test(
        self, y: Values, p: Floats, q: Floats, patients: ArrayLike, *, clustered: bool = False
    ) -> dict[str, float]:
        """The figure of p minus that of q on the same cases, `difference`, with its test in further columns.

        clustered: patients have several cases of different labels."""

    def positive(self, classes: Sequence[str]) -> str | None:
        """The class that the figures are of; None: of each against the rest. A column of the summary."""
        return None

    # Report

    @abstractmethod
    def describe(self, classes: Sequence[str]) -> str:
        """The task in a few words."""

    @abstractmethod
    def sort_cases(self, y: Values, p: Floats) -> list[Sorted]:
        """The cases to look at, best first, under one title or several."""

    @abstractmethod
    def case_lines(self, y: Any, p: Floats, classes: Sequence[str]) -> list[str]:
        """Truth and prediction of one case."""

    def right(self, label: str, p: Floats, classes: Sequence[str]) -> bool | None:
        """Whether a case is called rightly; None if nothing is called."""
        return None

    def curves(self, classes: Sequence[str]) -> dict[int, str]:
        """Index of each class that has a ROC curve of its own -> its title."""
        return {}

    def calibration(self, y: Values, p: Floats) -> Calibration:
        raise NotImplementedError(f"{self.name} has the section calibration, but no method calibration")

    calibration_words = CalibrationWords("", "", "")
    decision_words = ""  # when a class is called; empty if nothing is

    # Maps

    @abstractmethod
    def shown(self, p: Floats) -> int:
        """Index of the output that a map of evidence is about. p (output,) of the slide."""

    @abstractmethod
    def evidence(self, evidence: Floats, index: int) -> Floats:
        """(patch,): what speaks for an output if positive, against it if negative. evidence (patch, logit)."""

    def evidence_classes(self, number: int) -> tuple[int, ...]:
        """Outputs whose evidence is not another's with its sign changed, or the same."""
        return (0,)

    def against(self, index: int, classes: Sequence[str]) -> str:
        """What negative evidence means."""
        return f"against {classes[index]}"
