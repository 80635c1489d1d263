"""Several classes without an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .classes import ClassTask
from .terms import Floats

if TYPE_CHECKING:
    from .heads import Head


class MulticlassTask(ClassTask):
    """One logit per class; figures are means over each class against the rest."""

    name = "multiclass"

    def head(self, width: int, classes: int) -> Head:
        from .heads import MulticlassHead

        return MulticlassHead(width, classes)

    def describe(self, classes: Sequence[str]) -> str:
        return "several classes"

    def shown(self, p: Floats) -> int:
        """The most probable class."""
        return int(p.argmax())

    def evidence(self, evidence: Floats, index: int) -> Floats:
        """The share of the class's logit over the mean of all: what a patch adds to every class changes nothing."""
        return evidence[:, index] - evidence.mean(axis=1)

    def evidence_classes(self, number: int) -> tuple[int, ...]:
        return tuple(range(number))


TASK = MulticlassTask()
