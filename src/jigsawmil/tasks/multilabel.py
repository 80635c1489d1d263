"""Several targets at once, each with two classes or more: one encoder, and a softmax over the classes of each target.

A target that is not known of a slide takes no part in its loss and in no figure. Figures, tests and maps are those of
the single targets, which are binary or multiclass tasks, see `split`. Outputs are called `target=class`; the name of
the task ends in the number of classes of each target, `multilabel(2,3)`, as soon as labels are known.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import statistics
from ..config import require
from ..errors import ConfigError, LabelError
from .binary import TASK as BINARY
from .classes import AREA, sort_classes
from .multiclass import TASK as MULTICLASS
from .target import EQUALS, SingleTarget, join_label, label_of, split_label
from .task import Task
from .terms import Booleans, Floats, Integers, LabelCells, LabelProblem, Sorted, Targets

if TYPE_CHECKING:
    from .heads import Head

UNKNOWN = -1  # target value of a target that is missing
SMALL = 10  # slides, below which a part of a class is no group of its own for folds


class MultilabelTask(Task):
    """Target values are (slide, target) indices of classes; outputs the probabilities of all classes of all targets."""

    name = "multilabel"
    calls_classes = True
    measure = AREA
    column_options = ("label_columns",)
    sizes: tuple[int, ...] = ()  # number of classes of each target

    # Targets

    def of_form(self, form: str) -> Self:
        task = copy.copy(self)
        task.sizes = tuple(int(size) for size in form.split(","))
        task.name = f"{type(self).name}({','.join(map(str, task.sizes))})"
        return task

    def of(self, classes: Sequence[str]) -> Self:
        names = [name.partition(EQUALS)[0] for name in classes]
        return self.of_form(",".join(str(names.count(target)) for target in dict.fromkeys(names)))

    def split(self, classes: Sequence[str]) -> tuple[SingleTarget, ...]:
        found = []
        for own in self.of(classes)._slices:
            pairs = [name.partition(EQUALS) for name in classes[own]]
            names = tuple(name for _, _, name in pairs)
            task = BINARY if len(names) == BINARY.most else MULTICLASS
            found.append(SingleTarget(pairs[0][0], task, names, own))
        return tuple(found)

    @property
    def _slices(self) -> list[slice]:
        """Where the outputs of each target lie."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    def _choose(self) -> NoReturn:
        raise ConfigError(
            "The model predicts several targets; a map shows one. Name it: --target, or maps.of_target(name)."
        )

    # Labels

    def pick_columns(self, table: LabelCells, named: Mapping[str, Any], taken: set[str | None]) -> tuple[str, ...]:
        names = [name.strip() for name in (named.get("label_columns") or "").split(",") if name.strip()]
        if not names or len(set(names)) < len(names):
            raise LabelError(
                f"{table.name}: label_columns: found {', '.join(names) or 'nothing'}, expected different columns, one "
                f"per target: --label-columns A,B (label_columns=). The table has {table.found()}."
            )
        return tuple(str(table.pick("label", (), name)) for name in names)

    def name_columns(self, columns: Sequence[str]) -> dict[str, str]:
        return {"label_columns": ",".join(columns)}

    def join_cells(self, columns: Sequence[str], cells: Sequence[str]) -> str:
        return join_label(columns, cells)

    def text_of(self, label: object) -> str:
        return label_of(label)

    def targets(self, labels: Sequence[str], positive: str | None = None) -> Targets:
        if positive is not None:
            raise LabelError(
                f"positive={positive!r} applies to a single target; {self.name} has several. Leave it out: of each "
                "target with two classes the last in sorted order is the positive one."
            )
        rows = [split_label(label) for label in labels]
        found: dict[str, set[str]] = {name: set() for row in rows for name in row}
        for row in rows:
            for name, label in row.items():
                found[name] |= {label} - {""}
        for name, own in found.items():
            if len(own) < 2:
                raise LabelError(f"{name}: found {', '.join(sorted(own)) or 'no label'}; expected two classes or more.")
        classes = tuple(f"{name}{EQUALS}{label}" for name, own in found.items() for label in sort_classes(own))
        return Targets(classes, self.values_of(labels, classes))

    def values_of(self, labels: Sequence[str], classes: Sequence[str]) -> Integers:
        rows = [split_label(label) for label in labels]
        values = np.full((len(rows), len(self.split(classes))), UNKNOWN, dtype=np.int64)
        for column, target in enumerate(self.split(classes)):
            known = [i for i, row in enumerate(rows) if row.get(target.name)]
            values[known, column] = target.task.values_of([rows[i][target.name] for i in known], target.classes)
        return values

    def reads_as(self) -> str:
        return type(self).name

    def label_problems(self, slides: Sequence[tuple[str, str]]) -> Iterator[LabelProblem]:
        rows = [(patient, split_label(label)) for patient, label in slides if label]
        for name in dict.fromkeys(name for _, row in rows for name in row):
            known = [(patient, row[name]) for patient, row in rows if row.get(name)]
            if not known:
                yield LabelProblem("one-class", f"{name}: no slide has a label", "Is it the right column?")
            elif blank := len(rows) - len(known):
                text = f"{name}: {blank} of {len(rows)} slides without a label"
                yield LabelProblem("missing-target", text, "They are used for the other targets.")
            for problem in MULTICLASS.label_problems(known) if known else ():
                yield problem._replace(text=f"{name}: {problem.text}")

    def label_counts(self, labels: Sequence[str]) -> str:
        rows, lines = [split_label(label) for label in labels], []
        for name in dict.fromkeys(name for row in rows for name in row):
            lines.append(f"{name}: {MULTICLASS.label_counts([row[name] for row in rows if row.get(name)])}")
        return "\n".join(lines)

    def cohort_rows(self, labels: Sequence[str], classes: Sequence[str]) -> list[tuple[str, Booleans]]:
        values = self.values_of(labels, classes)
        return [
            (f"{target.name}{EQUALS}{name}", values[:, column] == index)
            for column, target in enumerate(self.split(classes))
            for index, name in enumerate(target.classes)
        ]

    def strata(self, values: Integers) -> Integers:
        """The rarest class, of any target, that a slide has: an index of outputs. Parts of a class with few slides
        are put to the largest group."""
        first = np.cumsum((0, *self.sizes))[:-1]
        outputs = np.where(values == UNKNOWN, UNKNOWN, values + first)
        count = np.bincount(outputs[outputs >= 0], minlength=sum(self.sizes))
        rarity = np.where(outputs >= 0, count[outputs], len(values) + 1)
        found = outputs[np.arange(len(values)), rarity.argmin(axis=1)]
        size = np.bincount(found, minlength=len(count))
        small = np.flatnonzero((size > 0) & (size < np.minimum(count, SMALL)))
        kept = np.setdiff1d(np.flatnonzero(size), small)
        if len(small):
            found[np.isin(found, small)] = kept[size[kept].argmax()] if len(kept) > 1 else small[0]
        return found

    def stratum_names(self, classes: Sequence[str]) -> Sequence[str]:
        return classes

    def check_enough(self, values: Integers, patients: ArrayLike, folds: int) -> str:
        for target, size in enumerate(self.sizes):
            for index in range(size):
                count = len(set(np.asarray(patients)[values[:, target] == index]))
                if count < folds:
                    return (
                        f"a class of target {target + 1} of --label-columns has {count} patient{'s' * (count != 1)}; "
                        f"{folds} folds need one each at least. Use fewer folds, or leave that target out."
                    )
        return ""

    def check_fold(self, train: Integers, test: Integers, classes: Sequence[str]) -> str:
        for column, target in enumerate(self.split(classes)):
            if len(set(train[:, column]) - {UNKNOWN}) < 2:
                return f"its training part has fewer than two classes of {target.name}; expected two. Use other folds."
        return ""

    def label(self, value: Any, classes: Sequence[str]) -> str:
        parts = self.split(classes)
        names = ["" if v == UNKNOWN else target.classes[v] for v, target in zip(value, parts, strict=True)]
        return join_label([target.name for target in parts], names)

    # Model

    def check_classes(self, number: int) -> None:
        fits = bool(self.sizes) and sum(self.sizes) == number
        require("classes", number, fits, f"those of all targets of {self.name}, as in multilabel(2,3)")

    def head_for(self, width: int, classes: int, loss: str = "") -> Head:
        from .heads import MultilabelHead

        self.check_loss(loss)
        return MultilabelHead(width, self.sizes)

    def loss_words(self, loss: str) -> str:
        return "the mean over the targets of their cross-entropies, 0 for a target whose label a slide lacks"

    def probabilities(self, scores: Floats, classes: int) -> Floats:
        parts = [np.exp(own - own.max(axis=1, keepdims=True)) for own in (scores[:, part] for part in self._slices)]
        return np.hstack([own / own.sum(axis=1, keepdims=True) for own in parts])

    def _known(self, y: Integers, p: Floats) -> Iterator[tuple[Integers, Floats]]:
        """Truth and probabilities of each target, of the cases that have it."""
        for column, own in enumerate(self._slices):
            known = y[:, column] != UNKNOWN
            yield y[known, column], p[known, own]

    def validation(self, y: Integers, p: Floats, losses: Floats) -> tuple[float, float]:
        return float(np.mean(losses)), self.area(y, p)

    def log_loss(self, y: Integers, p: Floats) -> float:
        """Mean over all labels that are known."""
        own = [np.log(q[np.arange(len(t)), t].clip(1e-300)) for t, q in self._known(y, p)]
        return float(-np.concatenate(own).mean())

    def spread_of(self, scores: Floats, classes: int) -> Floats:
        """Mean over the targets; each alone: of the tasks of `split`."""
        parts = [SingleTarget("", BINARY, (), own) for own in self._slices]
        tasks = [BINARY if size == BINARY.most else MULTICLASS for size in self.sizes]
        each = zip(tasks, parts, self.sizes, strict=True)
        return np.mean([task.spread_of(part.scores(scores), size) for task, part, size in each], axis=0)

    # Predictions

    def columns(self, classes: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"probability_{name}" for name in classes)

    def row(self, p: ArrayLike, classes: Sequence[str]) -> dict[str, Any]:
        return dict(zip(self.columns(classes), map(float, np.asarray(p)), strict=True))

    def call(self, p: ArrayLike, classes: Sequence[str]) -> dict[str, Any]:
        called = [(target, target.probabilities(np.asarray(p))) for target in self.split(classes)]
        return {f"prediction_{target.name}": target.classes[int(q.argmax())] for target, q in called}

    def said(self, p: Floats, classes: Sequence[str]) -> str:
        return "; ".join(f"{t.name} {t.task.said(t.probabilities(p), t.classes)}" for t in self.split(classes))

    def row_words(self, row: Mapping[str, Any], classes: Sequence[str]) -> str:
        return self.said(np.array([row[name] for name in self.columns(classes)]), classes)

    def column_words(self, column: str, classes: Sequence[str]) -> str:
        return column.replace("probability_", "probability of ")

    # Figures: means over the targets, to stop by; those of a report are of the tasks of `split`

    def area(self, y: ArrayLike, p: ArrayLike) -> float:
        own = [statistics.macro_auc(t, q, absent="skip") for t, q in self._known(np.asarray(y), np.asarray(p))]
        known = [area for area in own if not np.isnan(area)]
        return float(np.mean(known)) if known else float("nan")

    def score(self, y: ArrayLike, p: ArrayLike) -> dict[str, float]:
        return {self.measure.name: self.area(y, p), "undefined": 0.0}

    def bounds(
        self, y: Integers, p: Floats, patients: ArrayLike, *, resamples: int = 2000, seed: int = 0
    ) -> dict[str, float]:
        return {}

    def test(
        self, y: Integers, p: Floats, q: Floats, patients: ArrayLike, *, clustered: bool = False
    ) -> dict[str, float]:
        raise NotImplementedError(f"{self.name}: each target is tested by itself")

    # Report and maps: of one target, see `split`

    def describe(self, classes: Sequence[str]) -> str:
        return f"several targets: {', '.join(target.name for target in self.split(classes))}"

    def sort_cases(self, y: Integers, p: Floats) -> list[Sorted]:
        return []

    def case_lines(self, y: Any, p: Floats, classes: Sequence[str]) -> list[str]:
        return [f"is {self.label(y, classes)}", self.said(p, classes)]

    def shown(self, p: Floats) -> int:
        self._choose()

    def evidence(self, evidence: Floats, index: int) -> Floats:
        self._choose()


TASK = MultilabelTask()
