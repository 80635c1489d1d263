"""Phantom cohorts: artificial slides whose label hangs on one known thing.

| kind          | the label says                                          | who can know it               |
| ------------- | ------------------------------------------------------- | ----------------------------- |
| `composition` | how much tumour there is                                | any MIL                       |
| `arrangement` | whether types A and B are finely mixed or lie in clumps | models that see neighbours    |
| `position`    | which of the nests A and B lies high in layered tissue  | models that see wider context |

**Why no exchangeable model can beat chance on `arrangement` and `position`.** For every slide these are drawn without
a look at the label Y: the number of patches, the outline, the lattice offset, the order in the file, the places of all
other types, the number of A and of B and the places that they share, one feature vector for each patch, the slide
effect. Y then only chooses between two ways of laying the A and B vectors out on those places. So the multiset M of
features (and the coordinates, in the order of the file) is a function of random numbers that are independent of Y:
P(Y | M) = P(Y). A model that ignores which vector lies where sees M alone; its output is independent of Y and its
expected AUROC is 1/2. Noise has no spatial correlation for the same reason: the layout would leave a trace in M.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags.bag import Bag
from ..bags.formats.trident import amend, write_bag
from ..errors import ConfigError
from ..files import new_folder
from .phantom_options import TYPES, PhantomSpec, phantom_spec
from .phantom_slide import PATCH_LEVEL0, PhantomSlide, draw_outcomes, draw_patients, draw_slide, draw_world
from .planted import TRUTH


@dataclass(frozen=True)
class Phantom:
    """A phantom cohort in memory, with its truth."""

    spec: PhantomSpec
    slides: tuple[PhantomSlide, ...]

    def __iter__(self) -> Iterator[PhantomSlide]:
        return iter(self.slides)

    @property
    def bags(self) -> list[Bag]:
        return [slide.bag for slide in self.slides]

    @property
    def labels(self) -> list[str]:
        return [slide.label for slide in self.slides]

    @property
    def patients(self) -> list[str]:
        return [slide.patient for slide in self.slides]

    @property
    def types(self) -> list[NDArray[np.int64]]:
        """Planted type of each patch of each slide: an index into `TYPES[kind]`."""
        return [slide.types for slide in self.slides]

    @property
    def plant(self) -> list[NDArray[np.int64]]:
        """1 for patches of a type that carries the label (tumour; A and B), 0 for the rest."""
        return [slide.plant for slide in self.slides]


def make_phantom(kind: str, **knobs: Any) -> Phantom:
    """A phantom cohort in memory; the options are those of `PhantomSpec`.

    Example: `make_phantom("arrangement", slides=100, seed=0).bags`
    """
    spec = phantom_spec(kind, **knobs)
    return Phantom(spec, tuple(phantom_slides(spec)))


def phantom_slides(spec: PhantomSpec) -> Iterator[PhantomSlide]:
    """The same slides one by one, for cohorts larger than memory.

    Example: `write_phantom(phantom_slides(phantom_spec("position", patches=20_000)), "large")`
    """
    # One stream each: labels come from their own, so nothing else can depend on them.
    world = draw_world(np.random.default_rng((spec.space, 0)), spec)
    patient, label = draw_patients(np.random.default_rng((spec.seed, 1)), spec)
    outcomes = draw_outcomes(np.random.default_rng((spec.seed, 3)), spec, patient, label)
    for i, outcome in enumerate(outcomes):
        rng = np.random.default_rng((spec.seed, 2, i))
        yield draw_slide(rng, spec, world, i, int(patient[i]), int(label[i]), outcome)


def write_phantom(slides: Iterable[PhantomSlide], out: str | Path, *, half: bool = False) -> Path:
    """Write a `Phantom`, or `phantom_slides(spec)`, as TRIDENT files `out/features/<slide>.h5` and `out/labels.csv`.

    The truth lies beside the features as `phantom_type` and `phantom_plant`. The folder appears whole or not at all.
    half: features in float16, as many encoders leave them: half the disk, three digits.

    Example: `write_phantom(make_phantom("arrangement"), "cohort")`
    """
    out = Path(out).resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        found = "a folder that is not empty" if out.is_dir() else "a file"
        raise ConfigError(f"{out}: {found}; a phantom needs a new or empty folder. Choose another one, or empty it.")
    try:
        with new_folder(out) as partial, open(partial / "labels.csv", "w", newline="", encoding="utf-8") as file:
            (partial / "features").mkdir()
            table = csv.writer(file, lineterminator="\n")
            for index, slide in enumerate(slides):
                if index == 0:
                    table.writerow(["slide_id", "patient_id", "label", *slide.outcome])
                _write_slide(slide, partial / "features" / f"{slide.bag.slide_id}.h5", half)
                table.writerow([slide.bag.slide_id, slide.patient, slide.label, *slide.outcome.values()])
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written ({error}). Choose a folder that is writable.") from error
    return out


def _write_slide(slide: PhantomSlide, path: Path, half: bool) -> None:
    write_bag(replace(slide.bag, features=slide.bag.features.half()) if half else slide.bag, path)
    width, height = (slide.bag.coords.max(dim=0).values + PATCH_LEVEL0).long().tolist()
    geometry = {  # what TRIDENT knows and a bag does not
        "patch_size": PATCH_LEVEL0 // 2,
        "level0_magnification": 40,
        "target_magnification": 20,
        "overlap": 0,
        "level0_width": width,
        "level0_height": height,
    }
    names = {"names": ",".join(TYPES[slide.kind])}
    truth = {TRUTH: (slide.types.astype(np.uint8), names), "phantom_plant": (slide.plant.astype(np.uint8), {})}
    amend(path, geometry, truth)
