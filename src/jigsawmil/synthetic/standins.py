"""Stand-ins: phantoms with the numbers of a cohort that is not available, so that its study can run all the same.

They have the slides, patch counts, dimension, class names and class balance of the real cohort, and none of its tissue:
what a method reaches on them says nothing about the real one.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from ..config import choose, require
from ..errors import ConfigError, StudyError
from ..files import new_folder
from .phantom import PhantomSlide, phantom_slides, write_phantom
from .phantom_options import SMALLEST, PhantomSpec, phantom_spec

SPREAD = 1.0  # standard deviation of the logarithm of a slide's number of patches, before it is clipped
COUNTS_STREAM = 3  # of the seed; the phantom itself draws from 0, 1 and 2


@dataclass(frozen=True)
class PatchCounts:
    """Patches per slide: the smallest, the mean and the largest of a cohort."""

    fewest: int
    mean: float
    most: int


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """The numbers of a cohort, and the kind of phantom that has them.

    n: slides. classes: names in the order of the phantom's. balance: share of the patients in the last of two classes,
    or the share of each of more, which only `arrangement` has. The rest are knobs of `PhantomSpec`. The same seed
    with another dim is another encoder's view of the same slides.
    """

    n: int
    patches: PatchCounts
    dim: int
    classes: tuple[str, ...]
    balance: float | tuple[float, ...]
    kind: str = "arrangement"
    seed: int = 0
    noise: float = 1.0
    slide_effect: float = 0.3
    two_slides: float = 0.0
    clump: float = 14.0
    nest: int = 30

    def __post_init__(self) -> None:
        require("n", self.n, type(self.n) is int and self.n >= 2, "a whole number of at least 2")
        require("seed", self.seed, type(self.seed) is int and self.seed >= 0, "a whole number of at least 0")
        require("classes", self.classes, isinstance(self.classes, tuple), "a list of names")
        wanted = len(self.spec().classes)  # the phantom refuses its own knobs
        names = {name for name in self.classes if isinstance(name, str) and name}
        fine = len(names) == len(self.classes) == wanted
        require("classes", list(self.classes), fine, f"{wanted} different names, as many as balance has classes")

    def spec(self) -> PhantomSpec:
        own = {key: value for key, value in asdict(self).items() if key not in ("n", "patches", "classes", "kind")}
        counts = patch_counts(self.n, self.patches, np.random.default_rng((self.seed, COUNTS_STREAM)))
        return phantom_spec(self.kind, slides=self.n, counts=counts, **own)

    def slides(self) -> Iterator[PhantomSlide]:
        """The phantom's slides one by one, under the names of the cohort's classes."""
        spec = self.spec()
        name = dict(zip(spec.classes, self.classes, strict=True))
        return (replace(slide, label=name[slide.label]) for slide in phantom_slides(spec))


def read_standin(table: Any, where: str) -> StandIn:
    """A stand-in from a table of a study file; an unknown or impossible key is an error that names it."""
    values = _fields_of(StandIn, table, where)
    patches = PatchCounts(**_fields_of(PatchCounts, values["patches"], f"{where}: patches"))
    listed = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    try:
        return StandIn(**{**values, **listed, "patches": patches})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def patch_counts(n: int, wanted: PatchCounts, rng: np.random.Generator) -> tuple[int, ...]:
    """A clipped log-normal's numbers for n slides in random order: the extremes are there, and the mean is met.

    They are its quantiles, not draws from it: a hundred draws would miss the mean by a tenth.
    """
    low, mean, high = wanted.fewest, wanted.mean, wanted.most
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (low, mean, high))
    ordered = numbers and isinstance(low, int) and isinstance(high, int) and SMALLEST <= low <= mean <= high
    require("patches", asdict(wanted), ordered, f"numbers with {SMALLEST} <= fewest <= mean <= most")
    bounds = (low * (n - 1) + high) / n, (high * (n - 1) + low) / n
    reach = f"a mean from {bounds[0]:g} to {bounds[1]:g}, given these extremes and n = {n}"
    require("patches", asdict(wanted), bounds[0] <= mean <= bounds[1], reach)
    quantiles = SPREAD * norm.ppf((np.arange(n) + 0.5) / n)

    def counts(log_median: float) -> np.ndarray:
        inner = np.exp(log_median + quantiles)
        inner[0], inner[-1] = low, high
        return np.clip(inner, low, high)

    left, right = np.log(low) - quantiles[-1], np.log(high) - quantiles[0]  # all at one extreme, all at the other
    for _ in range(60):
        middle = (left + right) / 2
        left, right = (middle, right) if counts(middle).mean() < mean else (left, middle)
    return tuple(int(count) for count in rng.permutation(np.rint(counts(right))))


def write_standin(
    standin: StandIn,
    folder: Path,
    follow: Callable[[Iterator[PhantomSlide]], Iterable[PhantomSlide]] = lambda slides: slides,
) -> bool:
    """Write `folder/labels.csv` and `folder/features` once; False where they are there already.

    A folder of another stand-in is refused. `follow` may watch the slides as they are drawn.
    """
    about = json.loads(json.dumps(asdict(standin)))
    card = folder / "standin.json"
    if folder.exists() and any(folder.iterdir()):
        try:
            same = json.loads(card.read_text(encoding="utf-8")) == about
        except (OSError, ValueError):
            same = False
        if not same:
            raise StudyError(
                f"{folder} holds another stand-in than the study asks for. Give another --out, or remove it."
            )
        return False
    try:
        with new_folder(folder) as partial:
            write_phantom(follow(standin.slides()), partial, half=True)
            (partial / card.name).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{folder}: cannot be written ({error.strerror}). Choose another --out.") from error
    return True


def _fields_of(kind: type, table: Any, where: str) -> dict[str, Any]:
    """The table: every key is a field of the dataclass, and no field without a default is missing."""
    needed = [field.name for field in fields(kind) if field.default is MISSING]
    require(where, table, isinstance(table, dict), f"a table with {', '.join(needed)}")
    for key in table:
        choose(f"{where}: key", key, [field.name for field in fields(kind)])
    missing = [name for name in needed if name not in table]
    require(where, sorted(table), not missing, f"also {', '.join(missing)}")
    return dict(table)
