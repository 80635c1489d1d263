"""Grades: classes with an order, such as ISUP 0 to 5."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import statistics
from ..errors import LabelError
from .classes import ClassTask, quoted
from .terms import Floats, Integers

if TYPE_CHECKING:
    from .heads import Head


class OrdinalTask(ClassTask):
    """One logit per threshold, the log-odds of a grade above it (proportional odds)."""

    name = "ordinal"
    fewest = 3

    def order(self, classes: list[str], positive: str | None) -> list[str]:
        words = [name for name in classes if not re.fullmatch(r"[+-]?\d+", name)]
        if words or len(classes) < self.fewest or positive is not None:
            raise LabelError(
                f"The labels are {quoted(classes)}{f', positive={positive!r}' if positive else ''}; "
                "ordinal needs three or more grades that are whole numbers, and no class called positive. "
                "Leave ordinal out, or write the grades as numbers."
            )
        return classes

    def head(self, width: int, classes: int) -> Head:
        from .heads import OrdinalHead

        return OrdinalHead(width, classes - 1)

    def further_figures(self, y: Integers, p: Floats) -> dict[str, float]:
        decision = self.decision(p)
        off = np.abs(decision - y)
        return {
            "quadratic_kappa": statistics.quadratic_kappa(statistics.confusion_matrix(y, decision, p.shape[1])),
            "mae": float(off.mean()) if len(off) else float("nan"),
        }

    def describe(self, classes: Sequence[str]) -> str:
        return "ordered grades"

    def shown(self, p: Floats) -> int:
        """The highest grade."""
        return len(p) - 1

    def evidence(self, evidence: Floats, index: int) -> Floats:
        """The share of the log-odds of this grade or a higher one (for the lowest: of staying below the second)."""
        return evidence[:, index - 1] if index else -evidence[:, 0]

    def evidence_classes(self, number: int) -> tuple[int, ...]:
        return (number - 1,)


TASK = OrdinalTask()
