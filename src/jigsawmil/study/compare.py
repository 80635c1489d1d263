"""Which method is better, and is the difference real: tests between methods, and the summary of each.

The table of predictions has one row a (method, seed, slide):
`method,fold,seed,slide_id,patient_id,label,probability`, the probability being that of the last class;
beyond two classes one column `probability_<class>` each. Definitions and limits: docs/statistics.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from ..errors import StudyError
from ..statistics.metrics import Floats, named, patient_level
from ..statistics.paired import corrected_t_test, holm
from ..tasks import Task, task_of_table

KEYS = ["variant", "fold", "seed", "slide_id", "patient_id", "label"]


def compare_methods(
    predictions: pd.DataFrame, classes: Sequence[str] | None = None, task: str | None = None
) -> pd.DataFrame:
    """One row a pair of methods: AUCs, their difference (a - b), DeLong and corrected t, both Holm-adjusted.

    `level` says what a case is: `patient` (mean over its slides) as soon as one patient has several slides, since
    DeLong takes cases for independent; `slide` else; `slide, clustered` where a patient's slides differ in label.

    Example: `compare_methods(open_run("run").predictions)`
    """
    table = _table(predictions, classes, task)
    _check_same_slides(table.frame)
    level = "slide"
    if table.patients_with_several:
        level = "slide, clustered" if table.patients_of_mixed_label else "patient"
    if level == "patient":
        table = replace(table, frame=patient_level(table.frame, table.columns))
    rows = [_compare(table, a, b, clustered=level == "slide, clustered") for a, b in combinations(table.methods, 2)]
    columns = [
        "variant_a",
        "variant_b",
        "level",
        "auc_a",
        "auc_b",
        "difference",
        "delong_z",
        "delong_p",
        "delong_p_holm",
    ]
    columns += ["resamples", "undefined_folds", "fold_difference", "t", "t_p", "t_p_holm"]
    result = pd.DataFrame(rows, columns=[c for c in columns if not c.endswith("_holm") and c != "level"])
    adjusted = {f"{c}_holm": holm(result[c].astype(float)) for c in ("delong_p", "t_p")}
    return result.assign(level=level, **adjusted)[columns]


def summarise(
    predictions: pd.DataFrame,
    classes: Sequence[str] | None = None,
    task: str | None = None,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a method: AUC as mean and std over folds and seeds, then the pooled out-of-fold figures.

    Pooled means the mean probability over seeds of each slide, all folds together. `seed` draws the patient bootstrap,
    the same patients for every method. `undefined_folds` counts the runs left out of the mean for want of a class.

    Example: `summarise(open_run("run").predictions)`
    """
    table = _table(predictions, classes, task)
    rows, positive = [], table.task.positive(table.classes)
    for method in table.methods:
        runs = table.fold_aucs(method)
        pooled = table.pooled(method)
        y, p, patients = pooled["label"].to_numpy(), table.matrix(pooled), pooled["patient_id"].to_numpy()
        figures = table.task.score(y, p)
        interval = table.task.interval(y, p, patients)
        boot = table.task.bootstrap(y, p, patients, np.random.default_rng(seed), resamples=resamples)
        by_patient = float("nan")
        if not table.patients_of_mixed_label:
            whole = patient_level(pooled, table.columns)
            by_patient = table.task.area(whole["label"], table.matrix(whole))
        rows.append(
            {"variant": method, "folds": runs.index.unique("fold").size, "auc_mean": runs.mean(), "auc_std": runs.std()}
            | {"auc_oof": figures.pop("auc"), "auc_low": interval.low, "auc_high": interval.high}
            | {"boot_low": boot.low, "boot_high": boot.high, "auc_patient": by_patient}
            | {name: value for name, value in figures.items() if name != "undefined"}
            | {"seeds": runs.index.unique("seed").size, "slides": len(y), "patients": pooled["patient_id"].nunique()}
            | {"undefined_folds": int(runs.isna().sum())}
            | ({} if positive is None else {"positive": positive})
        )
    return pd.DataFrame(rows)


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A checked table of predictions; labels are class indices, probability columns stand in the order of classes."""

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

    def pooled(self, method: str) -> pd.DataFrame:
        """One row a slide, in the order of ids: mean probability over seeds."""
        rows = self.frame[self.frame["variant"] == method].groupby("slide_id", as_index=False)
        return rows.agg({"patient_id": "first", "label": "first"} | dict.fromkeys(self.columns, "mean"))

    def runs(self, method: str) -> dict[tuple[object, object], pd.DataFrame]:
        rows = self.frame[self.frame["variant"] == method]
        return {(key[0], key[1]): run for key, run in rows.groupby(["seed", "fold"])}

    def fold_aucs(self, method: str) -> pd.Series:
        """AUC of each (seed, fold)."""
        areas = {key: self.task.area(run["label"], self.matrix(run)) for key, run in self.runs(method).items()}
        return pd.Series(areas.values(), pd.MultiIndex.from_tuples(areas, names=["seed", "fold"]), dtype=float)


def _compare(table: _Table, a: str, b: str, clustered: bool) -> dict[str, object]:
    one, other = table.pooled(a), table.pooled(b)
    y, p, q = one["label"].to_numpy(), table.matrix(one), table.matrix(other)
    delong = table.task.difference(y, p, q, one["patient_id"].to_numpy() if clustered else None)
    gaps, undefined, n_train, n_test = _resampled_gaps(table, a, b)
    corrected = corrected_t_test(gaps, n_train, n_test)
    return {
        "variant_a": a,
        "variant_b": b,
        "auc_a": table.task.area(y, p),
        "auc_b": table.task.area(y, q),
        "difference": delong.difference,
        "delong_z": delong.z,
        "delong_p": delong.p,
        "resamples": len(gaps),
        "undefined_folds": undefined,
        "fold_difference": float(np.mean(gaps)) if len(gaps) else float("nan"),
        "t": corrected.t,
        "t_p": corrected.p,
    }


def _resampled_gaps(table: _Table, a: str, b: str) -> tuple[Floats, int, float, float]:
    """Differences of AUC over resamples, how many folds had none, and the mean numbers of cases trained and tested on.

    Seeds that share a test fold are averaged first: they repeat the fit, not the resampling, and counted one by one
    they would pass for evidence from new patients.
    """
    gap = table.fold_aucs(a) - table.fold_aucs(b)
    tested = {key: frozenset(run["slide_id"]) for key, run in table.runs(a).items()}
    cohort = table.frame.groupby("seed")["slide_id"].nunique()
    n_test = [len(cases) for cases in tested.values()]
    n_train = [cohort[seed] - len(cases) for (seed, _), cases in tested.items()]
    resampled: dict[frozenset[str], list[float]] = {}
    for key, cases in tested.items():
        if not np.isnan(gap[key]):
            resampled.setdefault(cases, []).append(gap[key])
    gaps = np.array([np.mean(of_one_fold) for of_one_fold in resampled.values()])
    return gaps, int(gap.isna().sum()), float(np.mean(n_train)), float(np.mean(n_test))


def _table(predictions: pd.DataFrame, classes: Sequence[str] | None, task: str | None) -> _Table:
    """The table with everything checked, or an error that names the slides."""
    missing = [k for k in KEYS if k not in predictions]
    columns = [c for c in predictions if c == "probability" or str(c).startswith("probability_")]
    if missing or not columns or (len(columns) > 1 and "probability" in columns):
        raise StudyError(
            f"Columns {named(predictions.columns, 20)}; expected {', '.join(KEYS)} and either `probability` (of the "
            "last of two classes) or one `probability_<class>` for each class."
        )
    if predictions.empty:
        raise StudyError("The table of predictions has no rows; expected one a method, seed and slide. Run the study.")
    frame = predictions[[*KEYS, *columns]].reset_index(drop=True)
    _refuse(frame, frame[KEYS].isna().any(axis=1), f"lack one of {', '.join(KEYS)}", "Fill it in.")
    frame = frame.assign(**{key: frame[key].astype(str) for key in ("variant", "slide_id", "patient_id")})
    names = _class_names(frame["label"], columns, classes)
    if columns != ["probability"]:
        columns = [f"probability_{name}" for name in names]
    index = frame["label"].astype(str).map({name: i for i, name in enumerate(names)})
    _refuse(frame, index.isna(), f"have a label that is none of {', '.join(names)}", "Name it in `classes`.")
    frame = frame.assign(label=index.astype(int))
    p = frame[columns].apply(pd.to_numeric, errors="coerce")
    bad = ~((p >= 0) & (p <= 1)).all(axis=1)  # nan fails both
    if len(columns) > 1:
        bad |= (p.sum(axis=1) - 1).abs() > 1e-3
    _refuse(frame, bad, "have no valid probability (nan, outside [0, 1], or not summing to 1)", "Run their fold again.")
    twice = frame.duplicated(["variant", "seed", "slide_id"])
    _refuse(frame, twice, "are predicted more than once by one method and seed", "Keep one prediction of each.")
    told = frame.groupby("slide_id")[["label", "patient_id"]].transform("nunique")
    _refuse(frame, (told > 1).any(axis=1), "have differing labels or patients between rows", "Correct the table.")
    return _Table(frame=frame.assign(**p), classes=names, columns=tuple(columns), task=task_of_table(columns, task))


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


def _check_same_slides(frame: pd.DataFrame) -> None:
    """Every method has predicted the same slides in the same fold of the same seed."""
    grouped = frame.groupby("variant", sort=False)[["seed", "fold", "slide_id"]]
    runs = {method: set(rows.itertuples(index=False, name=None)) for method, rows in grouped}
    for a, b in combinations(runs, 2):
        if runs[a] != runs[b]:
            slides = sorted({str(slide) for _, _, slide in runs[a] ^ runs[b]})
            raise StudyError(
                f"{a} and {b} differ in the slides they predicted, or in their folds: {named(slides)}. A paired test "
                "needs the same slides in the same folds; run what is missing, or leave a method out."
            )
