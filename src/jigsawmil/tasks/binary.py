"""Two classes, the last of which is the positive one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .. import statistics
from ..errors import LabelError
from .classes import ClassTask, quoted
from .terms import Calibration, CalibrationWords, Floats, Integers

if TYPE_CHECKING:
    import pandas as pd

    from ..statistics.intervals import Interval
    from ..statistics.paired import DelongTest
    from .heads import Head


class BinaryTask(ClassTask):
    """One logit, the log-odds of the positive class; figures, curves and intervals are of that class."""

    name = "binary"
    most = 2

    def order(self, classes: list[str], positive: str | None) -> list[str]:
        if positive is not None:
            self.check_positive(classes, positive)
        if len(classes) != 2:
            raise LabelError(f"The labels are {quoted(classes)}; {self.name} needs two classes. Use another task.")
        return sorted(classes, key=lambda name: name == positive)

    def head(self, width: int, classes: int) -> Head:
        from .heads import BinaryHead

        return BinaryHead(width, 1)

    def columns(self, classes: Sequence[str]) -> tuple[str, ...]:
        return ("probability",)

    def columns_in(self, frame: pd.DataFrame, classes: Sequence[str]) -> tuple[str, ...]:
        """Tables from elsewhere may have a column for each of the two classes."""
        return ("probability",) if "probability" in frame else super().columns(classes)

    def matrix(self, frame: pd.DataFrame, classes: Sequence[str]) -> Floats:
        p = frame[list(self.columns_in(frame, classes))].to_numpy(dtype=float)
        return np.hstack([1 - p, p]) if p.shape[1] == 1 else p

    def column_words(self, column: str, classes: Sequence[str]) -> str:
        return f"probability of {classes[-1]}"

    def reported(self, number: int) -> Sequence[int]:
        return (1,)

    def best_threshold(self, y: Integers, p: Floats) -> float | None:
        """The one that makes balanced accuracy highest; 0.5 unless the predictions are better than chance (DeLong's
        interval lies above an AUROC of 0.5)."""
        better = statistics.delong_interval(y == 1, p[:, 1]).low > 0.5
        return statistics.balanced_threshold(y == 1, p[:, 1]) if better else 0.5

    def decision(self, p: ArrayLike) -> Integers:
        if self.threshold is None:
            return super().decision(p)
        return (np.asarray(p)[..., 1] > self.threshold).astype(np.int64)

    def figures(self, y: Integers, p: Floats) -> dict[str, float]:
        slope, intercept = statistics.recalibration(y == 1, p[:, 1])
        return super().figures(y, p) | {"calibration_slope": slope, "calibration_intercept": intercept}

    def interval(self, y: Integers, p: Floats, patients: ArrayLike) -> Interval:
        return statistics.delong_interval(y, p[:, 1], clusters=patients)

    def difference(self, y: Integers, p: Floats, q: Floats, clusters: ArrayLike | None = None) -> DelongTest:
        return statistics.delong_test(y, p[:, 1], q[:, 1], clusters)

    def positive(self, classes: Sequence[str]) -> str | None:
        return classes[-1]

    def describe(self, classes: Sequence[str]) -> str:
        return f"two classes; {classes[-1]} is the positive one"

    def curves(self, classes: Sequence[str]) -> dict[int, str]:
        return {1: f"positive class {classes[-1]}"}

    def calibration(self, y: Integers, p: Floats) -> Calibration:
        return Calibration(y == 1, p[:, 1])

    calibration_words = CalibrationWords("the positive class", "probability of the positive class", "observed share")
    decision_words = "a probability above 0.5"

    def shown(self, p: Floats) -> int:
        return 1

    def evidence(self, evidence: Floats, index: int) -> Floats:
        """The share of the log-odds."""
        return evidence[:, 0] if index else -evidence[:, 0]

    def evidence_classes(self, number: int) -> tuple[int, ...]:
        return (1,)

    def against(self, index: int, classes: Sequence[str]) -> str:
        return f"for {classes[0]}"


TASK = BinaryTask()
