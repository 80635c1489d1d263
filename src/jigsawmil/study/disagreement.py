"""Do the members of an ensemble disagree more about the cases that it gets wrong?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..statistics.intervals import Interval, delong_interval
from ..statistics.metrics import auc
from ..tasks import Task, get_task
from ..train.ensemble import SPREAD


class Disagreement(NamedTuple):
    """Of one variant. auroc: how well the spread of the members, by itself, finds the errors; 0.5 is chance.

    confidence: the same for doubt, 1 minus the probability of the class that is called. None without errors, or
    without a case that is right.
    """

    variant: str
    cases: int
    errors: int
    right: float  # median spread of cases that are called rightly
    wrong: float  # nan without errors
    auroc: Interval | None
    confidence: float | None


def disagreement(predictions: pd.DataFrame, classes: Sequence[str], task: str | Task) -> list[Disagreement]:
    """Of every variant whose predictions have a spread, if the task predicts classes. predictions: of one cohort; all
    seeds count as cases.

    Example: `disagreement(run.predictions, run.classes["cohort"], "binary")`
    """
    if SPREAD not in predictions:
        return []
    kind, found = get_task(task), []
    if not kind.of_classes:
        return []
    for variant, rows in predictions.dropna(subset=[SPREAD]).groupby("variant", sort=False):
        p = kind.matrix(rows, classes)
        called = kind.decision(p)
        wrong = np.array([classes[i] for i in called]) != rows["label"].astype(str).to_numpy()
        spread, doubt = rows[SPREAD].to_numpy(), 1 - p[np.arange(len(p)), called]
        both = bool(wrong.any() and not wrong.all())
        found.append(
            Disagreement(
                variant=str(variant),
                cases=len(rows),
                errors=int(wrong.sum()),
                right=float(np.median(spread[~wrong])) if not wrong.all() else np.nan,
                wrong=float(np.median(spread[wrong])) if wrong.any() else np.nan,
                auroc=delong_interval(wrong, spread, clusters=rows["patient_id"].to_numpy()) if both else None,
                confidence=auc(wrong, doubt) if both else None,
            )
        )
    return found
