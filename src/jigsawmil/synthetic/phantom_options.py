"""The knobs of a phantom cohort, and the names of what is planted."""

from dataclasses import dataclass, fields
from math import ceil
from numbers import Integral, Real
from typing import Any

from ..config import choose
from ..errors import ConfigError

ENCODER = "phantom"  # of artificial features, followed by the seed of their space
LATENT = 16  # dimension of the subspace in which types, and most of the noise, differ
SMALLEST = 10  # patches

CLASSES = {  # the negative and the positive class, sorted
    "composition": ("normal", "tumour"),
    "arrangement": ("mixed", "segregated"),
    "position": ("a-high", "b-high"),
}
TYPES = {  # names of the planted types, by number
    "composition": ("tumour", "stroma", "lymphocytes", "fat", "necrosis"),
    "arrangement": ("A", "B", "stroma", "lymphocytes", "fat"),
    "position": ("A", "B", "layer 1", "layer 2", "layer 3", "layer 4"),
}
OUTCOMES = ("classes", "survival", "regression", "multilabel")  # what the label table holds
PLANTED = {"composition": 1, "arrangement": 2, "position": 2}  # the first so many types carry the label

LIMITS = {
    "slides": (2, 9999),  # ids have four digits
    "seed": (0, 2**63 - 1),
    "encoder_seed": (0, 2**63 - 1),
    "dim": (LATENT, 65_536),
    "patches": (SMALLEST, 1_000_000),
    "counts": (SMALLEST, 1_000_000),
    "spread": (0, 2),
    "noise": (0, 100),
    "slide_effect": (0, 100),
    "balance": (0, 1),
    "two_slides": (0, 1),
    "clump": (1, 1000),
    "nest": (1, 100_000),
    "effect": (0, 20),
}


