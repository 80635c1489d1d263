"""Every feature file under a folder, by slide id."""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from ...errors import FeatureError
from ...files import no_folder
from . import hdf5
from .guard import reading
from .registry import feature_datasets, feature_suffixes
from .torchmil import LABELS
from .trident import WHOLE_SLIDES

NOT_FEATURES = {"coords", "imgs", *LABELS}  # what an h5 may hold that is no bag: patches cut but not encoded, labels


def find_bags(folder: str | Path, *, features_key: str | None = None) -> dict[str, Path]:
    """Slide id -> feature file, for any of the known layouts; ids are file names without their ending.

    CLAM's `pt_files/x.pt` and `h5_files/x.h5` are one slide, read from the h5. TRIDENT's `slide_features_*` count only
    in a folder without features of patches. Any other two files for one id are an error, for which of them is meant
    cannot be known. Damaged files are listed: `peek_bag` tells what is wrong.
    features_key: what HDF5 files call their features.

    Example: `find_bags("features/")["slide_1"]  # Path of its file`
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FeatureError(f"{no_folder(folder)}. Give the folder that holds the feature files.")
    found: dict[str, list[Path]] = {}
    with reading(folder):
        for path in _candidates(folder, features_key):
            found.setdefault(path.stem, []).append(path)
    if not all(map(_of_whole_slide, chain.from_iterable(found.values()))):
        found = {
            slide: kept for slide, paths in found.items() if (kept := [p for p in paths if not _of_whole_slide(p)])
        }
    if not found:
        raise FeatureError(
            f"{folder}: no feature files in it. Expected {', '.join(feature_suffixes())}: "
            "extract features first, or correct the path."
        )
    bags = {slide: _one(paths) for slide, paths in sorted(found.items())}
    twice = {slide: paths for slide, paths in found.items() if bags[slide] is None}
    if twice:
        lines = [f"{slide}: {', '.join(str(p.relative_to(folder)) for p in paths)}" for slide, paths in twice.items()]
        more = f"\n  and {len(lines) - 10} more" if len(lines) > 10 else ""
        raise FeatureError(
            f"{folder}: {len(twice)} slide ids have more than one feature file. Give the folder of one encoder, "
            "or rename files.\n  " + "\n  ".join(lines[:10]) + more
        )
    return {slide: path for slide, path in bags.items() if path is not None}


def _of_whole_slide(path: Path) -> bool:
    return path.parent.name.startswith(WHOLE_SLIDES)


def _one(paths: list[Path]) -> Path | None:
    """The slide's file, or None if there are two."""
    if len(paths) == 2:
        h5, pt = sorted(paths, key=lambda path: path.suffix)
        if pt.parent.name == "pt_files" and h5 == pt.parent.parent / "h5_files" / f"{pt.stem}.h5":
            return h5
    return paths[0] if len(paths) == 1 else None


def _candidates(folder: Path, key: str | None) -> Iterator[Path]:
    stores = feature_suffixes(folders=True)
    for place, folders, files in os.walk(folder, onerror=_raise):
        here = Path(place)
        yield from (here / name for name in sorted(folders) if name.endswith(stores))
        # A store is one slide: nothing inside it is another.
        folders[:] = sorted(name for name in folders if not name.endswith(stores) and not name.startswith("."))
        paths = [here / name for name in sorted(files) if not name.startswith(".")]
        hdf5.look_ahead([path for path in paths if path.suffix in hdf5.SUFFIXES])
        yield from (path for path in paths if _is_bag(path, folder, key))


def _raise(error: OSError) -> None:
    """A folder that may not be read is no empty one."""
    raise error


def _is_bag(path: Path, folder: Path, key: str | None) -> bool:
    if path.suffix in (".npy", ".npz"):
        return Path(path.stem).suffix != ".index" and NOT_FEATURES.isdisjoint(path.relative_to(folder).parts)
    if path.suffix in hdf5.SUFFIXES:
        try:
            names = hdf5.keys(path)
        except FeatureError:
            return True
        return bool((feature_datasets() | {key}) & names) or not NOT_FEATURES & names
    return path.suffix in feature_suffixes(folders=False)
