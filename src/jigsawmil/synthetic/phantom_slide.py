"""One phantom slide: types laid out on tissue, and a feature vector for every patch."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from ..bags.bag import Bag
from .phantom_options import LATENT, PLANTED, SMALLEST, TYPES, PhantomSpec
from .phantom_tissue import Cells, draw_outline, layers, mosaic, nest, rank, smooth_field

PATCH_LEVEL0 = 512  # 40x slides (0.25 microns per pixel) tiled at 20x with 256 pixels
MPP = 0.25
SEPARATION = 4.5  # distance of any two type prototypes, in standard deviations of the default patch noise
ISOTROPIC = 0.5  # noise in all dimensions, relative to noise in the subspace of the types

CHANCE, MISSING = ("none", "some", "all"), 0.1  # classes of the target `chance`; share of cells that are empty

Types = NDArray[np.int64]  # (patch,): index into TYPES[kind]
Floats = NDArray[np.float64]
Outcome = dict[str, float] | dict[str, str]  # columns of the label table


@dataclass(frozen=True, kw_only=True)
class PhantomSlide:
    """A slide with its truth: `types` (patch,), an index into TYPES[kind], and `plant` (patch,), 1 if the label
    depends on it.

    outcome: columns of the label table beside `label`, such as time and event.
    """

    kind: str
    bag: Bag
    patient: str
    label: str
    types: Types
    plant: Types
    outcome: Outcome


@dataclass(frozen=True)
class World:
    """What all slides of a cohort share."""

    prototypes: NDArray[np.float32]  # (type, LATENT), every two SEPARATION apart
    basis: NDArray[np.float32]  # (LATENT, dim)
    scale: float  # brings features to about unit variance, whatever the knobs

    def vary(self, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
        """(n, dim): deviations that lie mostly in the subspace of the types, so dim does not change the difficulty."""
        # einsum, not BLAS, whose last bits depend on the number of threads: the same seed gives the same bytes
        inside = np.einsum("nk,kd->nd", rng.standard_normal((n, LATENT), np.float32), self.basis)
        return inside + ISOTROPIC * rng.standard_normal(inside.shape, np.float32)


def draw_world(rng: np.random.Generator, spec: PhantomSpec) -> World:
    count = len(TYPES[spec.kind])
    directions = np.linalg.qr(rng.standard_normal((LATENT, LATENT)))[0][:count]  # orthonormal, so sqrt(2) apart
    prototypes = directions * SEPARATION / np.sqrt(2)
    basis = rng.standard_normal((LATENT, spec.dim)) / np.sqrt(LATENT)
    between = SEPARATION**2 / 2 * (1 - 1 / count) / LATENT  # variance of equally frequent prototypes
    variance = between + (spec.noise**2 + spec.slide_effect**2) * (1 + ISOTROPIC**2)
    return World(prototypes.astype(np.float32), basis.astype(np.float32), float(variance) ** -0.5)


def draw_patients(rng: np.random.Generator, spec: PhantomSpec) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Patient and class of each slide, (slide,) both; who has two slides is drawn apart from the class."""
    twice = rng.permutation(spec.patients)[: spec.slides - spec.patients]
    patient = np.sort(np.concatenate([np.arange(spec.patients), twice]))
    last_first = np.repeat(np.arange(len(spec.shares))[::-1], spec.class_sizes[::-1])
    return patient, last_first[rng.permutation(spec.patients)][patient]


def draw_outcomes(
    rng: np.random.Generator, spec: PhantomSpec, patient: NDArray[np.int64], label: NDArray[np.int64]
) -> list[Outcome]:
    """Of each slide, the same for all slides of a patient; the class takes part by its grade from -0.5 to 0.5.

    survival: exponential times in months, with a median of 24 in the middle; follow-up ends between 12 and 120 months.
    regression: a normal value around 50, with a standard deviation of 10 within a class.
    multilabel: `planted`, yes or no, with odds that the class decides, and `chance`, which nothing decides.
    """
    draws = rng.random((spec.patients, 2))[patient]  # in the order of patients: more of them change nothing
    shift = spec.effect * (label / (len(spec.classes) - 1) - 0.5)
    if spec.task == "regression":
        values = 50 + 10 * (shift + norm.ppf(draws[:, 0]))
        return [{"value": round(float(value), 2)} for value in values]
    if spec.task == "survival":
        failed, left = 24 * -np.log2(draws[:, 0]) * np.exp(-shift), 12 + 108 * draws[:, 1]
        times = np.ceil(np.minimum(failed, left) * 100) / 100
        return [{"time": float(t), "event": int(e)} for t, e in zip(times, failed <= left, strict=True)]
    if spec.task == "multilabel":
        return _targets(rng, spec, patient, shift, draws)
    return [{} for _ in patient]


