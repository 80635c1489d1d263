"""Coordinates and patch attributes that lie in another file than the features."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ...errors import FeatureError
from . import arrays, hdf5
from .source import Stored

NAMES = ("{}.h5", "{}_patches.h5", "{}.npy", "{}.npz", "{}.index.npz", "{}.index.npy")


def first_existing(candidates: Iterable[Path]) -> Path | None:
    return next((path for path in candidates if path.is_file()), None)


def named_by_caller(where: Path, slide_id: str) -> Path:
    """The file that `coords=` names: itself, or the slide's file in the folder that it names."""
    found = where if where.is_file() else first_existing(where / name.format(slide_id) for name in NAMES)
    if found is None:
        tried = ", ".join(name.format(slide_id) for name in NAMES)
        raise FeatureError(
            f"coords={where}: no coordinates of slide '{slide_id}' there; expected a file, or a folder with {tried}."
        )
    return found


def stored_coords(path: Path) -> Stored:
    """The coordinates in an h5 (`coords`), npy or npz file."""
    return replace(_stored(path), path=path)


def _stored(path: Path) -> Stored:
    if path.suffix == ".npy":
        return arrays.stored_npy(path)
    if path.suffix == ".npz":
        return arrays.stored_npz(path)
    found = hdf5.read_header(path).arrays
    if "coords" not in found:
        raise FeatureError(f"{path.name}: datasets {sorted(found) or 'none'}, expected 'coords'.")
    return found["coords"]


def missing(path: Path, looked_for: str) -> FeatureError:
    return FeatureError(
        f"{path.name}: features without coordinates; looked for {looked_for}. "
        "Name the file or folder that holds them with coords=."
    )
