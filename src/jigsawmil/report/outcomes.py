"""The sections of a report about survival and about measured values."""

import numpy as np

from ..statistics import risk_groups
from ..study.predictions import check_predictions
from .html import Html, join, picture
from .part import CohortPart
from .plots.survival import Followed, Forecast, kaplan_meier_figure, survival_calibration_figure
from .plots.values import Measured, difference_figure, scatter_figure


def risk_section(part: CohortPart) -> Html:
    """Kaplan-Meier curves of those with low and with high predicted risk."""
    table, cases = check_predictions(part.predictions, part.classes, part.task), {}
    for method in part.pooled:
        rows = table.frame[(table.frame["variant"] == method) & (table.frame["seed"] == part.run.seeds[0])]
        rows = rows.drop_duplicates("patient_id")  # one outcome per patient: its slides are no further evidence
        outcome = table.truth(rows)
        groups = risk_groups(rows["risk"].to_numpy(float), rows["fold"].to_numpy())
        cases[method] = Followed(outcome[:, 0], outcome[:, 1] > 0, groups)
    caption = (
        "Kaplan-Meier curves with 95 % bands of the patients whose predicted risk lies above and below the median of "
        "their test fold, by models that were not trained on them; patients with several slides count by the first. "
        "Ticks: censored. The log-rank test compares groups for these trained models."
    )
    return picture(kaplan_meier_figure(cases), "Survival by predicted risk", caption)


def horizons_section(part: CohortPart) -> Html:
    """Whether predicted survival means what it says."""
    chosen = sorted({(len(part.classes) - 1) * share // 4 for share in (1, 2, 3)} - {len(part.classes) - 1})
    horizons = np.array([float(part.classes[1 + index]) for index in chosen])
    cases = {
        method: Forecast(one.truth[:, 0], one.truth[:, 1] > 0, one.probability[:, [1 + index for index in chosen]])
        for method, one in part.pooled.items()
    }
    caption = (
        "Observed survival (Kaplan-Meier, with its 95 % interval) against predicted survival in groups of cases, at "
        "the quartiles of the event times; on the dashed line predictions are perfectly calibrated."
    )
    return picture(survival_calibration_figure(cases, horizons), "Calibration at horizons", caption)


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