def _targets(
    rng: np.random.Generator, spec: PhantomSpec, patient: NDArray[np.int64], shift: Floats, draws: Floats
) -> list[Outcome]:
    missing = rng.random((spec.patients, 2))[patient] < MISSING
    yes = draws[:, 0] < 1 / (1 + np.exp(-2 * shift))
    planted, chance = np.where(yes, "yes", "no"), np.array(CHANCE)[(draws[:, 1] * len(CHANCE)).astype(int)]
    return [
        {"planted": "" if gone[0] else str(one), "chance": "" if gone[1] else str(other)}
        for one, other, gone in zip(planted, chance, missing, strict=True)
    ]


def draw_slide(
    rng: np.random.Generator,
    spec: PhantomSpec,
    world: World,
    index: int,
    patient: int,
    label: int,
    outcome: Outcome,
) -> PhantomSlide:
    """The same random numbers are drawn in the same order for all classes: `label` only chooses the layout."""
    n = max(SMALLEST, round(spec.patches * np.exp(spec.spread * rng.standard_normal())))
    n = spec.counts[index] if spec.counts else n  # drawn all the same: nothing else changes
    cells = rng.permutation(draw_outline(rng, n))  # the order in the file says nothing about place
    corner = rng.integers(0, 20_000, 2)
    types = LAYOUTS[spec.kind](rng, cells, label / (len(spec.classes) - 1), spec)
    bag = Bag(
        slide_id=f"{spec.prefix}{index + 1:04d}",
        features=torch.from_numpy(_draw_features(rng, spec, world, types)),
        coords=torch.from_numpy((cells * PATCH_LEVEL0 + corner).astype(np.float64)),
        patch_size=float(PATCH_LEVEL0),
        mpp=MPP,
        encoder=spec.encoder,
    )
    return PhantomSlide(
        kind=spec.kind,
        bag=bag,
        patient=f"{spec.prefix}{patient + 1:04d}",
        label=spec.classes[label],
        types=types,
        plant=(types < PLANTED[spec.kind]).astype(np.int64),
        outcome=outcome,
    )


def _draw_features(rng: np.random.Generator, spec: PhantomSpec, world: World, types: Types) -> NDArray[np.float32]:
    """(patch, dim). Vectors are drawn type by type and then laid out: equal counts give one and the same multiset."""
    places = np.argsort(types, kind="stable")
    centres = np.einsum("tk,kd->td", world.prototypes, world.basis)
    vectors = centres[types[places]] + spec.noise * world.vary(rng, len(types))
    shift = spec.slide_effect * world.vary(rng, 1)
    gain = np.exp(0.1 * spec.slide_effect * rng.standard_normal(spec.dim, np.float32))
    features = np.empty(vectors.shape, np.float32)
    features[places] = world.scale * gain * (vectors + shift)
    return features


def _composition(rng: np.random.Generator, cells: Cells, grade: float, spec: PhantomSpec) -> Types:
    """Tumour in clumps: 2 to 10 % of the patches, or 25 to 50 %."""
    share = (rng.uniform(0.02, 0.10), rng.uniform(0.25, 0.50))[grade == 1]
    types = mosaic(rng, cells, range(1, 5), spec.clump)
    types[rank(smooth_field(rng, cells, spec.clump)) < max(1, round(share * len(cells)))] = 0
    return types


def _arrangement(rng: np.random.Generator, cells: Cells, grade: float, spec: PhantomSpec) -> Types:
    """A and B in equal numbers, together 70 to 90 %, on the same places: shuffled (grade 0), the halves of a smooth
    field (grade 1), or of a mixture of both."""
    half = round(rng.uniform(0.35, 0.45) * len(cells))
    types = mosaic(rng, cells, range(2, 5), spec.clump)
    places = np.flatnonzero(rank(smooth_field(rng, cells, spec.clump)) < 2 * half)
    mixed, clumps = rng.permutation(2 * half), smooth_field(rng, cells[places], spec.clump)
    types[places] = rank(grade * clumps + (1 - grade) * (mixed - half) / mixed.std()) >= half
    return types


def _position(rng: np.random.Generator, cells: Cells, grade: float, spec: PhantomSpec) -> Types:
    """Four layers from top to bottom, a nest high and a nest low, of equal size; the class says which of them is A."""
    depth, layer = layers(rng, cells, 4)
    size = max(1, min(spec.nest, len(cells) // 12))
    free = np.ones(len(cells), bool)
    high = nest(rng, cells, depth < 0.3, free, size)
    free[high] = False
    low = nest(rng, cells, depth > 0.7, free, size)
    types = 2 + layer
    types[high], types[low] = ((0, 1), (1, 0))[grade == 1]
    return types


LAYOUTS = {"composition": _composition, "arrangement": _arrangement, "position": _position}
