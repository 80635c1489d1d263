"""What a model answers about slides, and what that means for their patients: rows of a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..tasks import Task, get_task
from .checkpoint import ModelCard
from .ensemble import SPREAD, combine
from .infer import Seen


class Answers:
    """Collects the answers of one model. A patient's is that of the mean scores of all its slides."""

    def __init__(self, card: ModelCard) -> None:
        self.card = card
        self.task: Task = get_task(card.model.task).of(card.classes).at(card.threshold)
        self.names: list[str] = []
        self.rows: list[dict[str, Any]] = []  # of slides: prediction, probabilities, and SPREAD of an ensemble
        self._scores: list[np.ndarray] = []  # (member, score) of each

    def add(self, seen: Seen) -> dict[str, Any]:
        """The row of a slide, or of a patient if the model pools patients."""
        self.names.append(seen.name)
        self._scores.append(np.stack([own.scores for own in seen.members or (seen,)]))
        self.rows.append(self._row(seen.probabilities, seen.spread))
        return self.rows[-1]

    @property
    def scores(self) -> np.ndarray:
        """(member, case, score)"""
        return np.stack(self._scores, axis=1)

    def of_patients(self, patient_of: Mapping[str, str]) -> tuple[list[str], list[dict[str, Any]]]:
        """Patients in the order of their first slide, and a row of each. patient_of: slide -> patient."""
        groups: dict[str, list[int]] = {}
        for index, name in enumerate(self.names):
            groups.setdefault(patient_of[name], []).append(index)
        scores = self.scores
        mean = np.stack([scores[:, rows].mean(axis=1) for rows in groups.values()], axis=1)
        found = combine(mean, self.card.model.task, self.card.model.classes, self.card.member_weights)
        spread: Sequence[float | None] = list(found.spread) if len(scores) > 1 else [None] * len(groups)
        return list(groups), [self._row(p, own) for p, own in zip(found.probabilities, spread, strict=True)]

    def _row(self, p: np.ndarray, spread: float | None) -> dict[str, Any]:
        own = {} if spread is None else {SPREAD: float(spread)}
        return {**self.task.call(p, self.card.classes), **self.task.row(p, self.card.classes), **own}
