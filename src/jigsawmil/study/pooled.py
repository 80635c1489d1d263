"""Out-of-fold predictions of one cohort, a case a row: what pictures and lists of slides are made from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..errors import StudyError
from ..statistics.metrics import Floats, Integers, macro_auc, named


@dataclass(frozen=True, eq=False)
class Pooled:
    """All folds of one method together, in the order of ids; probabilities are the mean over seeds.

    A case is a slide, or a patient where the slides of a patient were pooled into one prediction.
    """

    cases: list[str]
    patients: list[str]
    truth: Integers  # (case,) index of the class
    probability: Floats  # (case, class)

    @property
    def decision(self) -> Integers:
        """(case,) the most probable class."""
        return self.probability.argmax(1)


def pool(predictions: pd.DataFrame, classes: Sequence[str]) -> dict[str, Pooled]:
    """method -> its pooled predictions, methods in order of appearance."""
    if predictions.empty:
        raise StudyError("The table of predictions has no rows; expected one a method, seed and slide. Run the study.")
    one_cohort(predictions)
    names = [str(name) for name in classes]
    labels = predictions["label"].astype(str)
    if unknown := sorted(set(labels) - set(names)):
        raise StudyError(f"Labels {named(unknown)} are none of the classes {named(names)}. Name every class.")
    columns = ["probability"] if "probability" in predictions else [f"probability_{name}" for name in names]
    if missing := [c for c in columns if c not in predictions]:
        raise StudyError(f"No column {', '.join(missing)} in the table of predictions; expected one for each class.")
    pooled = {}
    for method, rows in predictions.groupby(predictions["variant"].astype(str), sort=False):
        slides = rows.groupby("slide_id")
        p = slides[columns].mean().to_numpy(dtype=float)
        pooled[str(method)] = Pooled(
            cases=[str(case) for case in slides.groups],
            patients=slides["patient_id"].first().astype(str).tolist(),
            truth=slides["label"].first().astype(str).map(names.index).to_numpy(dtype=np.int64),
            probability=np.hstack([1 - p, p]) if columns == ["probability"] else p,
        )
    return pooled


def fold_areas(predictions: pd.DataFrame, classes: Sequence[str]) -> pd.DataFrame:
    """`method,seed,fold,auc` of every test fold; nan where it lacks a class."""
    rows = []
    for (method, seed, fold), part in predictions.groupby(["variant", "seed", "fold"], sort=False):
        (one,) = pool(part, classes).values()
        rows.append({"variant": method, "seed": seed, "fold": fold, "auc": macro_auc(one.truth, one.probability)})
    return pd.DataFrame(rows)


def one_cohort(frame: pd.DataFrame) -> None:
    """Refuse predictions of several cohorts where they would be pooled."""
    if "cohort" in frame and frame["cohort"].nunique() > 1:
        names = ", ".join(map(str, frame["cohort"].unique()))
        raise StudyError(f"Predictions of the cohorts {names} in one table; expected one cohort. Take its rows alone.")
