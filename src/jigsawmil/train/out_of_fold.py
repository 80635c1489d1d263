"""How good a trained ensemble is, by the patients that its members held out.

Each member holds out its own part of the patients, so every patient has a prediction by the one member that was not
fitted to it. This is the figure of a member: the ensemble averages several, so its own is likely to be higher. On the
other side, a member stops by the loss of the patients it holds out, which makes its figure slightly optimistic.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cohort.cohort import Cohort
from ..nn.model import Model
from ..tasks import Task, get_task
from ..tasks.terms import Values
from .checkpoint import ModelCard
from .ensemble import Floats, Weights, average
from .feed import Feed, cohort_groups
from .infer import run_model
from .settings import Settings

TARGETS = "targets"  # of several: the figures of each by its name
ONE = "each patient by the one member that held it out"


class Assessment(NamedTuple):
    """figures: by the names of summary.csv. threshold: see `Task.best_threshold`; both None if nothing is known."""

    figures: dict[str, Any] | None = None
    threshold: float | None = None


Held = dict[int, Floats]  # bag -> (score,) by a member that held it out


def predict_held_out(model: Model, feed: Feed, slides: Sequence[str], settings: Settings) -> Held:
    """Scores of the bags that hold these slides."""
    bags = feed.bags_of(slides)
    device, precision = settings.train.device, settings.train.precision
    found = run_model(model, feed.prepared(bags, device), device=device, precision=precision)
    return {bag: seen.scores for bag, seen in zip(bags, found, strict=True)}


def assess(cohort: Cohort, level: str, parts: Sequence[Held], weights: Weights | None = None) -> Assessment:
    """Figures and threshold from what each member says of its held-out part; of several members that held out the same
    bag (of a committee, one of each kind), the average score. If bags were held out by no member (a single model, a
    training without stopping), or some by more members than others, nothing is known. weights: of the members."""
    groups = cohort_groups(cohort, level)
    who = [[member for member, part in enumerate(parts) if bag in part] for bag in range(len(groups))]
    if len({len(members) for members in who}) != 1 or not who[0]:
        return Assessment()
    said = [np.stack([parts[member][bag] for member in members]) for bag, members in enumerate(who)]
    shares = [None if weights is None else _shares([weights[member] for member in members]) for members in who]
    task, first = get_task(cohort.task).of(cohort.classes), [slides[0] for _, slides in groups]
    mean = np.stack([average(scores, own) for scores, own in zip(said, shares, strict=True)])
    y, patients, targets = cohort.labels[first], cohort.patients[first], task.split(cohort.classes)
    words = ONE if len(said[0]) == 1 else f"each patient by the {len(said[0])} members that held it out"
    about = {"predictions": words, "members": len(parts)}
    if not targets[0].name:
        figures, threshold = _figures(task, y, task.probabilities(mean, len(cohort.classes)), patients)
        return Assessment({**about, **figures}, threshold)
    found = {}
    for column, target in enumerate(targets):
        known = y[:, column] >= 0
        p = target.task.probabilities(target.scores(mean[known]), len(target.classes))
        found[target.name], _ = _figures(target.task, y[known, column], p, patients[known], fixed=False)
    return Assessment({**about, TARGETS: found})


def _figures(
    task: Task, y: Values, p: Floats, patients: NDArray[np.str_], *, fixed: bool = True
) -> tuple[dict[str, Any], float | None]:
    """fixed: whether a threshold is fixed by these predictions."""
    threshold = task.best_threshold(y, p) if fixed else None
    bounds = task.bounds(y, p, patients)
    figures = task.at(threshold).score(y, p)
    area = {task.measure.pooled: figures.pop(task.measure.name), **bounds}
    figures.pop("undefined", None)
    known = {name: None if np.isnan(value) else float(value) for name, value in {**area, **figures}.items()}
    return {**known, "slides": len(y), "patients": len(set(patients))}, threshold


def _shares(weights: Sequence[float]) -> Weights:
    return tuple(weight / sum(weights) for weight in weights)


def performance_lines(card: ModelCard) -> list[str]:
    """What a card says of the model's performance and decision, for people."""
    task, figures = get_task(card.model.task), card.performance
    lines = []
    if figures is not None:
        for name, own in (figures.get(TARGETS) or {"": figures}).items():
            measure = task.measure
            kind = measure.name if own.get(f"{measure.name}_low") is not None else "boot"
            reached = f"{shown(own[measure.pooled])} [{shown(own[f'{kind}_low'])}, {shown(own[f'{kind}_high'])}]"
            what = f"{name}, out of fold" if name else "Out of fold"
            lines.append(f"{what}, {figures['predictions']}: {measure.words} {reached} on {own['slides']} cases.")
        lines.append(
            "The ensemble averages all members, so it is likely to be better; but members also stop by the patients "
            "they hold out, which favours this figure a little."
        )
        if (card.training or {}).get("choice"):
            lines.append(
                "The same patients chose the settings, so the figure is optimistic; `compare` has no such bias."
            )
    else:
        lines.append(
            "No out-of-fold performance: only an ensemble (--members 2 or more) that stops early has one. "
            "`compare` cross-validates."
        )
    if words := task.at(card.threshold).decision_words:
        lines.append(f"Decision rule: {words}.")
    return lines


def shown(value: float | None) -> str:
    return "undefined" if value is None or np.isnan(value) else f"{value:.3f}"
