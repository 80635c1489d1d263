"""A table of out-of-fold predictions, checked, and what summaries, tests and pictures take from it.

It has one row per (variant, seed, slide): `variant,fold,seed,slide_id,patient_id,label,probability`, the probability
being that of the last class; beyond two classes one column `probability_<class>` each. Where test sets overlap, a slide
has a row per fold that tested it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from ..cohort.splits import Design, Fold, design_of
from ..errors import StudyError
from ..statistics.metrics import Floats, Integers, named
from ..tasks import Task, get_task, task_of_table
from ..tasks.terms import Values

KEYS = ["variant", "fold", "seed", "slide_id", "patient_id", "label"]


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """A checked table of predictions. Labels are class indices, or text of tasks that predict no class; columns stand
    in the order of the outputs."""

    frame: pd.DataFrame
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    task: Task

    @property
    def methods(self) -> list[str]:
        return list(self.frame["variant"].unique())

    @property
    def patients_with_several(self) -> bool:
        return bool((self.frame.groupby("patient_id")["slide_id"].nunique() > 1).any())

    @property
    def patients_of_mixed_label(self) -> bool:
        return bool((self.frame.groupby("patient_id")["label"].nunique() > 1).any())

    def matrix(self, frame: pd.DataFrame) -> Floats:
        """(row, class) probabilities."""
        return self.task.matrix(frame, self.classes)

    def design(self, method: str) -> Design:
        """What the folds of a method amount to; over several seeds as well."""
        tests: dict[object, list[dict[str, str]]] = {}
        for (seed, _), run in self.runs(method).items():
            tests.setdefault(seed, []).append(dict(zip(run["slide_id"], run["patient_id"], strict=True)))
        designs = {design_of(of_seed) for of_seed in tests.values()}
        covered = {frozenset().union(*of_seed) for of_seed in tests.values()}
        return designs.pop() if len(designs) == len(covered) == 1 else "repeated hold-out"

    def truth(self, frame: pd.DataFrame) -> Values:
        """(row,) target values, or (row, several)."""
        if self.task.of_classes:
            return frame["label"].to_numpy()
        return self.task.values_of([str(label) for label in frame["label"]], self.classes)

    def pooled(self, method: str) -> pd.DataFrame:
        """One row per slide, in the order of ids: mean probability over seeds, and over the folds that tested it."""
        rows = self.frame[self.frame["variant"] == method].groupby("slide_id", as_index=False)
        return rows.agg({"patient_id": "first", "label": "first"} | dict.fromkeys(self.columns, "mean"))

    def runs(self, method: str) -> dict[tuple[object, object], pd.DataFrame]:
        rows = self.frame[self.frame["variant"] == method]
        return {(key[0], key[1]): run for key, run in rows.groupby(["seed", "fold"])}

    def fold_aucs(self, method: str) -> pd.Series:
        """AUROC of each (seed, fold)."""
        areas = {key: self.task.area(self.truth(run), self.matrix(run)) for key, run in self.runs(method).items()}
        return pd.Series(areas.values(), pd.MultiIndex.from_tuples(areas, names=["seed", "fold"]), dtype=float)


@dataclass(frozen=True, eq=False)
class Pooled:
    """All folds of one method together, in the order of ids; probabilities are the mean over seeds.

    A case is a slide, or a patient where the slides of a patient were pooled into one prediction. repeated: of repeated
    hold-out, where each case has the mean over the folds that tested it: to be looked at, not to be tested.
    """

    cases: list[str]
    patients: list[str]
    truth: Values  # (case,) index of the class, or other target values
    probability: Floats  # (case, output)
    task: Task
    repeated: bool = False

    @property
    def decision(self) -> Integers:
        """(case,) index of the class that is called."""
        return self.task.decision(self.probability)


def pool(predictions: pd.DataFrame, classes: Sequence[str], task: str | Task | None = None) -> dict[str, Pooled]:
    """method -> its pooled predictions, methods in order of appearance."""
    table = check_predictions(predictions, classes, task)
    pooled = {}
    for method in table.methods:
        rows = table.pooled(method)
        patients, truth = rows["patient_id"].tolist(), table.truth(rows)
        repeated = table.design(method) == "repeated hold-out"
        pooled[method] = Pooled(rows["slide_id"].tolist(), patients, truth, table.matrix(rows), table.task, repeated)
    return pooled


def training_rows(
    folds: Mapping[tuple[int, int], Fold], patient_of: Mapping[str, str], level: str = "slide"
) -> pd.DataFrame:
    """`seed,fold,slide_id,patient_id` of what each fold trains on, as `compare_methods` takes it. folds: by (seed,
    fold). level: `patient` if predictions are of patients, whose names then are the slides'."""
    names = {slide: patient if level == "patient" else slide for slide, patient in patient_of.items()}
    rows = [
        (*key, names[slide], patient_of[slide])
        for key, fold in folds.items()
        for slide in (*fold.train, *fold.val)
        if slide in patient_of  # else its target is not known
    ]
    return pd.DataFrame(rows, columns=["seed", "fold", "slide_id", "patient_id"])


def fold_areas(predictions: pd.DataFrame, classes: Sequence[str], task: str | Task | None = None) -> pd.DataFrame:
    """`variant,seed,fold` and the figure of the task's measure (`auc`) of every test fold; nan if it is not defined."""
    table = check_predictions(predictions, classes, task)
    name = table.task.measure.name
    parts = [table.fold_aucs(method).rename(name).reset_index().assign(variant=method) for method in table.methods]
    return pd.concat(parts, ignore_index=True)


