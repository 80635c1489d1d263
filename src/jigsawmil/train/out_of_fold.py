"""How good a trained ensemble is, by the patients that its members held out.

Each member holds out its own part of the patients, so every patient has a prediction by the one member that was not
fitted to it. This is the figure of a member: the ensemble averages several, so its own is likely to be higher. On the
other side, a member stops by the loss of the patients it holds out, which makes its figure slightly optimistic.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..cohort.cohort import Cohort
from ..nn.model import Model
from ..tasks import get_task
from .checkpoint import ModelCard
from .feed import Feed
from .infer import run_model
from .settings import Settings

WORDS = "each patient by the one member that held it out to stop by"


class Assessment(NamedTuple):
    """figures: by the names of summary.csv. threshold: see `Task.best_threshold`; both None if nothing is known."""

    figures: dict[str, Any] | None = None
    threshold: float | None = None


def predict_held_out(model: Model, feed: Feed, slides: Sequence[str], settings: Settings) -> pd.DataFrame:
    """slide_id, patient_id, label (a target value) and one column per class."""
    bags = feed.bags_of(slides)
    found = run_model(model, feed.prepared(bags), device=settings.train.device, precision=settings.train.precision)
    rows = []
    for bag, seen in zip(bags, found, strict=True):
        first = feed.cohort.slides[feed.members[bag][0]]
        rows.append([seen.name, first.patient_id, first.label, *seen.probabilities])
    return pd.DataFrame(rows, columns=["slide_id", "patient_id", "label", *range(len(feed.cohort.classes))])


def assess(cohort: Cohort, parts: Sequence[pd.DataFrame], bags: int) -> Assessment:
    """Figures and threshold from what each member predicted of its held-out part. bags: how many the cohort has; if
    not every one was held out exactly once (a single model, a training without stopping), nothing is known."""
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"slide_id": []})
    if len(table) != bags or table["slide_id"].duplicated().any():
        return Assessment()
    task = get_task(cohort.task)
    y, p = table["label"].to_numpy(), table[list(range(len(cohort.classes)))].to_numpy()
    patients = table["patient_id"].to_numpy()
    threshold = task.best_threshold(y, p)
    interval = task.interval(y, p, patients)
    boot = task.bootstrap(y, p, patients, np.random.default_rng(0), resamples=2000)
    figures = task.at(threshold).score(y, p)
    area = {"auc_oof": figures.pop("auc"), "auc_low": interval.low, "auc_high": interval.high}
    area |= {"boot_low": boot.low, "boot_high": boot.high}
    counts = {"slides": len(table), "patients": table["patient_id"].nunique(), "members": len(parts)}
    figures.pop("undefined", None)
    known = {name: None if np.isnan(value) else float(value) for name, value in {**area, **figures}.items()}
    return Assessment({"predictions": WORDS, **known, **counts}, threshold)


def performance_lines(card: ModelCard) -> list[str]:
    """What a card says of the model's performance and decision, for people."""
    task, figures = get_task(card.model.task), card.performance
    lines = []
    if figures is not None:
        kind = "auc" if figures.get("auc_low") is not None else "boot"
        reached = f"{shown(figures['auc_oof'])} [{shown(figures[f'{kind}_low'])}, {shown(figures[f'{kind}_high'])}]"
        lines.append(f"Out of fold, {figures['predictions']}: AUROC {reached} on {figures['slides']} cases.")
        lines.append("This is the figure of single members; it stopped them too. The ensemble is their mean.")
        if (card.training or {}).get("choice"):
            lines.append(
                "The same patients chose the settings, which makes the figure optimistic; `compare` has no such bias."
            )
    else:
        lines.append(
            "No out-of-fold performance: only an ensemble (--members 2 or more) that stops early has one. "
            "`compare` cross-validates."
        )
    lines.append(f"A class is called by {task.at(card.threshold).decision_words}.")
    return lines


def shown(value: float | None) -> str:
    return "undefined" if value is None or np.isnan(value) else f"{value:.3f}"
