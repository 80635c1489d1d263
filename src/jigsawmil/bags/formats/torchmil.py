"""torchmil: folders `features/`, `coords/`, `labels/` with one `<bag>.npy` (or `.h5`) each; or one h5 with those names.

torchmil asks for no unit, and its own datasets hold pixels as well as cells of a grid: whole numbers that lie as far
apart as patches do are taken as level-0 pixels, all else has to be stated.
"""

from pathlib import Path

from . import hdf5, siblings
from .arrays import stored_npy
from .opened import Opened
from .source import Options, Source, Stored

SUFFIXES = (".npy", *hdf5.SUFFIXES)
DATASETS = ("features",)
LABELS = {"labels", "inst_labels", "patch_labels"}


def matches(file: Opened) -> bool:
    if file.path.suffix == ".npy":
        return True
    if "features" not in file.arrays:
        return False
    return _coords_file(file.path) is not None if "coords" not in file.arrays else bool(LABELS & file.arrays.keys())


def scan(file: Opened, options: Options) -> Source:
    path, slide_id = file.path, file.slide_id
    features = stored_npy(path) if path.suffix == ".npy" else file.array("features")
    if "coords" in file.arrays:
        coords: Stored | None = file.own_coords(options)
    else:
        where = _coords_file(path) if options.coords is None else siblings.named_by_caller(options.coords, slide_id)
        coords = None if where is None else siblings.stored_coords(where)
    return Source(path=path, slide_id=slide_id, features=features, coords=coords, guess_unit=True)


def _coords_file(path: Path) -> Path | None:
    """In `coords/` beside `features/`, which may hold a folder for each encoder."""
    return siblings.first_existing(folder / "coords" / path.name for folder in path.parents[1:3])
