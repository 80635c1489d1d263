"""Which method is better, and is the difference real: tests between methods, and the summary of each.

The table of predictions is that of `study.predictions`. Definitions and limits: docs/statistics.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from ..errors import StudyError
from ..statistics.metrics import Floats, named, patient_level
from ..statistics.paired import corrected_t_test, holm
from ..tasks import Task
from .predictions import Predictions, check_predictions

COLUMNS = [
    *("variant_a", "variant_b", "level", "auc_a", "auc_b", "difference", "delong_z", "delong_p", "delong_p_holm"),
    *("resamples", "undefined_folds", "fold_difference", "t", "t_p", "t_p_holm"),
]


def compare_methods(
    predictions: pd.DataFrame, classes: Sequence[str] | None = None, task: str | Task | None = None
) -> pd.DataFrame:
    """One row per pair of methods: AUCs, their difference (a - b), DeLong and corrected t, both Holm-adjusted.

    `level` says what a case is: `patient` (mean over its slides) as soon as one patient has several slides, since
    DeLong takes cases for independent; `slide` else; `slide, clustered` where a patient's slides differ in label.

    Example: `compare_methods(open_run("run").predictions)`
    """
    table = check_predictions(predictions, classes, task)
    _check_same_slides(table.frame)
    level = "slide"
    if table.patients_with_several:
        level = "slide, clustered" if table.patients_of_mixed_label else "patient"
    if level == "patient":
        table = replace(table, frame=patient_level(table.frame, table.columns))
    rows = [_compare(table, a, b, clustered=level == "slide, clustered") for a, b in combinations(table.methods, 2)]
    result = pd.DataFrame(rows, columns=[c for c in COLUMNS if not c.endswith("_holm") and c != "level"])
    adjusted = {f"{c}_holm": holm(result[c].astype(float)) for c in ("delong_p", "t_p")}
    return result.assign(level=level, **adjusted)[COLUMNS]


def summarise(
    predictions: pd.DataFrame,
    classes: Sequence[str] | None = None,
    task: str | Task | None = None,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """One row per method: AUC as mean and std over folds and seeds, then the pooled out-of-fold figures.

    Pooled means the mean probability over seeds of each slide, all folds together. `seed` draws the patient bootstrap,
    the same patients for every method. `undefined_folds` counts the runs left out of the mean for want of a class.

    Example: `summarise(open_run("run").predictions)`
    """
    table = check_predictions(predictions, classes, task)
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


def _compare(table: Predictions, a: str, b: str, clustered: bool) -> dict[str, object]:
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


def _resampled_gaps(table: Predictions, a: str, b: str) -> tuple[Floats, int, float, float]:
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
