"""TRIDENT: `features_<encoder>/<slide>.h5`, with the patch geometry in attributes of `coords`; read and written here.

The `.pt` that TRIDENT writes on request holds the features alone; its coordinates stay in `patches/<slide>_patches.h5`.
Embeddings of whole slides lie in `slide_features_<encoder>/<slide>.h5`: `features` is one vector, `coords` are those of
the patches it was made from.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ...errors import FeatureError
from ...files import replacing
from ..bag import Bag
from ..provenance import MADE_FROM, encoding_of
from ..tile_spec import DEFAULT_TILES, OBJECTIVE, TileSpec
from . import hdf5, siblings
from .arrays import stored_pt
from .opened import Opened, open_path
from .source import IMAGE, Options, Source, Stored, tile_spec

SUFFIXES = (*hdf5.SUFFIXES, ".pt")
DATASETS = ("features",)
WHOLE_SLIDES = "slide_features_"  # begins the name of a folder of slide embeddings
Array = tuple[np.ndarray, Mapping[str, Any]]  # a dataset and its attributes
TISSUE = "tissue_mm2"  # attribute of ours, of the features
TILES_IN = "tiles_in"  # attribute of ours, `IMAGE` if tiles were cut in pixels of the image
UNKNOWN = "unknown"  # value of it, if nobody knows how they were cut
MAGNIFICATIONS = ("level0_magnification", "target_magnification")
ATTRIBUTES = {"patch_size", "patch_size_level0", "level0_magnification", "target_magnification", "overlap", "name"}


def matches(file: Opened) -> bool:
    if file.path.suffix == ".pt":
        return _patches_file(file.path) is not None
    coords = file.arrays.get("coords")
    return "features" in file.arrays and coords is not None and not ATTRIBUTES.isdisjoint(coords.attrs)


def scan(file: Opened, options: Options) -> Source:
    path, slide_id = file.path, file.slide_id
    if path.suffix == ".pt":
        where = _patches_file(path) if options.coords is None else siblings.named_by_caller(options.coords, slide_id)
        if where is None:
            raise siblings.missing(path, f"../patches/{slide_id}_patches.h5")
        features, coords = stored_pt(path), siblings.stored_coords(where)
    else:
        features, coords = file.array("features"), file.own_coords(options)
    return Source(
        path=path,
        slide_id=slide_id,
        features=features,
        coords=coords,
        unit="px",
        patch_size=level0_edge(coords.attrs),
        mpp=coords.attrs.get("mpp"),  # not TRIDENT's: write_bag adds it
        encoder=encoder_name(path, features),
        tiles=tiles_of(coords.attrs),
        encoding=encoding_of(features.attrs.get(MADE_FROM)),
        size=_size(coords.attrs),
    )


def tiles_of(attrs: Mapping[str, Any]) -> TileSpec | None:
    """As TRIDENT was asked to cut, taking 20x as 0.5 microns; microns and share are ours."""
    if attrs.get(TILES_IN) == UNKNOWN:
        return None
    power = attrs.get("target_magnification")
    mpp = attrs.get("target_mpp", OBJECTIVE / power if isinstance(power, int | float) and power else None)
    tissue = attrs.get("tissue_share", DEFAULT_TILES.share), attrs.get("tissue_drawn", False)
    mpp = IMAGE if attrs.get(TILES_IN) == IMAGE else mpp
    return tile_spec(attrs.get("patch_size"), mpp, attrs.get("overlap", 0), *tissue)


def level0_edge(attrs: Mapping[str, Any]) -> float | None:
    """Edge of a patch in level-0 pixels. TRIDENT's `patch_size` alone is in pixels of the target magnification."""
    if "patch_size_level0" in attrs:
        edge = attrs["patch_size_level0"]
        return float(edge) if isinstance(edge, int) else edge  # `describe` refuses what is no number
    if "patch_size" not in attrs:
        return None
    if {"level0_magnification", "target_magnification"} <= attrs.keys():
        return float(attrs["patch_size"]) * float(attrs["level0_magnification"]) / float(attrs["target_magnification"])
    if "downsample" in attrs or attrs.get("patch_level") == 0:  # tiled by CLAM
        downsample = np.ravel(attrs.get("downsample", 1))[0]  # CLAM states x and y
        return float(attrs["patch_size"] * downsample * attrs.get("custom_downsample", 1))
    return None


def slide_size(features: Path) -> tuple[int, int] | None:
    """Width and height of the slide, as a feature file states them beside its coordinates; None if it does not."""
    coords = open_path(features).arrays.get("coords")
    return None if coords is None else _size(coords.attrs)


def _size(attrs: Mapping[str, Any]) -> tuple[int, int] | None:
    width, height = attrs.get("level0_width"), attrs.get("level0_height")
    return None if width is None or height is None else (int(width), int(height))


def encoder_name(path: Path, features: Stored) -> str | None:
    """As the file says; older files say it in the name of their folder alone."""
    named = path.parent.name.removeprefix("slide_").removeprefix("features_")
    return features.attrs.get("encoder") or (named if path.parent.name.endswith(f"features_{named}") else None)


def _patches_file(path: Path) -> Path | None:
    return siblings.first_existing([path.parent.parent / "patches" / f"{path.stem}_patches.h5"])


