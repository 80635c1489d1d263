"""Settings chosen inside the training patients: what may be chosen, how candidates are scored, and the rule.

The rule. Every candidate is trained and scored on the same inner folds of the training patients. Its gain in an inner
fold is the loss of the default minus its own, its gain is the mean over all inner folds, and the standard error of that
mean is Nadeau and Bengio's, which allows for training parts that overlap. The candidate with the largest gain is chosen
among those whose gain exceeds its own standard error; if there is none, the default is kept.

The score is the validation loss of the task (log loss of classes), which also chooses the epoch. An AUROC of a dozen
slides takes few values and ignores how sure a model is; the loss uses every prediction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..cohort.cohort import Cohort
from ..cohort.splits import Fold, make_folds
from ..config import choose, require, settings_of
from ..errors import ConfigError, SplitError
from ..graph_config import GraphConfig
from ..nn.options import METHODS, check_method
from ..statistics.paired import corrected_error
from .config import LambdaConfig
from .seeds import inner_seed
from .settings import Settings

MOST = 24  # candidates
NEVER = ("level", "members", "device")  # a study has one level; single models choose; a device changes no result
OF_GRAPHS = {setting.name for setting in settings_of(GraphConfig)} | {"conv", "heads", "kinds", "edge_dropout"}
OF_JIGSAWS = {setting.name.rstrip("_") for setting in settings_of(LambdaConfig)} | {
    *("jigsaw", "grid", "bins", "share", "jigsaw_head", "imposters", "imposter_loss")
}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is chosen inside the training patients of a fold. options: values of each setting, by its flat name; the
    candidates are all combinations, and the default. folds, repeats: of the inner cross-validation. most: candidates.

    Example: `Choice(options={"k": [8, 24, 50], "conv": ["gat", "sage"]})`
    """

    options: Mapping[str, Sequence[Any]]
    folds: int = 3
    repeats: int = 2
    most: int = MOST

    def __post_init__(self) -> None:
        known = [s.name.rstrip("_") for s in settings_of(Settings) if s.name not in NEVER]
        plain = {("lambda" if name == "lambda_" else name): values for name, values in self.options.items()}
        require("choose", dict(plain), len(plain) > 0, "at least one setting, such as k = [8, 24, 50]")
        for name, values in plain.items():
            choose("choose: setting", name, known)
            distinct = isinstance(values, list | tuple) and len(set(values)) == len(values) > 0
            require(f"choose: {name}", values, distinct, "a list of distinct values, such as [8, 24, 50]")
        require("choose_folds", self.folds, self.folds >= 2, "a whole number of at least 2")
        require("choose_repeats", self.repeats, self.repeats >= 1, "a whole number of at least 1")
        require("choose_most", self.most, self.most >= 2, "a whole number of at least 2")
        object.__setattr__(self, "options", {name: tuple(values) for name, values in plain.items()})

    @property
    def trainings(self) -> int:
        """Of one candidate in one fold."""
        return self.folds * self.repeats

    def candidates(self, settings: Settings) -> dict[str, Settings]:
        """Name -> settings, the default first. A setting that the method does not use makes no candidate of its own."""
        found = {_name(settings, self.options): settings}
        if not _alike(settings):  # members that differ by design have nothing to choose
            return found
        for values in product(*self.options.values()):
            given = dict(zip(self.options, values, strict=True))
            method = given.get("method", settings.method)
            check_method(method, "choose: method")
            used = {name: value for name, value in given.items() if _matters(name, method)}
            try:
                candidate = Settings.from_flat({**_plain(settings.flat()), **used}, "choose")
            except ConfigError as error:
                raise ConfigError(f"{error} Leave that value out of choose.") from error
            require("choose: method", method, _alike(candidate), "a method whose members do not differ by design")
            if candidate != settings:
                found.setdefault(_name(candidate, self.options), candidate)
        require(
            "choose",
            f"{len(found)} candidates",
            len(found) <= self.most,
            f"at most {self.most}: each is trained {self.trainings} times in every fold. Offer fewer values, or raise "
            "choose_most",
        )
        return found


def _matters(name: str, method: str) -> bool:
    """Whether a setting can change what a method learns."""
    if name in OF_GRAPHS:
        return METHODS[method].graph
    return METHODS[method].jigsaw or name not in OF_JIGSAWS


def _name(settings: Settings, options: Mapping[str, Any]) -> str:
    """`k=8, conv=sage`: the values of what is chosen, as far as the method uses it. Also the name of a folder."""
    flat = _plain(settings.flat())
    shown = {name: flat[name] for name in options if _matters(name, settings.method)}
    return ", ".join(f"{name}={_text(value)}" for name, value in shown.items()) or settings.method


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _plain(flat: Mapping[str, Any]) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in flat.items()}


def _alike(settings: Settings) -> bool:
    """Whether all members of an ensemble have the same settings."""
    return len({repr(own) for own in settings.each_member()}) == 1


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
    rows = [int(np.flatnonzero(cohort.slide_ids == slide)[0]) for slide in split.train]
    patients, labels = list(map(str, cohort.patients[rows])), [cohort.stratum_names[row] for row in rows]
    sites = [str(cohort.sites[row]) for row in rows] if by_site else None
    found = {}
    for repeat in range(choice.repeats):
        own = inner_seed(seed, fold, repeat)
        try:
            parts = make_folds(list(split.train), patients, labels, folds=choice.folds, seed=own, sites=sites)
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
            return f"{self.chosen}, the default; no other gained more than its standard error"
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
