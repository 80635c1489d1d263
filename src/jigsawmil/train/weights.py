"""How much each kind of model in a committee counts: weights learnt from the training patients, near equal ones.

Each kind has at least three members that between them hold out every training patient once. So for every training
patient there is a logit of each kind from a member that was not fitted to that patient. The weights w of the K kinds
are not negative, add up to 1, and minimise

    log loss of the weighted logits  +  STRENGTH * sum over kinds of (w - 1/K)^2

The second term keeps them near equal weights: a few dozen patients say little about which kind is better. Form and
STRENGTH were declared in benchmarks/evidence/ensembles.py before they were tried.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ..tasks import Task
from .ensemble import Floats, Weights
from .settings import Settings

STRENGTH = 1.0  # nats per unit


def learn_weights(
    settings: Sequence[Settings],
    held_out: Sequence[Mapping[Any, Floats]],
    truth: Mapping[Any, Any],
    task: Task,
    classes: int,
) -> Weights | None:
    """A weight of each member, the same for members of a kind. None: all count the same, since there is one kind only,
    not every kind held out every patient, or no classes are predicted.

    settings: of each member. held_out: what each said of the cases that it held out, (score,) by case. truth: the
    target value of each case.
    """
    kinds: dict[Hashable, list[int]] = {}
    for member, own in enumerate(settings):
        kinds.setdefault(own, []).append(member)
    said = [_of_kind([held_out[member] for member in members]) for members in kinds.values()]
    if len(kinds) < 2 or not truth or not task.calls_classes or any(own.keys() != truth.keys() for own in said):
        return None
    scores = np.stack([[own[case] for case in truth] for own in said])  # (kind, case, score)
    learnt = stack(scores, np.array(list(truth.values())), task, classes)
    weight_of = {member: w / len(own) for w, own in zip(learnt, kinds.values(), strict=True) for member in own}
    return tuple(float(weight_of[member]) for member in range(len(settings)))


def _of_kind(parts: Sequence[Mapping[Any, Floats]]) -> dict[Any, Floats]:
    """Mean score of every case, of the members of one kind that held it out."""
    found: dict[Any, list[Floats]] = {}
    for part in parts:
        for case, score in part.items():
            found.setdefault(case, []).append(score)
    return {case: np.mean(scores, axis=0) for case, scores in found.items()}


def stack(scores: Floats, truth: np.ndarray, task: Task, classes: int) -> Floats:
    """Weights of the kinds. scores: (kind, case, score). truth: (case,) target values."""
    equal = np.full(len(scores), 1 / len(scores))

    def objective(w: Floats) -> float:
        p = task.probabilities(np.tensordot(w, scores, axes=1), classes)
        return float(task.log_loss(truth, p) + STRENGTH * ((w - equal) ** 2).sum())

    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1}
    found = minimize(objective, equal, bounds=[(0, 1)] * len(equal), constraints=[simplex], method="SLSQP")
    weights = np.clip(found.x, 0, None)
    return weights / weights.sum() if np.isfinite(weights).all() else equal
