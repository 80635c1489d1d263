"""Arrays under names of one's own: HDF5, `.npz`, or a dictionary in a `.pt`, one file for each slide.

Without `features_key` and `coords_key` the usual names are looked for. Coordinates are top-left corners; nothing here
says in which unit, so that has to be stated (`unit`), as has the patch edge. A file without coordinates is read as
features whose places are unknown.
"""

from collections.abc import Mapping

from ...errors import FeatureError
from . import hdf5, siblings
from .arrays import stored_items
from .opened import Opened, coords_twice
from .source import Options, Source, Stored

SUFFIXES, KEYED = (*hdf5.SUFFIXES, ".npz", ".pt"), True
DATASETS = ("embeddings", "embedding")  # beside those of other formats
FEATURES = ("features", "feats", *DATASETS)
COORDS = ("coords", "coordinates", "positions", "locations")


def matches(file: Opened) -> bool:
    if file.path.suffix == ".pt":
        return bool(stored_items(file.path))
    return bool(file.arrays) or file.path.suffix == ".npz"


def scan(file: Opened, options: Options) -> Source:
    arrays = file.arrays or stored_items(file.path)
    features = chosen(file, arrays, "features_key", options.features_key, FEATURES)
    if features is None:
        raise FeatureError(
            f"{file.path.name}: arrays {sorted(arrays) or 'none'}, expected features called "
            f"{' or '.join(map(repr, FEATURES))}. "
            "Name them: --features-key (features_key= in Python)."
        )
    coords = chosen(file, arrays, "coords_key", options.coords_key, COORDS)
    if options.coords is not None:
        if coords is not None:
            raise coords_twice(file.path, options.coords)
        coords = siblings.stored_coords(siblings.named_by_caller(options.coords, file.slide_id))
    if coords is None:
        _refuse_unnamed_coords(file, arrays, features)
    return Source(path=file.path, slide_id=file.slide_id, features=features, coords=coords)


def _refuse_unnamed_coords(file: Opened, arrays: Mapping[str, Stored], features: Stored) -> None:
    """Two columns of numbers beside the features are hardly anything else; without them nothing has a place."""
    n = features.shape[-2] if len(features.shape) > 1 else 1
    if like := [key for key, array in arrays.items() if array is not features and array.shape[-2:] == (n, 2)]:
        raise FeatureError(
            f"{file.path.name}: no coordinates are named, and {' or '.join(map(repr, like))} may be them. Name them: "
            "--coords-key (coords_key= in Python)."
        )


def chosen(
    file: Opened, arrays: Mapping[str, Stored], option: str, name: str | None, usual: tuple[str, ...]
) -> Stored | None:
    """The array that the caller names, or the one that has a usual name; None if there is no such."""
    if name is not None and name not in arrays:
        raise FeatureError(
            f"{file.path.name}: arrays {sorted(arrays) or 'none'}, and {option}={name!r}. Name one of them, or leave "
            f"{option} (--{option.replace('_', '-')}) out."
        )
    found = [key for key in usual if key in arrays] if name is None else [name]
    if len(found) > 1:
        raise FeatureError(
            f"{file.path.name}: {' and '.join(found)} may each be meant. Name one: --{option.replace('_', '-')} "
            f"({option}= in Python)."
        )
    return arrays[found[0]] if found else None
