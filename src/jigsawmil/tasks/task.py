"""The contract of a task: everything the rest of the program needs to know about what is predicted."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import LabelError

if TYPE_CHECKING:
    import pandas as pd

    from ..statistics.intervals import Interval
    from ..statistics.paired import DelongTest
    from .heads import Head

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

FIGURES = {  # headers in tables, which show them in this order while there is room
    "auc_patient": "AUC by\npatient",
    "quadratic_kappa": "quadratic\nkappa",
    "balanced_accuracy": "balanced\naccuracy",
    "auprc": "AUPRC",
    "f1": "F1",
    "mae": "error in\ngrades",
    "brier": "Brier",
    "ece": "ECE",
    "calibration_slope": "calibr.\nslope",
    "calibration_intercept": "calibr.\nintercept",
}


class Targets(NamedTuple):
    """Labels as a task sees them."""

    classes: tuple[str, ...]  # names of the outputs, in the order of the columns of `Head.probabilities`
    values: Integers  # (slide,): what `Head.loss` compares the logits with


class LabelProblem(NamedTuple):
    """What is wrong with a column of labels. kind: a row of the audit's table of kinds."""

    kind: str
    text: str
    remedy: str = ""
    names: tuple[str, ...] = ()


class Calibration(NamedTuple):
    """Did it happen, and how probable was it said to be? (case,) each."""

    hit: Booleans
    probability: Floats


class CalibrationWords(NamedTuple):
    subject: str  # "the positive class": whose probability is judged
    x: str  # labels of the axes
    y: str