def write_bag(bag: Bag, path: str | Path) -> None:
    """Write a bag in TRIDENT's layout, whole or not at all; `read_bag` gives it back exactly.

    Beside TRIDENT's attributes `coords` carries `mpp`. The patch size is that in level-0 pixels, so the two
    magnifications are the same; of a bag without mpp they are left out, and TRIDENT takes the patches as CLAM's of
    level 0. What else a bag does not know is 'None', as TRIDENT writes it.

    Example: `write_bag(bag, "features/slide_1.h5")`
    """
    path = Path(path)
    if bag.unit != "px":
        raise FeatureError(
            f"{bag.slide_id}: coordinates in microns, and TRIDENT's layout holds level-0 pixels. "
            "Read the bag with the slide's mpp= first."
        )
    coords = bag.coords.numpy()
    if np.array_equal(coords, np.round(coords)):
        coords = coords.astype(np.int64)
    edge = None if bag.patch_size is None else _plain(bag.patch_size)
    geometry = {
        "patch_size": edge,
        "patch_size_level0": edge,
        **({} if bag.mpp is None else dict.fromkeys(MAGNIFICATIONS, _plain(OBJECTIVE / bag.mpp))),
        "patch_level": 0,
        "custom_downsample": 1,
        "overlap": None,
        "name": bag.slide_id,
        "level0_width": None,
        "level0_height": None,
        "mpp": bag.mpp,
        TILES_IN: UNKNOWN,
    }
    about = {"name": bag.slide_id, "encoder": bag.encoder}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, {"features": (bag.features.numpy(), about), "coords": (coords, geometry)}, grows=True)
    except OSError as error:
        raise FeatureError(f"{path}: cannot be written ({error}). Choose a folder that is writable.") from error


def write_features(
    path: Path, features: np.ndarray, coords: np.ndarray, about: Mapping[str, Any], geometry: Mapping[str, Any]
) -> None:
    """What an extraction found: the same input gives the same bytes.

    features: (patch, dim), written as float32. coords: (patch, 2). about: attributes of the features. geometry: of the
    coordinates, see `tile_geometry`.
    """
    arrays = {"features": (features.astype(np.float32, copy=False), about), "coords": (coords, geometry)}
    _write(path, arrays, ordered=True)


def write_patches(path: Path, coords: np.ndarray, geometry: Mapping[str, Any]) -> None:
    """Where the tiles are, without features."""
    path.parent.mkdir(exist_ok=True)
    _write(path, {"coords": (coords, geometry)}, ordered=True)


def write_patches_of(features: Path, path: Path) -> None:
    """The same, from what the feature file says of its tiles."""
    with h5py.File(features) as file:
        write_patches(path, file["coords"][:], dict(file["coords"].attrs))


def extent(features: Path) -> tuple[int, float]:
    """Tiles and square millimetres of tissue that a feature file of an extraction states; NaN if it does not."""
    array = open_path(features).array("features")
    return array.shape[0], float(array.attrs.get(TISSUE, "nan"))


def amend(path: Path, geometry: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Add to a file that `write_bag` wrote: geometry that a bag does not know, and further datasets.
    Such files have no checksums: they are synthetic, and can be made again."""
    with h5py.File(path, "a") as file:
        file["coords"].attrs.pop(TILES_IN, None)
        hdf5.unseal(file)
        file["coords"].attrs.update(geometry)
        for key, (values, attrs) in arrays.items():
            file.create_dataset(key, data=values)
            file[key].attrs.update(attrs)


def tile_geometry(
    name: str, spec: TileSpec, edge: int, slide_size: tuple[int, int], level0_mpp: float | None
) -> dict[str, Any]:
    """TRIDENT's attributes of `coords`, and ours: microns and tissue. edge: of a tile in level-0 pixels.

    Of TRIDENT's two magnifications only the ratio matters: it decides how large the tiles are that TRIDENT cuts.
    Tiles in pixels of the image have none.
    """
    power = None if spec.mpp is None else OBJECTIVE / spec.mpp
    return {
        "patch_size": spec.patch,
        "patch_size_level0": edge,
        "level0_magnification": None if power is None else _plain(power * edge / spec.patch),
        "target_magnification": None if power is None else _plain(power),
        "overlap": spec.overlap,
        "name": name,
        "savetodir": None,
        "level0_width": slide_size[0],
        "level0_height": slide_size[1],
        "mpp": level0_mpp,
        "target_mpp": spec.mpp,
        "tissue_share": spec.share,
        "tissue_drawn": spec.drawn,
        **({TILES_IN: IMAGE} if spec.mpp is None else {}),
    }


def _plain(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number


def _write(path: Path, arrays: Mapping[str, Array], *, ordered: bool = False, grows: bool = False) -> None:
    """ordered: datasets are listed as they were written. grows: rows can be added later, as in TRIDENT's own files.

    A chunk holds many rows, not TRIDENT's one: any reader takes it, several times faster.
    """
    with replacing(path) as partial, h5py.File(partial, "w", track_order=ordered) as file:
        for key, (values, attrs) in arrays.items():
            _add(file, key, values, attrs, grows)
        hdf5.seal(file)


def _add(file: h5py.File, key: str, values: np.ndarray, attrs: Mapping[str, Any], grows: bool) -> None:
    """A function of its own: the dataset is closed before the next is made, which decides the bytes of the file."""
    rows, columns = values.shape
    chunks, most = (min(max(rows, 1), 256), columns), (None, columns) if grows else None
    dataset = file.create_dataset(key, data=values, chunks=chunks, maxshape=most, track_times=False)
    for name, value in attrs.items():
        dataset.attrs[name] = "None" if value is None else value
