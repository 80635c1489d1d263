"""Tasks that predict one class of several: what they have in common."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .. import statistics
from ..bags.spelling import plain_label, spellings
from ..config import did_you_mean, require
from ..errors import LabelError
from .measure import Measure
from .task import Task
from .terms import Booleans, Calibration, CalibrationWords, Floats, Integers, LabelProblem, Sorted, Targets

if TYPE_CHECKING:
    import pandas as pd

    from ..statistics.intervals import Interval
    from ..statistics.paired import DelongTest
    from .heads import Head

MANY = 10  # classes, above which a column may be no column of classes
NOT_DEFINED = float("nan")
AREA = Measure("auc", "auc_oof", "AUROC", 0.5, 0.0, "delong", "DeLong's test", "DeLong", ("auc", "boot"), False)


def sort_classes(names: Iterable[str]) -> list[str]:
    """By value if all are numbers ("2" before "10"), by name otherwise.

    Example: `sort_classes(["10", "2"])  # ["2", "10"]`
    """
    try:
        return sorted(names, key=float)
    except ValueError:
        return sorted(names)


class ClassTask(Task):
    """Each class against the rest, without an order. fewest, most: numbers of classes."""

    of_classes = calls_classes = True
    measure = AREA
    sections = ("curves", "calibration", "confusion")
    fewest: int = 2
    most: int | None = None

    # Labels

    def targets(self, labels: Sequence[str], positive: str | None = None) -> Targets:
        classes = self.order(sort_classes(set(labels)), positive)
        number = {name: index for index, name in enumerate(classes)}
        return Targets(tuple(classes), np.array([number[label] for label in labels], dtype=np.int64))

    def reads_as(self) -> str:
        return "multiclass"

    def values_of(self, labels: Sequence[str], classes: Sequence[str]) -> Integers:
        unknown = [name for name in sort_classes(set(labels)) if name not in classes]
        if unknown:
            slides = sum(label in unknown for label in labels)
            raise LabelError(
                f"{slides} of {len(labels)} slides have labels that the model does not know: {quoted(unknown)}; "
                f"expected {quoted(classes)}. Name another column (--label-column), write the labels as in training, "
                "or leave those slides out of the table."
            )
        return np.array([list(classes).index(label) for label in labels], dtype=np.int64)

    def order(self, classes: list[str], positive: str | None) -> list[str]:
        """Sorted classes in the order of the head; a LabelError if they do not fit the task."""
        if positive is not None:
            self.check_positive(classes, positive)
            raise LabelError(
                f"positive={positive!r} needs two classes; found {quoted(classes)}. "
                "Leave positive out, or make two classes of them."
            )
        return classes

    def check_positive(self, classes: Sequence[str], positive: str) -> None:
        if positive not in classes:
            hint = did_you_mean(positive, classes)
            raise LabelError(f"positive={positive!r} is not a label. Found {quoted(classes)}.{hint}")

    def label_problems(self, slides: Sequence[tuple[str, str]]) -> Iterator[LabelProblem]:
        patients_of: dict[str, set[str]] = defaultdict(set)
        for patient_id, label in slides:
            patients_of[label].add(patient_id)
        names = sort_classes(patients_of)
        if similar := spellings(names, plain_label):
            count = Counter(label for _, label in slides)
            groups = tuple(" / ".join(f"{name!r} ({count[name]} slides)" for name in group) for group in similar)
            text = f"{len(groups)} label{'s' * (len(groups) > 1)} written in several ways"
            yield LabelProblem("similar-labels", text, "Write each class in one way.", groups)
        if len(names) == 1:
            text, remedy = f"All slides are {names[0]!r}", "Two classes are needed: is this the right column?"
            yield LabelProblem("one-class", text, remedy)
        fractions = any(re.fullmatch(r"[+-]?\d*\.\d+", name) for name in names)
        if len(names) > MANY and (fractions or 2 * len(names) > len(slides)):
            text = (
                f"{len(names)} different labels on {len(slides)} slides: probably a measurement or names, not classes"
            )
            yield LabelProblem("not-classes", text, "Name another column, or make classes of it first.", tuple(names))
        elif len(names) > 1 and (single := tuple(name for name in names if len(patients_of[name]) == 1)):
            text = f"{len(single)} label{'s' * (len(single) > 1)} with one patient only"
            yield LabelProblem(
                "single-member", text, "One patient cannot be both in training and in a test fold.", single
            )

    def label_counts(self, labels: Sequence[str]) -> str:
        counts = Counter(labels)
        return f"Slides for each class: {', '.join(f'{name!r} {counts[name]}' for name in sort_classes(counts))}."

    def cohort_rows(self, labels: Sequence[str], classes: Sequence[str]) -> list[tuple[str, Booleans]]:
        return [(name, np.asarray(labels, dtype=object) == name) for name in classes]

    def label(self, value: Any, classes: Sequence[str]) -> str:
        return classes[value]

    # Model

    def probabilities(self, scores: Floats, classes: int) -> Floats:
        """By the head itself, of the logits."""
        import torch

        with torch.random.fork_rng(devices=[]):  # a head draws weights, which take no part here
            head = self.head(1, classes)
        return head.probabilities(torch.from_numpy(scores)).numpy()

    def head_for(self, width: int, classes: int, loss: str = "") -> Head:
        self.check_loss(loss)
        return self.head(width, classes)

    @abstractmethod
    def head(self, width: int, classes: int) -> Head:
        """Imports torch, as nothing else of a task does."""

    def check_classes(self, number: int) -> None:
        fits = self.fewest <= number <= (self.most or number)
        exact = self.most == self.fewest
        require("classes", number, fits, str(self.most) if exact else f"at least {self.fewest} for {self.name}")

    def validation(self, y: Integers, p: Floats, losses: Floats) -> tuple[float, float]:
        """Log loss, and the AUROC over the classes that are there: a validation set may lack one."""
        from sklearn.metrics import roc_auc_score  # ours differs in the last bit, and traces hold its values

        loss = -np.log(np.clip(p[np.arange(len(y)), y], 1e-7, None)).mean()
        return float(loss), statistics.macro_auc(y, p, absent="skip", area=roc_auc_score)

    def log_loss(self, y: Integers, p: Floats) -> float:
        return float(-np.log(p[np.arange(len(p)), y.astype(int)].clip(1e-300)).mean())

    def spread_of(self, scores: Floats, classes: int) -> Floats:
        """Log-odds of the class that is called."""
        if scores.shape[2] == 1:
            return scores[:, :, 0]
        called = self.decision(self.probabilities(scores.mean(axis=0), classes))
        own = np.stack([self.probabilities(each, classes)[np.arange(len(called)), called] for each in scores])
        own = own.clip(1e-12, 1 - 1e-12)
        return np.log(own / (1 - own))

    # Predictions

    def decision(self, p: ArrayLike) -> Integers:
        """(case,): index of the class that is called."""
        return np.asarray(p).argmax(axis=-1)

    def called(self, p: Floats) -> int:
        return int(self.decision(p))

    def brief(self, p: Floats, classes: Sequence[str]) -> str:
        return classes[self.called(p)]

    def title(self, p: Floats, classes: Sequence[str]) -> str:
        shown = self.shown(p)
        return f"{classes[self.called(p)]}, probability of {classes[shown]} {p[shown]:.2f}"

    def output_words(self, index: int, classes: Sequence[str]) -> str:
        return f"probability of {classes[index]}"

    def call(self, p: ArrayLike, classes: Sequence[str]) -> dict[str, Any]:
        return {"prediction": classes[int(self.decision(p))]}

    def said(self, p: Floats, classes: Sequence[str]) -> str:
        called = int(self.decision(p))
        return f"{classes[called]}, p = {p[called]:.2f}"

    def row_words(self, row: Mapping[str, Any], classes: Sequence[str]) -> str:
        stated = ", ".join(f"{self.column_words(name, classes)} {row[name]:.3f}" for name in self.columns(classes))
        return f"{row['prediction']} ({stated})"

    def columns(self, classes: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"probability_{name}" for name in classes)

    def row(self, p: ArrayLike, classes: Sequence[str]) -> dict[str, float]:
        stated = np.asarray(p)[list(self.reported(len(classes)))]
        return dict(zip(self.columns(classes), map(float, stated), strict=True))

    def matrix(self, frame: pd.DataFrame, classes: Sequence[str]) -> Floats:
        return frame[list(self.columns(classes))].to_numpy(dtype=float)

    def column_words(self, column: str, classes: Sequence[str]) -> str:
        return column

    # Figures

    def area(self, y: ArrayLike, p: ArrayLike) -> float:
        return statistics.macro_auc(y, p)

    def score(self, y: ArrayLike, p: ArrayLike) -> dict[str, float]:
        """The decision is the most probable class; figures of classes are unweighted means over those reported."""
        number = max(2, np.shape(p)[-1])
        truth, prob = statistics.check_probabilities(y, p, min(number, self.most or number), self.name)
        figures = self.figures(truth, prob)
        return figures | {"undefined": float(sum(np.isnan(value) for value in figures.values()))}

    def figures(self, y: Integers, p: Floats) -> dict[str, float]:
        columns = list(self.reported(p.shape[1]))
        figures = statistics.class_figures(y, p, self.decision(p), columns) | self.further_figures(y, p)
        hit, probability = self.calibration(y, p)
        figures["brier"] = statistics.brier_score(y, p, columns)
        figures["ece"] = statistics.expected_calibration_error(hit, probability)
        return figures

    def further_figures(self, y: Integers, p: Floats) -> dict[str, float]:
        return {}

    def bounds(
        self, y: Integers, p: Floats, patients: ArrayLike, *, resamples: int = 2000, seed: int = 0
    ) -> dict[str, float]:
        exact = self.interval(y, p, patients)
        boot = self.bootstrap(y, p, patients, np.random.default_rng(seed), resamples=resamples)
        return {"auc_low": exact.low, "auc_high": exact.high, "boot_low": boot.low, "boot_high": boot.high}

    def test(
        self, y: Integers, p: Floats, q: Floats, patients: ArrayLike, *, clustered: bool = False
    ) -> dict[str, float]:
        found = self.difference(y, p, q, patients if clustered else None)
        return {"difference": found.difference, "delong_z": found.z, "delong_p": found.p}

    def interval(self, y: Integers, p: Floats, patients: ArrayLike) -> Interval:
        """With an analytic interval; nan if there is none."""
        return statistics.Interval(NOT_DEFINED, NOT_DEFINED, NOT_DEFINED)

    def bootstrap(
        self, y: Integers, p: Floats, patients: ArrayLike, rng: np.random.Generator, *, resamples: int
    ) -> Interval:
        """With an interval over resampled patients."""
        return statistics.bootstrap_interval(y, p, patients, rng, resamples=resamples)

    def difference(self, y: Integers, p: Floats, q: Floats, clusters: ArrayLike | None = None) -> DelongTest:
        return statistics.DelongTest(self.area(y, p) - self.area(y, q), NOT_DEFINED, NOT_DEFINED)

    # Report

    def sort_cases(self, y: Integers, p: Floats) -> list[Sorted]:
        """The surest right, then the surest wrong."""
        called = self.decision(p)
        sure = p[np.arange(len(called)), called]
        found = []
        for right, title, empty in (
            (True, "Most confidently right", "No case was predicted correctly."),
            (False, "Most confidently wrong", "No case was predicted wrongly."),
        ):
            rows = np.flatnonzero((called == y) == right)
            found.append(Sorted(title, rows[np.argsort(-sure[rows], kind="stable")], empty))
        return found

    def case_lines(self, y: Any, p: Floats, classes: Sequence[str]) -> list[str]:
        return [f"is {classes[y]}", f"predicted {self.said(p, classes)}"]

    def right(self, label: str, p: Floats, classes: Sequence[str]) -> bool | None:
        return bool(classes[int(self.decision(p))] == label)

    def curves(self, classes: Sequence[str]) -> dict[int, str]:
        return {index: f"{name} against the rest" for index, name in enumerate(classes)}

    def calibration(self, y: Integers, p: Floats) -> Calibration:
        return Calibration(self.decision(p) == y, p.max(1))

    calibration_words = CalibrationWords(
        "the most probable class", "probability of the likeliest class", "share that was right"
    )
    decision_words = "the most probable class"


def quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