class Task(ABC):
    """One kind of prediction, as an object without state: `register_task(MyTask())` makes its name known everywhere.

    Shapes: y (case,) are target values, p (case, class) the probabilities of the head; `classes` are their names.

    `ClassTask` (classes.py) implements most of this for tasks that predict one class of several. A task of another kind
    derives from `Task` itself. A `SurvivalTask` would override

    - `targets`: read time and event from the label (`12.5+` for a censored case, or a second column), with values
      (slide, 2) and one output, `classes = ("risk",)`; `label_problems`: negative times, no event at all;
      `strata`: the event indicator, so that every fold has events;
    - `head`: one logit, the log-risk; Cox or discrete-time loss; `probabilities` returns the risk;
    - `columns`, `row`, `matrix`: a column `risk` instead of probabilities; `decision`: high or low risk;
    - `validation`, `area`, `score`, `interval`, `bootstrap`, `difference`: the C-index, with its own test;
    - `sections`: no ROC, calibration or confusion; `curves` is then never asked for;
    - `shown` and `evidence` need no change from those of a binary task: there is one logit.

    Regression does the same with a measured value. Several targets are one task whose `classes` name all outputs.
    """

    name: str  # in --task, study files, study.json and model.json
    headers: ClassVar[Mapping[str, str]] = {}  # figures of `score` that only this task has -> header in tables
    sections: tuple[str, ...] = ("curves", "calibration", "confusion")  # which the report has, beside the tables

    # Labels

    @abstractmethod
    def targets(self, labels: Sequence[str], positive: str | None = None) -> Targets:
        """What the labels of all slides mean; a LabelError if the task cannot be about them.

        positive: the class that the user calls positive."""

    def values_of(self, labels: Sequence[str], classes: Sequence[str]) -> Integers:
        """Target values of the labels of another cohort, under the classes of a trained model; a LabelError names
        labels that it does not know."""
        raise LabelError(f"{self.name}: a model of this task cannot be held against the labels of another cohort yet.")

    def reads_as(self) -> str:
        """The task by which the label table of another cohort is read first: that cohort may lack some classes."""
        return self.name

    def label_problems(self, slides: Sequence[tuple[str, str]]) -> Iterable[LabelProblem]:
        """For the audit of a label table. slides: (patient id, label) of each."""
        return ()

    def strata(self, values: Integers) -> Integers:
        """(slide,): index of the group that is spread evenly over folds."""
        return values

    def stratum_names(self, classes: Sequence[str]) -> Sequence[str]:
        return classes

    def label(self, value: Any, classes: Sequence[str]) -> str:
        """A target value as tables have it: the inverse of `targets`."""
        return classes[value]

    # Model

    @abstractmethod
    def check_classes(self, number: int) -> None:
        """A ConfigError if there can be no head for that many classes."""

    @abstractmethod
    def head(self, width: int, classes: int) -> Head:
        """Imports torch, as nothing else of a task does."""

    def probabilities(self, logits: Floats, classes: int) -> Floats:
        """(case, class) from the logits of the head (case, logit), by the head itself."""
        import torch

        with torch.random.fork_rng(devices=[]):  # a head draws weights, which take no part here
            head = self.head(1, classes)
        return head.probabilities(torch.from_numpy(logits)).numpy()

    @abstractmethod
    def validation(self, y: Integers, p: Floats) -> tuple[float, float]:
        """Loss, by which an epoch is chosen, and a score to look at."""

    # Predictions

    @abstractmethod
    def columns(self, classes: Sequence[str]) -> tuple[str, ...]:
        """Columns of a table of predictions, all of them numbers."""

    def columns_in(self, frame: pd.DataFrame, classes: Sequence[str]) -> tuple[str, ...]:
        """The same in a table that may have been written elsewhere."""
        return self.columns(classes)

    @abstractmethod
    def row(self, p: ArrayLike, classes: Sequence[str]) -> dict[str, float]:
        """The columns of one prediction, p (class,)."""

    @abstractmethod
    def matrix(self, frame: pd.DataFrame, classes: Sequence[str]) -> Floats:
        """(row, class): the inverse of `row` for a table."""

    def reported(self, number: int) -> Sequence[int]:
        """Classes whose probability tables print and figures judge; that of the others follows from them."""
        return range(number)

    threshold: float | None = None  # above which the positive class is called; None: the most probable class is

    def at(self, threshold: float | None) -> Self:
        """The same task with decisions at a threshold that was fixed before; without one, the task as it is."""
        if threshold is None:
            return self
        task = copy.copy(self)
        task.threshold = threshold
        task.decision_words = f"a probability above {threshold:.3g}, which was fixed in training"
        return task

    def best_threshold(self, y: Integers, p: Floats) -> float | None:
        """The threshold that training fixes by its out-of-fold predictions; None if the task decides without one."""
        return None

    def decision(self, p: ArrayLike) -> Integers:
        """(case,): index of the class that is called."""
        return np.asarray(p).argmax(axis=-1)

    @abstractmethod
    def column_words(self, column: str, classes: Sequence[str]) -> str:
        """A column of `columns` for a person who reads one prediction."""

    # Figures

    @abstractmethod
    def area(self, y: ArrayLike, p: ArrayLike) -> float:
        """The figure by which variants are compared; nan where it is undefined."""

    @abstractmethod
    def score(self, y: ArrayLike, p: ArrayLike) -> dict[str, float]:
        """Every figure of merit, `auc` first; `undefined`, the last, counts those that are nan."""

    @abstractmethod
    def interval(self, y: Integers, p: Floats, patients: ArrayLike) -> Interval:
        """The figure with an analytic interval; nan if there is none."""

    @abstractmethod
    def bootstrap(
        self, y: Integers, p: Floats, patients: ArrayLike, rng: np.random.Generator, *, resamples: int
    ) -> Interval:
        """The figure with an interval over resampled patients."""

    @abstractmethod
    def difference(self, y: Integers, p: Floats, q: Floats, clusters: ArrayLike | None = None) -> DelongTest:
        """The figure of p minus that of q on the same cases, with its test; nan where there is none."""

    def positive(self, classes: Sequence[str]) -> str | None:
        """The class that the figures are of; None: of each against the rest. A column of the summary."""
        return None

    # Report

    @abstractmethod
    def describe(self, classes: Sequence[str]) -> str:
        """The task in a few words."""

    def curves(self, classes: Sequence[str]) -> dict[int, str]:
        """Index of each class that has a ROC curve of its own -> its title."""
        return {}

    def calibration(self, y: Integers, p: Floats) -> Calibration:
        raise NotImplementedError(f"{self.name} has the section calibration, but no method calibration")

    calibration_words = CalibrationWords("", "", "")
    decision_words = ""  # when a class is called

    # Maps

    @abstractmethod
    def shown(self, p: Floats) -> int:
        """Index of the class that a map of evidence is about. p (class,) of the slide."""

    @abstractmethod
    def evidence(self, evidence: Floats, index: int) -> Floats:
        """(patch,): what speaks for a class if positive, against it if negative. evidence (patch, logit)."""

    @abstractmethod
    def evidence_classes(self, number: int) -> tuple[int, ...]:
        """Classes whose evidence is not another's with its sign changed, or the same."""

    def against(self, index: int, classes: Sequence[str]) -> str:
        """What negative evidence means."""
        return f"against {classes[index]}"