def check_predictions(predictions: pd.DataFrame, classes: Sequence[str] | None, task: str | Task | None) -> Predictions:
    """The table with everything checked, or an error that names the slides."""
    if predictions.empty:
        raise StudyError(
            "The table of predictions has no rows; expected one per method, seed and slide. Run the study."
        )
    if "cohort" in predictions and predictions["cohort"].nunique() > 1:
        found = named(predictions["cohort"].unique())
        raise StudyError(f"Predictions of the cohorts {found} in one table; expected one cohort. Take its rows alone.")
    if task is not None and not get_task(task).of_classes:
        return _check_values(predictions, tuple(classes or ()), get_task(task))
    missing = [k for k in KEYS if k not in predictions]
    columns = [c for c in predictions if c == "probability" or str(c).startswith("probability_")]
    columns = [c for c in columns if predictions[c].notna().any()]  # a run's table has those of its other cohorts too
    if missing or not columns or (len(columns) > 1 and "probability" in columns):
        raise StudyError(
            f"Columns {named(predictions.columns, 20)}; expected {', '.join(KEYS)} and either `probability` (of the "
            "last of two classes) or one `probability_<class>` for each class."
        )
    frame = _with_keys(predictions, columns)
    names = _class_names(frame["label"], columns, classes)
    if columns != ["probability"]:
        columns = [f"probability_{name}" for name in names]
    index = frame["label"].astype(str).map({name: i for i, name in enumerate(names)})
    unknown = named(frame.loc[index.isna(), "label"].unique())
    _refuse(frame, index.isna(), f"have a label that is none of {', '.join(names)}: {unknown}", "Name every class.")
    frame = frame.assign(label=index.astype(int))
    p = frame[columns].apply(pd.to_numeric, errors="coerce")
    bad = ~((p >= 0) & (p <= 1)).all(axis=1)  # nan fails both
    if len(columns) > 1:
        bad |= (p.sum(axis=1) - 1).abs() > 1e-3
    _refuse(frame, bad, "have no valid probability (nan, outside [0, 1], or not summing to 1)", "Run their fold again.")
    _refuse_contradictions(frame)
    return Predictions(
        frame=frame.assign(**p), classes=names, columns=tuple(columns), task=task_of_table(columns, task)
    )


def _check_values(predictions: pd.DataFrame, classes: tuple[str, ...], task: Task) -> Predictions:
    """Of a task that predicts no class."""
    columns = list(task.columns(classes))
    if missing := [name for name in (*KEYS, *columns) if name not in predictions]:
        raise StudyError(
            f"Columns {named(predictions.columns, 20)}; {task.name} expects {', '.join((*KEYS, *columns))}. Missing: "
            f"{named(missing)}. Run the study again."
        )
    frame = _with_keys(predictions, columns)
    values = frame[columns].apply(pd.to_numeric, errors="coerce")
    bad = ~np.isfinite(values).all(axis=1)
    _refuse(frame, bad, "have no valid prediction (nan or infinite)", "Run their fold again.")
    _refuse_contradictions(frame)
    return Predictions(frame=frame.assign(**values), classes=classes, columns=tuple(columns), task=task.of(classes))


def _with_keys(predictions: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """These columns and the keys, ids as text."""
    frame = predictions[[*KEYS, *columns]].reset_index(drop=True)
    _refuse(frame, frame[KEYS].isna().any(axis=1), f"lack one of {', '.join(KEYS)}", "Fill it in.")
    return frame.assign(**{key: frame[key].astype(str) for key in ("variant", "slide_id", "patient_id")})


def _refuse_contradictions(frame: pd.DataFrame) -> None:
    """Cases that are there twice, or that have two labels or patients."""
    twice = frame.duplicated(["variant", "seed", "fold", "slide_id"])
    _refuse(frame, twice, "are predicted more than once by one method in one fold", "Keep one prediction of each.")
    distinct = frame.groupby("slide_id")[["label", "patient_id"]].transform("nunique")
    _refuse(frame, (distinct > 1).any(axis=1), "have differing labels or patients between rows", "Correct the table.")


def _class_names(labels: pd.Series, columns: list[str], classes: Sequence[str] | None) -> tuple[str, ...]:
    """Class names in order: as stated, else that of the probability columns, else the labels sorted."""
    if columns == ["probability"]:
        # numbers sort as numbers (2 before 10), names as names
        found = [str(x) for x in np.sort(labels.unique() if is_numeric_dtype(labels) else labels.astype(str).unique())]
        names = [str(c) for c in classes] if classes else ["0", "1"] if set(found) <= {"0", "1"} else found
        if len(names) != 2:
            raise StudyError(
                f"One `probability` column and the classes {named(names)}; expected two classes. State both, the "
                "positive one last, in `classes`, or give one `probability_<class>` for each class."
            )
        return tuple(names)
    found = [c.removeprefix("probability_") for c in columns]
    names = [str(c) for c in classes] if classes else found
    if sorted(names) != sorted(found) or len(names) < 2:
        raise StudyError(
            f"Probability columns for {', '.join(found)}, but the classes are {', '.join(names)}; "
            "expected one `probability_<class>` for each of two or more classes."
        )
    return tuple(names)


def _refuse(frame: pd.DataFrame, wrong: pd.Series, what: str, remedy: str) -> None:
    if wrong.any():
        raise StudyError(f"Slides {named(frame.loc[wrong, 'slide_id'].unique())} {what}. {remedy}")
