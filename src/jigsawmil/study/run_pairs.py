"""Two runs on the same slides and folds, paired: is one better than the other?"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ..config import choose
from ..errors import StudyError
from ..statistics.metrics import named
from ..statistics.paired import holm
from ..tasks import get_task
from .compare import compare_methods, p_columns
from .run import Run, open_run
from .slide_maps import the_cohort


def compare_runs(
    a: str | Path,
    b: str | Path,
    *,
    variant_a: str | None = None,
    variant_b: str | None = None,
    cohort: str | None = None,
    target: str | None = None,
) -> pd.DataFrame:
    """One row per pair of variants, one of each run: the columns of comparisons.csv, and run_a, run_b.

    Variants of the same name are paired; runs that share none are paired variant by variant, and so is a variant that
    is named. cohort, target: of runs with several. Runs whose slides, labels, patients or folds differ are refused.

    Example: `compare_runs("run-k8", "run-k50")`
    """
    runs = [open_run(path).for_target(target) for path in (a, b)]
    if cohort is not None:
        choose("--cohort", cohort, dict.fromkeys(name for run in runs for name in run.cohorts))
    cohorts = [the_cohort(run, cohort if cohort in run.cohorts else None) for run in runs]
    tables = [_predictions(run, name) for run, name in zip(runs, cohorts, strict=True)]
    _refuse_other_data(runs, cohorts, tables)
    classes, task = runs[0].classes[cohorts[0]], runs[0].task(cohorts[0])
    rows = []
    for pair in _pairs(runs, cohorts, [variant_a, variant_b]):
        parts = [
            # both runs may call a variant the same, and one cohort by two names
            table[table["variant"] == variant].assign(variant=place, cohort=cohorts[0])
            for place, table, variant in zip("ab", tables, pair, strict=True)
        ]
        both = pd.concat(parts, ignore_index=True)
        found = compare_methods(both, classes, task, training=runs[0].training(cohorts[0]))
        rows.append(found.assign(variant_a=pair[0], variant_b=pair[1]))
    result = pd.concat(rows, ignore_index=True)
    for p in p_columns(get_task(task).measure):
        result[f"{p}_holm"] = holm(result[p].astype(float))
    if pools_patients(runs[0]):
        result["level"] = "patient"  # one row per patient already
    return result.assign(run_a=str(runs[0].folder), run_b=str(runs[1].folder), cohort=cohorts[0])


def pools_patients(run: Run) -> bool:
    """All variants of a study have one level."""
    return any(job.settings.get("level") == "patient" for job in run.jobs)


def _pairs(runs: Sequence[Run], cohorts: Sequence[str], wanted: Sequence[str | None]) -> list[tuple[str, str]]:
    """Pairs of variants, each of which has all its folds."""
    whole = []
    for run, cohort, variant in zip(runs, cohorts, wanted, strict=True):
        judged = run.summary[run.summary["cohort"] == cohort]["variant"] if len(run.summary) else []
        found = [str(name) for name in judged]
        if not found:
            raise StudyError(f"{run.folder}: no variant has all its folds. Run the study to its end first.")
        if variant is not None:
            choose(f"variant of {run.folder}", variant, found)
        whole.append(found if variant is None else [variant])
    shared = [name for name in whole[0] if name in whole[1]]
    if shared and wanted[0] is None and wanted[1] is None:
        return [(name, name) for name in shared]
    return [(one, other) for one in whole[0] for other in whole[1]]


def _predictions(run: Run, cohort: str) -> pd.DataFrame:
    table = run.predictions
    return table[table["cohort"] == cohort].dropna(axis="columns", how="all")


def _refuse_other_data(runs: Sequence[Run], cohorts: Sequence[str], tables: Sequence[pd.DataFrame]) -> None:
    """A paired test needs the same cases, truth and folds; what differs is named."""
    a, b = (run.folder for run in runs)
    need = "A paired test needs the same slides, labels, patients and folds."
    for what, values in (
        ("tasks", [run.task(name) for run, name in zip(runs, cohorts, strict=True)]),
        ("classes", [", ".join(run.classes[name]) for run, name in zip(runs, cohorts, strict=True)]),
        ("levels", ["patient" if pools_patients(run) else "slide" for run in runs]),
        ("seeds", [named(sorted(set(table["seed"]))) for table in tables]),
    ):
        if values[0] != values[1]:
            raise StudyError(f"{a} and {b} differ in their {what}: {values[0]} and {values[1]}. {need}")
    one, other = (table.drop_duplicates("slide_id").set_index("slide_id") for table in tables)
    if lone := sorted(set(one.index) ^ set(other.index)):
        only = [sum(name in table.index for name in lone) for table in (one, other)]
        raise StudyError(
            f"{a} and {b} differ in their slides ({only[0]} only in the first, {only[1]} only in the second): "
            f"{named(lone)}. {need}"
        )
    for column, what in (("label", "labels"), ("patient_id", "patients")):
        theirs = other[column].loc[one.index]
        if (differ := one[column] != theirs).any():
            slides = list(one.index[differ])
            said = f"{one[column][slides[0]]!r} and {theirs[slides[0]]!r}"
            raise StudyError(f"{a} and {b} differ in the {what} of {named(slides)} ({said}). {need}")
    folds = [table.drop_duplicates(["seed", "slide_id"]).set_index(["seed", "slide_id"])["fold"] for table in tables]
    if (moved := folds[0] != folds[1].reindex(folds[0].index)).any():
        slides = sorted({str(slide) for _, slide in folds[0].index[moved]})
        raise StudyError(
            f"{a} and {b} differ in their folds: {len(slides)} slides lie in another one ({named(slides)}). {need} "
            f"Give the second run the folds of the first (--splits, a folds*.json of {a})."
        )
