"""AnnData: one `.h5ad` for each slide, features in `X` (or `obsm`, `layers`), patch centres in `obsm/spatial`.

Files of `jigsawmil export` say in `uns` that centres are level-0 pixels, and how large a patch is. Of others the caller
has to state the unit and the patch edge: `spatial` may hold anything.
"""

from typing import Any

from ...errors import FeatureError
from . import hdf5, siblings
from .opened import Opened, coords_twice
from .source import Options, Source, Stored

SUFFIXES, KEYED = hdf5.DEEP, True
OURS = "patch centres, level-0 pixels"  # value of `uns/coordinates` in files that this program wrote
SPATIAL = "spatial"


def matches(file: Opened) -> bool:
    return file.path.suffix in SUFFIXES


def scan(file: Opened, options: Options) -> Source:
    features = _array(file, options.features_key, "X")
    if features is None:
        found = sorted(name for name in file.arrays if name.split("/")[0] in ("X", "obsm", "layers"))
        raise FeatureError(
            f"{file.path.name}: arrays {found or 'none'}, expected dense features in {options.features_key or 'X'!r}. "
            "Name those of obsm or layers with --features-key (features_key= in Python)."
        )
    coords = _array(file, options.coords_key, SPATIAL)
    if coords is None and options.coords_key is not None:
        raise FeatureError(f"{file.path.name}: no array {options.coords_key!r} in obsm. Correct --coords-key.")
    if options.coords is not None:
        if coords is not None:
            raise coords_twice(file.path, options.coords)
        coords = siblings.stored_coords(siblings.named_by_caller(options.coords, file.slide_id))
    ours = _value(file, "uns/coordinates") == OURS
    sizes = [name for name in file.arrays if name.startswith("uns/spatial/") and name.endswith("spot_diameter_fullres")]
    return Source(
        path=file.path,
        slide_id=file.slide_id,
        features=features,
        coords=coords,
        unit="px" if ours else None,
        patch_size=_value(file, sizes[0]) if ours and len(sizes) == 1 else None,
        mpp=_value(file, "uns/mpp") if ours else None,
        encoder=_value(file, "uns/encoder") or None if ours else None,
        centred=True,
    )


def _array(file: Opened, key: str | None, usual: str) -> Stored | None:
    places = [usual, f"obsm/{usual}"] if key is None else [key, f"obsm/{key}", f"layers/{key}"]
    return next((file.arrays[name] for name in places if name in file.arrays), None)


def _value(file: Opened, name: str) -> Any:
    """Of a single number or word."""
    return file.arrays[name].attrs.get("value") if name in file.arrays else None
