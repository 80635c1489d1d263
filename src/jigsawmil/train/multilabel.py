"""Several targets at once as a scikit-learn estimator over bags: `SlideMultilabel`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, MultiOutputMixin

from ..bags.bag import Bag
from ..cohort.cohort import Cohort
from ..cohort.labels import plain_labels
from ..cohort.tables import is_unknown
from ..errors import LabelError
from ..tasks import SEVERAL, SingleTarget, Task, get_task
from .estimator import SlideEstimator, as_bags, check_classes, require_task, with_settings


@with_settings
class SlideMultilabel(MultiOutputMixin, ClassifierMixin, SlideEstimator):
    """Fit on bags (or paths of feature files) and the classes of several targets each; predict on bags.

    Y: (bag, target) array or data frame of classes; None or NaN where a label is missing. Answers have the form of
    those of scikit-learn's `MultiOutputClassifier`: one column per target, and lists with one entry per target.
    `targets` names the columns of an array (by default target_1, target_2, ...) or chooses those of a data frame (by
    default all). The other parameters are the settings below, and `seed`.
    Learned: as in `SlideClassifier`, and `targets_`; `classes_` is a list of arrays, each in sorted order.
    """

    def __init__(
        self, method: str | None = None, *, targets: Sequence[str] | None = None, seed: int = 0, **settings: Any
    ) -> None:
        self._store(method, settings, targets=targets, seed=seed)

    def fit(self, X: Sequence[Bag | str | Path], Y: Any, patients: Sequence[object] | None = None) -> "SlideMultilabel":
        """patients: keeps the slides of one on one side of the inner validation; read off TCGA barcodes by default."""
        columns = self._columns(Y)
        texts = {name: _texts(own) for name, own in columns.items()}
        rows = [dict(zip(texts, row, strict=True)) for row in zip(*texts.values(), strict=True)]
        self._fit(Cohort.from_bags(as_bags(X), rows, patients, task=SEVERAL))
        self.targets_ = list(columns)
        given = [dict(zip(texts[name], own.tolist(), strict=True)) for name, own in columns.items()]
        self.classes_ = [
            np.array([own[label] for label in part.classes]) for own, part in zip(given, self._parts, strict=True)
        ]
        return self

    def predict_proba(self, X: Sequence[Bag | str | Path]) -> list[np.ndarray]:
        """(bag, class) of each target, columns as `classes_`."""
        answers = self._answers(X)
        return [part.probabilities(answers) for part in self._parts]

    def predict(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag, target): the most probable class of each."""
        probabilities = self.predict_proba(X)
        found = [own[p.argmax(axis=1)] for own, p in zip(self.classes_, probabilities, strict=True)]
        alike = len({own.dtype.kind for own in found}) == 1
        return np.stack(found if alike else [own.astype(object) for own in found], axis=1)

    def score(self, X: Sequence[Bag | str | Path], Y: Any, sample_weight: Any = None) -> float:
        """The share of bags whose known labels are all predicted, compared as text; bags without any do not count."""
        true = np.stack([_texts(own) for own in self._columns(Y).values()], axis=1)
        said = np.stack([_texts(own) for own in self.predict(X).T], axis=1)
        known = (true != "").any(axis=1)
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(((said == true) | (true == ""))[known].all(axis=1), weights=weights))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """As it was saved, but on any device there is here."""
        found = super().load(folder)
        found.targets = found.targets_ = [part.name for part in found._parts]
        found.classes_ = [np.array(part.classes) for part in found._parts]
        return found

    @property
    def _parts(self) -> tuple[SingleTarget, ...]:
        return get_task(self.card_.model.task).split(self.card_.classes)

    def _columns(self, Y: Any) -> dict[str, np.ndarray]:
        """Target -> what was given of it."""
        names = None if self.targets is None else [str(name) for name in self.targets]
        if isinstance(Y, pd.DataFrame):
            frame = Y.set_axis(Y.columns.map(str), axis=1)
            names = list(frame.columns) if names is None else names
            if lacking := [name for name in names if name not in frame.columns]:
                raise LabelError(f"Y has no column {lacking[0]!r}; targets expects it. Found {', '.join(frame)}.")
            cells = [frame[name].to_numpy(dtype=object) for name in names]
        else:
            table = Y if isinstance(Y, np.ndarray) else np.array(list(Y), dtype=object)
            if table.ndim != 2:
                raise LabelError(f"Y has the shape {table.shape}, expected (bag, target): one column per target.")
            cells = list(table.T)
            names = [f"target_{number}" for number in range(1, len(cells) + 1)] if names is None else names
        if not names or len(names) != len(cells) or len(set(names)) < len(names):
            raise LabelError(
                f"targets: found {names} for {len(cells)} columns of Y; expected a different name for each."
            )
        for name, own in zip(names, cells, strict=True):
            check_classes(f"Y, target {name}", pd.Series(own).dropna().infer_objects().to_numpy())
        return dict(zip(names, cells, strict=True))

    @classmethod
    def _check_task(cls, task: Task, where: str) -> None:
        require_task(task.reads_as() == SEVERAL, task, "several targets", where)


def _texts(cells: np.ndarray) -> list[str]:
    """Labels of one target as text, "" where it is missing."""
    texts = ["" if pd.isna(cell) else str(cell).strip() for cell in cells.tolist()]
    return plain_labels(["" if is_unknown(text) else text for text in texts])[0]
