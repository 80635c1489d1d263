"""The planted truth of a phantom's slide, read back from its feature file."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..bags.formats.opened import open_path

TRUTH = "phantom_type"  # dataset of the feature file; its attribute `names` has the types, comma separated


@dataclass(frozen=True, eq=False)
class Planted:
    """The planted type of every patch of a slide, in the order of its file.

    types: (patch,) index into names. coords: (patch, 2), top-left corners.
    """

    types: NDArray[np.int64]
    names: tuple[str, ...]
    coords: NDArray[np.float64]


def read_planted(features: str | Path) -> Planted | None:
    """The planted types of a slide that `write_phantom` wrote; None for any other feature file.

    Example: `read_planted("cohort/features/0001.h5").types`
    """
    path = Path(features)
    arrays = open_path(path).arrays if path.is_file() else {}
    if TRUTH not in arrays:
        return None
    types, coords = (np.asarray(arrays[name].read()) for name in (TRUTH, "coords"))
    return Planted(types.astype(np.int64), tuple(arrays[TRUTH].attrs["names"].split(",")), coords.astype(np.float64))
