"""What a report says of a validation: the cohort that no model was trained on, beside what training promised."""

import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..statistics.intervals import Interval, difference_interval
from ..study.records import ValidationRecord
from ..study.run import Run
from ..tasks import figure_headers, measure_of
from .headline import Answer
from .html import Html, figures, join, picture
from .plots.forest import interval_figure
from .tables import Column, Table, bounded, number, reached

SLIDE, PATIENT, TRAINING = "external, by slide", "external, by patient", "in training"
BOUNDS = {"DeLong": ("auc_low", "auc_high"), "patient bootstrap": ("boot_low", "boot_high")}
LEFT_OUT = ("ece", "auc_patient")  # figures that the table does not show


def validation_answer(run: Run) -> Answer:
    """The headline of a validation, and what must be read with it."""
    record, row = _record(run), run.summary.iloc[0]
    variant, area = str(row["variant"]), _area(row)
    cases = "patients" if row["slides"] == row["patients"] else "slides"
    measure = measure_of(row)
    if np.isnan(area.value):
        why = "the cohort lacks a class" if measure.words == "AUROC" else "the predictions or the truth are constant"
        return Answer(f"No {measure.words} is defined: {why}.", (), variant, False)
    article = "an" if measure.words == "AUROC" else "a"
    headline = f"{variant} reaches {article} {measure.words} of {bounded(*area)} on {row['slides']} external {cases}"
    further = []
    if record.reference:
        training, gap = _area(record.reference), _gap(run)
        headline += f", against {number(training.value)} in training"
        further.append(_gap_words(gap))
    else:
        further.append("The model states no out-of-fold performance to compare with.")
    if len(run.patient_summary) and row["slides"] != row["patients"]:
        further.append(f"By patient: {bounded(*_area(run.patient_summary.iloc[0]))}.")
    if record.overlap:
        further.append(
            f"Not fully external (allowed with --allow-overlap): shared with the training set: {record.overlap}."
        )
    return Answer(f"{headline}.", tuple(further), variant, False)


def validation_table(run: Run) -> Table:
    """Every figure by slide, by patient and as training states it."""
    columns, measure = _columns(run), measure_of(run.summary)
    words = measure.words
    rows = [[f"{words} [95 % interval]", *(bounded(*_area(values)) for values in columns.values())]]
    for kind, (low, high) in BOUNDS.items():
        cells = [_span(_value(values, low), _value(values, high)) for values in columns.values()]
        if any(cells):
            rows.append([f"{words}, {kind}", *cells])
    for name, header in figure_headers().items():
        found = [_value(values, name) for values in columns.values()]
        if name not in LEFT_OUT and not np.isnan(found[0]):
            rows.append([WORDS.get(name, header.replace("\n", " ")), *map(number, found)])
    for name, words in COUNTS.items():
        rows.append([words, *(f"{int(_value(values, name)):,}" for values in columns.values())])
    of = measure.of(run.summary["positive"].iloc[0] if "positive" in run.summary else None)
    first, *others = zip(*rows, strict=True)
    shown = [Column(name, list(cells)) for name, cells in zip(columns, others, strict=True)]
    return Table(of[:1].upper() + of[1:], [Column("", list(first), name=True), *shown], _notes(run))


def validation_section(run: Run, colour: str) -> Html:
    """The table, and the intervals below each other."""
    areas = {name: _area(values) for name, values in _columns(run).items()}
    shown = {name: area for name, area in areas.items() if not np.isnan(area.value)}
    parts, measure = [figures(validation_table(run), {})], measure_of(run.summary)
    if shown:
        figure, words = interval_figure(shown, colour, measure), f"{measure.words} with"
        parts.append(picture(figure, f"{words} 95 % intervals", f"{words} its 95 % interval."))
    return join(parts, "\n")


def _notes(run: Run) -> list[str]:
    record, task = _record(run), run.deciding(run.cohorts[0])
    chosen = record.threshold not in (None, 0.5) and bool(record.reference)  # 0.5 is chosen by nothing
    notes = [f"In training: {record.reference_words}."] if record.reference else []
    if not task.of_classes:
        return notes
    notes += [
        f"Decision rule: {task.decision_words}. Balanced accuracy and F1 depend on it.",
        *["In training they are optimistic, because the threshold was chosen on the same predictions."] * chosen,
        "AUPRC depends on how frequent the class is: compare it between cohorts only if the shares are alike.",
    ]
    if "calibration_slope" in run.summary:
        notes.append(
            "Calibration in the large: above 0, the class is more frequent than predicted. Calibration slope: "
            "below 1, the probabilities are too extreme. Both need ten cases of each class."
        )
    return notes


COUNTS = {"slides": "cases", "patients": "patients"}
WORDS = {"calibration_slope": "calibration slope", "calibration_intercept": "calibration in the large"}


def validation_words(run: Run) -> str:
    """How the predictions came about; empty for any other run."""
    record = run.record.validation
    if record is None:
        return ""
    return (
        f"External validation of {record.words}. Nothing was fitted, chosen or calibrated on this cohort: weights, "
        "lambda, epochs and the threshold were fixed in training. The cohort was compared with the training set by "
        f"slide id, patient id and content of the features: {record.overlap or 'nothing is shared'}."
        + " A patient's prediction comes from the mean logit of its slides."
        * bool(len(run.patient_summary))
    )


def validation_command(run: Run) -> str:
    """What was called."""
    record, cohort = _record(run), run.record.cohorts[run.cohorts[0]]
    given = {"labels": cohort.labels, "features": cohort.features, **cohort.options.given()}
    words = ["jigsawmil", "validate", record.source]
    for name, value in given.items():
        flag = "--slide-mpp" if name == "mpp" else f"--{name.replace('_', '-')}"
        words += [flag] if value is True else [flag, str(value)]
    words += ["--variant", run.variants[0]] if record.words.startswith("the ensemble of all") else []
    words += ["--allow-overlap"] if record.overlap else []
    return shlex.join([*words, "--out", "validation"])


def _record(run: Run) -> ValidationRecord:
    assert run.record.validation is not None
    return run.record.validation


def _columns(run: Run) -> dict[str, Mapping[str, Any]]:
    several = run.summary.iloc[0]["slides"] != run.summary.iloc[0]["patients"]
    columns: dict[str, Mapping[str, Any]] = {SLIDE if several else "external": run.summary.iloc[0].to_dict()}
    if several and len(run.patient_summary):
        columns[PATIENT] = run.patient_summary.iloc[0].to_dict()
    if reference := _record(run).reference:
        columns[TRAINING] = reference
    return columns


def _area(values: Mapping[str, Any] | pd.Series) -> Interval:
    return reached(dict(values))


def _gap(run: Run) -> Interval:
    return difference_interval(_area(run.summary.iloc[0]), _area(_record(run).reference))


def _gap_words(gap: Interval) -> str:
    stated = f"Difference {gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
    if gap.high < 0:
        return f"{stated}: significantly worse than in training."
    return f"{stated}: " + ("significantly better than in training." if gap.low > 0 else "not significant.")


def _span(low: float, high: float) -> str:
    return "" if np.isnan(low) else f"{low:.3f} to {high:.3f}"


def _value(values: Mapping[str, Any] | pd.Series, name: str) -> float:
    found = values.get(name)
    return float("nan") if found is None else float(found)
