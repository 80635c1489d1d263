"""Which method is better, and is the difference real: tests between methods, and the summary of each.

The table of predictions is that of `study.predictions`. Definitions and limits: docs/statistics.md.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from ..errors import StudyError
from ..statistics.metrics import Floats, named, patient_level
from ..statistics.paired import corrected_interval, corrected_t_test, holm
from ..tasks import Measure, Task
from .predictions import Predictions, check_predictions

Trained = Mapping[tuple[Hashable, ...], int]  # (seed, fold) -> number of cases


def comparison_columns(measure: Measure) -> list[str]:
    """Of a table of comparisons by this measure."""
    own, test = measure.name, measure.test
    bounds = ["low", "high"] if measure.bounded else []
    return [
        *("variant_a", "variant_b", "level", f"{own}_a", f"{own}_b", "difference", *bounds),
        *(f"{test}_z", f"{test}_p", f"{test}_p_holm"),
        *("resamples", "undefined_folds", "fold_difference", "t", "t_p", "t_p_holm"),
    ]


def compare_methods(
    predictions: pd.DataFrame,
    classes: Sequence[str] | None = None,
    task: str | Task | None = None,
    *,
    training: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One row per pair of methods: AUROCs (or the other measure of the task), their difference (a - b), the paired test
    of the measure (DeLong's) and the corrected t, both Holm-adjusted.

    `level` says what a case is: `patient` (mean over its slides) as soon as one patient has several slides, since
    DeLong takes cases for independent; `slide` else; `slide, clustered` where a patient's slides differ in label.
    Of repeated hold-out the AUROCs are means over the splits, and there is no test of DeLong.
    training: `seed,fold,slide_id,patient_id` of what each fold trained on; None: all that is tested elsewhere.

    Example: `compare_methods(open_run("run").predictions)`
    """
    table = check_predictions(predictions, classes, task)
    _check_same_slides(table.frame)
    level = "slide"
    if table.patients_with_several:
        level = "slide, clustered" if table.patients_of_mixed_label else "patient"
    if level == "patient":
        table = replace(table, frame=patient_level(table.frame, table.columns))
    trained = _trained(table, training, "patient_id" if level == "patient" else "slide_id")
    clustered = level == "slide, clustered"
    rows = [_compare(table, a, b, clustered=clustered, trained=trained) for a, b in combinations(table.methods, 2)]
    columns = comparison_columns(table.task.measure)
    result = pd.DataFrame(rows, columns=[c for c in columns if not c.endswith("_holm") and c != "level"])
    adjusted = {f"{c}_holm": holm(result[c].astype(float)) for c in p_columns(table.task.measure)}
    return result.assign(level=level, **adjusted)[columns]


def p_columns(measure: Measure) -> tuple[str, str]:
    """Of comparisons: the paired test and the corrected t."""
    return f"{measure.test}_p", "t_p"


