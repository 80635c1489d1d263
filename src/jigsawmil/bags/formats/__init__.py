"""Feature files of other tools, read into bags; a format is known to one file here and recognised from the files."""

from pathlib import Path

from ...config import choose
from ...errors import FeatureError
from ..bag import Bag, Unit
from .find import find_bags
from .guard import reading
from .opened import open_path
from .registry import FORMATS, Format, feature_suffixes, register_format
from .source import BagInfo, Options, Source, describe, load
from .trident import write_bag

__all__ = [
    "FORMATS", "BagInfo", "Format", "feature_suffixes", "find_bags", "peek_bag", "read_bag", "recognise",
    "register_format", "write_bag",
]  # fmt: skip


def read_bag(
    path: str | Path,
    *,
    mpp: float | None = None,
    patch_size: float | None = None,
    unit: Unit | None = None,
    coords: str | Path | None = None,
    features_key: str | None = None,
    coords_key: str | None = None,
    format: str | None = None,
) -> Bag:
    """Read one slide's features and coordinates from any known format.

    The options complete what the file leaves open; where the file says otherwise, that is an error.
    mpp: microns per level-0 pixel; turns coordinates in microns into pixels.
    patch_size: edge of a patch in level-0 pixels (in microns, if the bag keeps microns).
    unit: of the coordinates, "px" or "um".
    coords: file with the coordinates, or folder with one per slide, where the features lie alone.
    features_key, coords_key: what the arrays are called, or which of several is meant, see docs/formats.md.
    format: one of `FORMATS`, where the file is to be read as that and no other.

    Example: `read_bag("stamp/slide_1.h5", mpp=0.25).features.shape  # (patch, feature)`
    """
    options = Options(mpp, patch_size, unit, None if coords is None else Path(coords), features_key, coords_key)
    with reading(Path(path)):
        name, source = recognise(Path(path), options, format)
        return load(source, options, describe(source, options, name))


def peek_bag(
    path: str | Path,
    *,
    mpp: float | None = None,
    patch_size: float | None = None,
    unit: Unit | None = None,
    coords: str | Path | None = None,
    features_key: str | None = None,
    coords_key: str | None = None,
    format: str | None = None,
) -> BagInfo:
    """What `read_bag` would give, read from the headers only; an empty slide has n = 0.

    Example: `peek_bag("features/slide_1.h5").dim`
    """
    options = Options(mpp, patch_size, unit, None if coords is None else Path(coords), features_key, coords_key)
    with reading(Path(path)):
        name, source = recognise(Path(path), options, format)
        return describe(source, options, name)


def recognise(path: Path, options: Options, name: str | None) -> tuple[str, Source]:
    """The name of the format (if it is not given), and where that finds the arrays."""
    if name is not None:
        choose("format", name, FORMATS)
    file = open_path(path)
    keyed = options.features_key is not None or options.coords_key is not None
    offered = {key: known for key, known in FORMATS.items() if known.keyed or not keyed}
    name = name or next((key for key, known in offered.items() if known.matches(file)), None)
    if name is None:
        if not file.arrays and not path.name.endswith(feature_suffixes()):
            raise FeatureError(_no_features(path))
        found = f"datasets {sorted(file.arrays)}" if file.arrays else "no known arrays"
        if keyed:
            raise FeatureError(
                f"{path.name}: {found}, and none is called {options.features_key or options.coords_key!r}. Leave "
                "features_key and coords_key out (--features-key, --coords-key), or correct them."
            )
        raise FeatureError(
            f"{path.name}: no known feature file: {found}. Expected an h5 with 'coords' and 'features' (TRIDENT, CLAM, "
            "UNI2-h, torchmil) or 'feats' / 'patch_embeddings' (STAMP), a .pt (CLAM, TRIDENT, slideflow), "
            "a .npy (torchmil), a .zarr store (LazySlide), or arrays of other names in an .h5, .npz, .pt or .parquet: "
            "name them (--features-key, --coords-key; features_key= and coords_key= in Python)."
        )
    return name, FORMATS[name].scan(file, options)


def _no_features(path: Path) -> str:
    """What is wrong with a path whose ending no feature file has, and what to give instead."""
    if path.is_dir():
        return f"{path}: found a folder, expected one feature file. Name a file in it, such as {path / 'SLIDE.h5'}."
    return (
        f"{path.name}: found a file ending in {path.suffix!r}, which is no feature file; expected "
        f"{', '.join(feature_suffixes())}. Of a slide, make features first (`jigsawmil extract`), or give it to "
        "`jigsawmil predict`, which takes slides; a table goes to --labels."
    )
