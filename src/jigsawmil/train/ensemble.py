"""Several models that answer as one: their logits are averaged, with weights if these were learnt (weights.py).

Why logits. Each logit is a sum over patches (of what a patch contributes), so the mean logit is one too, and the mean
of the members' contribution maps adds up to it exactly. It is also the log of the normalised geometric mean of the
members' odds: one member that is very sure counts for more than in a mean of probabilities.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..cohort.cohort import Cohort
from ..cohort.inner_splits import member_splits
from ..cohort.splits import Fold
from ..errors import SplitError
from ..nn.model import Model
from ..tasks import get_task
from .settings import Settings

Floats = NDArray[np.float64]
Weights = tuple[float, ...]  # of the members of an ensemble; they add up to 1
SPREAD = "logit_std"  # column of a table of predictions: standard deviation over members, see `combine`


class Ensemble(nn.Module):
    """Models of one task and one kind of features; each may have a method and a graph of its own."""

    def __init__(self, members: Sequence[Model], weights: Weights | None = None) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weights = weights

    def __iter__(self) -> Iterator[Model]:
        for member in self.members:
            assert isinstance(member, Model)
            yield member

    def __len__(self) -> int:
        return len(self.members)


def members_of(model: Model | Ensemble) -> tuple[Model, ...]:
    """The models that answer: one, or those of an ensemble."""
    return tuple(model) if isinstance(model, Ensemble) else (model,)


def average(values: Floats, weights: Weights | None = None) -> Floats:
    """Over the first axis, which is that of the members. weights: None: all count the same."""
    return values.mean(axis=0) if weights is None else np.tensordot(np.array(weights), values, axes=1)


class Combined(NamedTuple):
    """What members say together."""

    scores: Floats  # (case, score): the average
    probabilities: Floats  # (case, output), of the mean scores
    spread: Floats  # (case,): standard deviation over members, of the log-odds of the class that is called


def combine(scores: Floats, task: str, classes: int, weights: Weights | None = None) -> Combined:
    """scores: (member, case, score), see `Head.scores`; of classes they are the logits. weights: of the members; the
    spread does not depend on them."""
    kind = get_task(task)
    mean = average(scores, weights)
    said = kind.spread_of(scores, classes)
    spread = said.std(axis=0, ddof=1) if len(scores) > 1 else np.zeros(len(mean))
    return Combined(mean, kind.probabilities(mean, classes), spread)


def splits_of_members(cohort: Cohort, split: Fold, settings: Settings, seed: int) -> list[Fold]:
    """What each member is fitted to and stops by. A single model, a training without stopping, and validation slides
    that are given leave the split as it is."""
    count = len(settings.each_member())
    if count == 1 or split.val or not settings.train.patience:
        return [split] * count
    try:
        known = cohort.for_split(split.train)
        parts = member_splits(split.train, **known, members=parts_held_out(settings), seed=seed)
    except SplitError as error:
        raise SplitError(f"{error} (patience = 0 does that.)") from error
    own = [Fold(train=train, val=val, test=split.test) for train, val in parts]
    return [own[number % len(own)] for number in range(count)]


def parts_held_out(settings: Settings) -> int:
    """Into how many parts the training patients are dealt. With three members or more of each kind, each kind of a
    committee holds out every patient once; with fewer, the committee as a whole does."""
    return settings.members if settings.members > 2 else len(settings.each_member())
