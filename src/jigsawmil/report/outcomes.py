"""The sections of a report about survival and about measured values."""

from collections.abc import Iterator, Sequence

import numpy as np

from ..config import require
from ..errors import ConfigError
from ..statistics import brier, brier_of_kaplan_meier, dynamic_auc_intervals, risk_groups
from ..statistics.metrics import Floats, patient_level
from ..study.predictions import Pooled, check_predictions, pool
from ..study.run import Run
from ..tasks import get_task
from ..tasks.outcome import survival_at
from .html import Html, join, picture, table, tag
from .part import CohortPart
from .plots.survival import Followed, Forecast, kaplan_meier_figure, survival_calibration_figure
from .plots.values import Measured, difference_figure, scatter_figure
from .tables import bounded, number

HORIZONS = "horizons"  # the section of tasks that predict curves


def risk_section(part: CohortPart) -> Html:
    """Kaplan-Meier curves of those with low and with high predicted risk."""
    checked, cases = check_predictions(part.predictions, part.classes, part.task), {}
    frame = patient_level(checked.frame, checked.columns)  # its slides are no further evidence
    for method in part.pooled:
        rows = frame[(frame["variant"] == method) & (frame["seed"] == part.run.seeds[0])]
        rows = rows.drop_duplicates("patient_id")  # of repeated hold-out the first split that tested it
        outcome = checked.truth(rows)
        groups = risk_groups(rows["risk"].to_numpy(float), rows["fold"].to_numpy())
        cases[method] = Followed(outcome[:, 0], outcome[:, 1] > 0, groups)
    caption = (
        "Kaplan-Meier curves with 95 % bands of the patients whose predicted risk (the mean over their slides) lies "
        "above and below the median of their test fold, by models that were not trained on them. Ticks: censored. The "
        "log-rank test compares groups for these trained models."
    )
    return picture(kaplan_meier_figure(cases), "Survival by predicted risk", caption)


def horizons_section(part: CohortPart) -> Html:
    """Whether predicted survival means what it says, and tells who reaches a horizon."""
    horizons, patients = _horizons(part), _by_patient(part)
    cases = {
        method: Forecast(one.truth[:, 0], one.truth[:, 1] > 0, survival_at(part.classes, one.probability, horizons))
        for method, one in patients.items()
    }
    where = "the horizons" if part.horizons else "quartiles of the event times"
    caption = (
        "Observed survival (Kaplan-Meier, with its 95 % interval) against predicted survival in groups of patients, at "
        f"{where}; on the dashed line predictions are perfectly calibrated. A patient's prediction is the mean over "
        "the slides; between the horizons of the models it is interpolated linearly."
    )
    words = (
        "AUROC: patients with the event by the horizon against those who live beyond it, weighted for censoring "
        "(cumulative/dynamic), with a bootstrap interval over patients. Brier score: lower is better; useful if below "
        "that of the Kaplan-Meier curve. Other horizons: jigsawmil report RUN --horizons 12,36,60."
    )
    head = ["variant", "horizon", "event by then", "beyond", "AUROC [95 % interval]", "Brier", "Brier of Kaplan-Meier"]
    rows = [
        [join([part.marks[method], method]), *cells]
        for method, one in cases.items()
        for cells in _at_horizons(one, horizons, patients[method].patients)
    ]
    shown = picture(survival_calibration_figure(cases, horizons), "Calibration at horizons", caption)
    return join([shown, table(head, rows), tag("p", words, class_="note")], "\n")


def check_horizons(run: Run, horizons: Sequence[float]) -> None:
    """Refuse times at which no curve of the run is known."""
    if not horizons:
        return
    last = {name: float(run.classes[name][-1]) for name in run.cohorts if HORIZONS in get_task(run.task(name)).sections}
    if not last:
        raise ConfigError("horizons: the run has no cohort with survival times. Leave --horizons out.")
    rising = list(horizons) == sorted(set(horizons)) and horizons[0] > 0
    least = min(last.values())
    require(
        "horizons", list(horizons), rising and horizons[-1] <= least,
        f"rising times above 0, in the unit of the table and up to {least:g}, to which the predicted curves reach",
    )  # fmt: skip


def _horizons(part: CohortPart) -> Floats:
    if part.horizons:
        return np.array(part.horizons, dtype=float)
    last = len(part.classes) - 1
    return np.array([float(part.classes[1 + index]) for index in sorted({last * n // 4 for n in (1, 2, 3)} - {last})])


def _by_patient(part: CohortPart) -> dict[str, Pooled]:
    """Slides of a patient have one outcome, and are one case."""
    checked = check_predictions(part.predictions, part.classes, part.task)
    return pool(patient_level(checked.frame, checked.columns), part.classes, part.task)


def _at_horizons(one: Forecast, horizons: Floats, patients: Sequence[str]) -> Iterator[list[str]]:
    """Cells of a row per horizon."""
    own = (one.time, one.event)
    areas = dynamic_auc_intervals(*own, *own, 1 - one.survival, horizons, patients, 0)
    ours, known = brier(*own, *own, one.survival, horizons), brier_of_kaplan_meier(*own, *own, horizons)
    for index, horizon in enumerate(horizons):
        failed, beyond = (one.event & (one.time <= horizon)).sum(), (one.time > horizon).sum()
        yield [
            f"{horizon:g}", f"{failed:,}", f"{beyond:,}", bounded(*areas[index]), number(ours[index]),
            number(known[index]),
        ]  # fmt: skip


def values_section(part: CohortPart) -> Html:
    """Predictions of a measured value against the truth."""
    cases = {method: Measured(one.truth, one.probability[:, 0]) for method, one in part.pooled.items()}
    scatter = "Predicted against true value, one dot per case; on the dashed line they are equal."
    bland = (
        "Prediction minus truth against the mean of both (Bland and Altman), with the mean difference and 1.96 "
        "standard deviations to both sides. A sloping cloud means that predictions are drawn towards the mean."
    )
    return join(
        [
            picture(scatter_figure(cases, part.styles), "Predicted and true values", scatter),
            picture(difference_figure(cases, part.styles), "Differences from the true values", bland),
        ],
        "\n",
    )