def summarise(
    predictions: pd.DataFrame,
    classes: Sequence[str] | None = None,
    task: str | Task | None = None,
    *,
    training: pd.DataFrame | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """One row per method: AUROC (or the task's other measure) as mean and std over folds and seeds, then the pooled
    out-of-fold figures.

    Pooled means the mean probability over seeds of each slide, all folds together. `seed` draws the patient bootstrap,
    the same patients for every method. `undefined_folds` counts the runs left out of the mean for want of a class.
    Of repeated hold-out nothing is pooled: every figure is the mean over the splits, `mean_low` and `mean_high` bound
    that of the AUROC, and `design` says so. training: see `compare_methods`.

    Example: `summarise(open_run("run").predictions)`
    """
    table = check_predictions(predictions, classes, task)
    rows, positive, measure = [], table.task.positive(table.classes), table.task.measure
    trained = _trained(table, training, "slide_id")
    for method in table.methods:
        runs = table.fold_aucs(method)
        design = table.design(method)
        if design == "repeated hold-out":
            figures = _over_splits(table, method, trained)
        else:
            figures = _pooled(table, method, resamples, seed)
        own = table.frame[table.frame["variant"] == method]
        rows.append(
            {"variant": method, "folds": runs.index.unique("fold").size}
            | {f"{measure.name}_mean": runs.mean(), f"{measure.name}_std": runs.std(), **figures}
            | {"seeds": runs.index.unique("seed").size}
            | {"slides": own["slide_id"].nunique(), "patients": own["patient_id"].nunique()}
            | {"undefined_folds": int(runs.isna().sum()), "design": design}
            | ({} if positive is None else {"positive": positive})
        )
    return pd.DataFrame(rows)


def _pooled(table: Predictions, method: str, resamples: int, seed: int) -> dict[str, float]:
    """Figures of all test sets together, and the intervals of their AUROC (or other measure)."""
    pooled, measure = table.pooled(method), table.task.measure
    y, p, patients = table.truth(pooled), table.matrix(pooled), pooled["patient_id"].to_numpy()
    figures = table.task.score(y, p)
    bounds = table.task.bounds(y, p, patients, resamples=resamples, seed=seed)
    by_patient = {f"{measure.name}_patient": _by_patient(table, pooled)}
    figures = {measure.pooled: figures.pop(measure.name), **bounds, **by_patient, **figures}
    return {name: value for name, value in figures.items() if name != "undefined"}


def _over_splits(table: Predictions, method: str, trained: Trained) -> dict[str, float]:
    """Means over the splits. A patient whom several splits tested is no several cases, so nothing is pooled."""
    measure = table.task.measure
    splits = [
        {
            **table.task.score(table.truth(run), table.matrix(run)),
            f"{measure.name}_patient": _by_patient(table, run),
        }
        for run in table.runs(method).values()
    ]
    figures = pd.DataFrame(splits).drop(columns=[measure.name, "undefined"]).mean().to_dict()
    areas, n_train, n_test = _resampled(table, method, table.fold_aucs(method), trained)
    reached = corrected_interval(areas, n_train, n_test)
    bounds = [f"{name}_{end}" for name in measure.intervals for end in ("low", "high")]
    nothing = dict.fromkeys((measure.pooled, *bounds), float("nan"))
    return {"mean_low": reached.low, "mean_high": reached.high, **nothing, **figures}


def _by_patient(table: Predictions, rows: pd.DataFrame) -> float:
    """AUROC (or other measure) of patients; nan if one has slides of several labels."""
    if table.patients_of_mixed_label:
        return float("nan")
    whole = patient_level(rows, table.columns)
    return table.task.area(table.truth(whole), table.matrix(whole))


def _compare(table: Predictions, a: str, b: str, *, clustered: bool, trained: Trained) -> dict[str, object]:
    means, measure = [table.fold_aucs(method) for method in (a, b)], table.task.measure
    gaps, n_train, n_test = _resampled(table, a, means[0] - means[1], trained)
    if table.design(a) == "repeated hold-out":
        areas = [float(mean.mean()) for mean in means]
        tested = dict.fromkeys(measure.tested, float("nan")) | {"difference": areas[0] - areas[1]}
    else:
        one, other = table.pooled(a), table.pooled(b)
        y, p, q = table.truth(one), table.matrix(one), table.matrix(other)
        tested = table.task.test(y, p, q, one["patient_id"].to_numpy(), clustered=clustered)
        areas = [table.task.area(y, p), table.task.area(y, q)]
    corrected = corrected_t_test(gaps, n_train, n_test)
    return {
        "variant_a": a,
        "variant_b": b,
        f"{measure.name}_a": areas[0],
        f"{measure.name}_b": areas[1],
        **tested,
        "resamples": len(gaps),
        "undefined_folds": int((means[0] - means[1]).isna().sum()),
        "fold_difference": float(np.mean(gaps)) if len(gaps) else float("nan"),
        "t": corrected.t,
        "t_p": corrected.p,
    }


def _resampled(table: Predictions, method: str, values: pd.Series, trained: Trained) -> tuple[Floats, float, float]:
    """A value of each (seed, fold) as one of each resample, and the mean numbers of cases trained and tested on.

    Runs that share a test set are averaged first: they repeat the fit, not the resampling, and counted one by one they
    would pass for evidence from new patients. Folds without a value are left out.
    """
    tested = {key: frozenset(run["slide_id"]) for key, run in table.runs(method).items()}
    resampled: dict[frozenset[str], list[float]] = {}
    for key, cases in tested.items():
        if not np.isnan(values[key]):
            resampled.setdefault(cases, []).append(values[key])
    found = np.array([np.mean(of_one_fold) for of_one_fold in resampled.values()])
    n_train = [trained[key] for key in tested]
    return found, float(np.mean(n_train)), float(np.mean([len(cases) for cases in tested.values()]))


def _trained(table: Predictions, training: pd.DataFrame | None, case: str) -> Trained:
    """How many cases each (seed, fold) trained on, those set aside for early stopping included."""
    if training is not None:
        return training.groupby(["seed", "fold"])[case].nunique().to_dict()
    cohort = table.frame.groupby("seed")["slide_id"].nunique()
    tested = table.frame.groupby(["seed", "fold"])["slide_id"].nunique()
    return {key: cohort[key[0]] - count for key, count in tested.items()}


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
