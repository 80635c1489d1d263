"""What tasks speak in: target values, labels and their columns, cases, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Values = NDArray[Any]  # target values: class indices, or numbers


class Targets(NamedTuple):
    """Labels in the form that a task uses."""

    classes: tuple[str, ...]  # names of the outputs, in the order of the columns of `Head.probabilities`
    values: Values  # (slide,), or (slide, several): what `Head.loss` compares the logits with


class Sorted(NamedTuple):
    """Cases of a report's section "Slides to look at", the first of them shown. empty: said if there are none."""

    title: str
    rows: Integers
    empty: str = ""


class LabelCells(Protocol):
    """A table of labels, as a task looks for its columns."""

    @property
    def name(self) -> str: ...
    def pick(self, role: str, known: Sequence[str], named: str | None) -> str | None: ...
    def pick_label(self, named: str | None, taken: set[str | None]) -> str: ...
    def found(self) -> str: ...


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