@dataclass(frozen=True, kw_only=True)
class PhantomSpec:
    """All options of a phantom cohort; equal specs give equal bytes.

    kind: `composition`, `arrangement` or `position`.
    slides: slides in the cohort.
    seed: slide i depends on the seed, on i and on its label, not on the number of slides.
    encoder_seed: draws the feature space, as an encoder does; by default the seed. Give that of a first cohort to draw
        a second one that a model of the first can be applied to; its ids begin with its own seed.
    dim: dimension of the features, from 16 on.
    patches, spread: the number of patches of a slide is log-normal with the median `patches` and the standard
        deviation `spread` of its logarithm (0: all slides alike), never below 10.
    counts: the number of patches of every slide, one by one, in place of patches and spread.
    noise: standard deviation of a patch around the prototype of its type; any two prototypes are 4.5 apart.
    slide_effect: standard deviation of a shift common to all patches of a slide, in the unit of `noise`; moreover each
        dimension of a slide is scaled by about 1 +- slide_effect / 10.
    balance: share of patients in the second class (`tumour`, `segregated`, `b-high`). `arrangement` also takes the
        shares of three or more grades, which sum to 1: `0` is mixed, the last is segregated, the others lie between.
    two_slides: share of patients with two slides, of the same label.
    clump: typical diameter of clumps and compartments in patches; 50 nearest neighbours span 8 patches.
    nest: patches in each nest of `position`, at most a twelfth of the slide. 30 is 0.6 k at k = 50: the immediate
        neighbours of a core patch are the nest itself, its 50 nearest reach into the layers around the nest.
    task: `survival` and `regression` add the columns `time` and `event`, or `value`, to the label table; `multilabel`
        the targets `planted` (no, yes) and `chance` (none, some, all), a tenth of each missing. The outcome of a
        patient hangs on the class, except `chance`, which nothing tells. The slides stay the same, bit for bit.
    effect: what the last class has over the first: the log of the hazard ratio, a difference of means in standard
        deviations, or half the log of the odds ratio of `planted`. 0: the slides say nothing about the outcome.
    """

    kind: str
    slides: int = 100
    seed: int = 0
    encoder_seed: int | None = None
    dim: int = 256
    patches: int = 500
    spread: float = 0.3
    counts: tuple[int, ...] = ()
    noise: float = 1.0
    slide_effect: float = 0.3
    balance: float | tuple[float, ...] = 0.5
    two_slides: float = 0.1
    clump: float = 14.0
    nest: int = 30
    task: str = OUTCOMES[0]
    effect: float = 3.0

    def __post_init__(self) -> None:
        choose("phantom kind", self.kind, CLASSES)
        choose("phantom task", self.task, OUTCOMES)
        for field in (field for field in fields(self) if field.name in LIMITS):
            values = getattr(self, field.name)
            if values is not None:
                for value in values if isinstance(values, tuple) else (values,):
                    _check_number(field.name, value, whole=field.type in (int, int | None, tuple[int, ...]))
        if self.counts and len(self.counts) != self.slides:
            raise ConfigError(
                f"phantom counts has {len(self.counts)} numbers for {self.slides} slides. Give one per slide."
            )
        self._check_shares()

    def _check_shares(self) -> None:
        if isinstance(self.balance, tuple) and (self.kind != "arrangement" or len(self.balance) < 3):
            raise ConfigError(
                f"phantom balance={list(self.balance)} for {self.kind}; shares of three or more grades are for "
                "arrangement. Else give one number: the share of the second class."
            )
        if abs(sum(self.shares) - 1) > 1e-3:
            raise ConfigError(f"phantom balance={list(self.shares)} sums to {sum(self.shares):g}; expected 1.")
        if min(self.class_sizes) < 1:
            raise ConfigError(
                f"phantom balance={self.balance} leaves a class without any of the {self.patients} patients; expected "
                "at least one in each. Even the shares out, or raise slides."
            )

    @property
    def space(self) -> int:
        """The seed of the feature space."""
        return self.seed if self.encoder_seed is None else self.encoder_seed

    @property
    def encoder(self) -> str:
        """What the feature files name as their encoder: features of another space mean other things."""
        return f"{ENCODER}-{self.space}"

    @property
    def prefix(self) -> str:
        """How ids of slides and patients begin: cohorts of one feature space share none."""
        return "" if self.space == self.seed else f"{self.seed}-"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in their order; grades are numbers."""
        return tuple(map(str, range(len(self.shares)))) if len(self.shares) > 2 else CLASSES[self.kind]

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the patients in each class."""
        return self.balance if isinstance(self.balance, tuple) else (1 - self.balance, self.balance)

    @property
    def class_sizes(self) -> tuple[int, ...]:
        """Patients of each class; rounding is from the last class on."""
        ends = [round(self.patients * sum(self.shares[k:])) for k in range(1, len(self.shares))]
        return tuple(a - b for a, b in zip([self.patients, *ends], [*ends, 0], strict=True))

    @property
    def patients(self) -> int:
        """Number of patients, at least one for each class; slides - patients of them have two slides."""
        return max(2, ceil(self.slides / (1 + self.two_slides)))


def phantom_spec(kind: str, **knobs: Any) -> PhantomSpec:
    """A `PhantomSpec`; a misspelt option is an error that names the nearest one.

    Example: `phantom_spec("position", slides=50, dim=512)`
    """
    known = [field.name for field in fields(PhantomSpec)[1:]]
    for key in knobs:
        choose("phantom setting", key, known)
    return PhantomSpec(kind=kind, **knobs)


def is_phantom(encoder: str | None) -> bool:
    """Whether features are artificial; files of earlier versions name no seed."""
    return encoder is not None and (encoder == ENCODER or encoder.startswith(f"{ENCODER}-"))


def _check_number(key: str, value: object, *, whole: bool) -> None:
    low, high = LIMITS[key]
    number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not number or not low <= value <= high:  # type: ignore[operator]
        noun = "a whole number" if whole else "a number"
        raise ConfigError(f"phantom {key}={value!r} is impossible; expected {noun} from {low} to {high}.")
