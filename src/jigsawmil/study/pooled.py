"""Out-of-fold predictions of one cohort, a case a row: what pictures and lists of slides are made from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..errors import StudyError
from ..statistics.metrics import Floats, Integers, named
from ..tasks import Task, task_of_table


@dataclass(frozen=True, eq=False)
class Pooled:
    """All folds of one method together, in the order of ids; probabilities are the mean over seeds.

    A case is a slide, or a patient where the slides of a patient were pooled into one prediction.
    """

    cases: list[str]
    patients: list[str]
    truth: Integers  # (case,) index of the class
    probability: Floats  # (case, class)
    task: Task

    @property
    def decision(self) -> Integers:
        """(case,) index of the class that is called."""
        return self.task.decision(self.probability)


def pool(predictions: pd.DataFrame, classes: Sequence[str], task: str | None = None) -> dict[str, Pooled]:
    """method -> its pooled predictions, methods in order of appearance."""
    if predictions.empty:
        raise StudyError("The table of predictions has no rows; expected one a method, seed and slide. Run the study.")
    one_cohort(predictions)
    names = [str(name) for name in classes]
    labels = predictions["label"].astype(str)
    if unknown := sorted(set(labels) - set(names)):
        raise StudyError(f"Labels {named(unknown)} are none of the classes {named(names)}. Name every class.")
    found = task_of_table(predictions, task)
    columns = list(found.columns_in(predictions, names))
    if missing := [c for c in columns if c not in predictions]:
        raise StudyError(f"No column {', '.join(missing)} in the table of predictions; expected one for each class.")
    pooled = {}
    for method, rows in predictions.groupby(predictions["variant"].astype(str), sort=False):
        slides = rows.groupby("slide_id")
        pooled[str(method)] = Pooled(
            cases=[str(case) for case in slides.groups],
            patients=slides["patient_id"].first().astype(str).tolist(),
            truth=slides["label"].first().astype(str).map(names.index).to_numpy(dtype=np.int64),
            probability=found.matrix(slides[columns].mean(), names),
            task=found,
        )
    return pooled


def fold_areas(predictions: pd.DataFrame, classes: Sequence[str], task: str | None = None) -> pd.DataFrame:
    """`method,seed,fold,auc` of every test fold; nan where it lacks a class."""
    rows = []
    for (method, seed, fold), part in predictions.groupby(["variant", "seed", "fold"], sort=False):
        (one,) = pool(part, classes, task).values()
        rows.append({"variant": method, "seed": seed, "fold": fold, "auc": one.task.area(one.truth, one.probability)})
    return pd.DataFrame(rows)


def one_cohort(frame: pd.DataFrame) -> None:
    """Refuse predictions of several cohorts where they would be pooled."""
    if "cohort" in frame and frame["cohort"].nunique() > 1:
        names = ", ".join(map(str, frame["cohort"].unique()))
        raise StudyError(f"Predictions of the cohorts {names} in one table; expected one cohort. Take its rows alone.")
