"""Settings chosen inside the training patients: the inner folds, and the rule.

The rule. Every candidate is trained and scored on the same inner folds of the training patients. Its gain in an inner
fold is the loss of the default minus its own, its gain is the mean over all inner folds, and the standard error of that
mean is Nadeau and Bengio's, which allows for training parts that overlap. The candidate with the largest gain is chosen
among those whose gain exceeds its own standard error; if there is none, the default is kept.

The score is the validation loss of the task (log loss of classes), which also chooses the epoch. An AUROC of a dozen
slides takes few values and ignores how sure a model is; the loss uses every prediction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from ..cohort.cohort import Cohort
from ..cohort.splits import Fold, make_folds
from ..errors import SplitError
from ..statistics.paired import corrected_error
from .choice import Choice
from .seeds import inner_seed


class Inner(NamedTuple):
    """One training of a candidate within the training patients of a fold."""

    candidate: str
    repeat: int
    number: int  # of the inner fold

    def draws(self, seed: int, fold: int) -> tuple[int, int]:
        """The seed and the number that its randomness comes from: the same for all candidates."""
        return inner_seed(seed, fold, self.repeat), self.number


def inner_folds(
    cohort: Cohort, split: Fold, choice: Choice, seed: int, fold: int, *, by_site: bool = False
) -> dict[tuple[int, int], Fold]:
    """(repeat, number) -> a split of the fold's training patients; its test slides are not in any of them.

    Validation slides that were given stay so: the trainings stop by them, and no candidate is scored on them.
    """
    rows = cohort.rows_of(split.train)
    patients, labels = list(map(str, cohort.patients[rows])), [cohort.stratum_names[row] for row in rows]
    sites = [str(cohort.sites[row]) for row in rows] if by_site else None
    found = {}
    for repeat in range(choice.repeats):
        own = inner_seed(seed, fold, repeat)
        try:
            parts = make_folds(
                list(split.train), patients, labels, folds=choice.folds, seed=own, sites=sites,
                allow_similar=True,  # the cohort and its folds refused them, or the user allowed them
            )  # fmt: skip
        except SplitError as error:
            raise SplitError(f"{error} (Inner folds of the training patients of fold {fold}: choose_folds.)") from error
        for number, part in enumerate(parts):
            found[repeat, number] = Fold(train=part.train, test=part.test, val=split.val)
    return found


class Judged(NamedTuple):
    """A candidate. loss: mean over inner folds. gain: the default's mean loss minus its own. error: standard error."""

    candidate: str
    loss: float
    gain: float
    error: float


@dataclass(frozen=True)
class Decision:
    """What was chosen, and from what; the default is the first that was judged."""

    chosen: str
    judged: tuple[Judged, ...]

    @property
    def default(self) -> str:
        return self.judged[0].candidate

    @property
    def words(self) -> str:
        """What was chosen, and what it gained within the training patients."""
        best = next(each for each in self.judged if each.candidate == self.chosen)
        if self.chosen == self.default:
            return f"{self.chosen}, the default; no other candidate gained more than its standard error"
        return f"{self.chosen}; its loss is lower by {best.gain:.3f} ± {best.error:.3f} than that of {self.default}"

    def record(self) -> dict[str, Any]:
        """As a job and a model write it down."""
        return {**asdict(self), "judged": [each._asdict() for each in self.judged]}


def decide(losses: Mapping[str, Sequence[float]], folds: int) -> Decision:
    """The rule above. losses: candidate -> its loss in each inner fold, in the same order for all; the default first.

    folds: of each repeat, so that one inner fold is tested for every `folds - 1` that are trained on.
    """
    default = np.array(next(iter(losses.values())), dtype=float)
    judged = []
    for name, own in losses.items():
        gains = default - np.array(own, dtype=float)
        error = corrected_error(gains, folds - 1, 1)
        judged.append(Judged(name, float(np.mean(own)), float(gains.mean()), error))
    better = [each for each in judged[1:] if each.gain > each.error]
    best = max(better, key=lambda each: each.gain) if better else judged[0]  # the first of equals
    return Decision(best.candidate, tuple(judged))
