"""CLAM: `h5_files/<slide>.h5` (features, coords, no attributes) and `pt_files/<slide>.pt` (features alone).

The patch edge stands in attributes of the coordinates that CLAM cut the slide by, `patches/<slide>.h5`, which may lie
beside the features or anywhere else (`coords=`). Also the reader of last resort for any h5 with `features`.
"""

from pathlib import Path

from . import hdf5, siblings
from .arrays import stored_items, stored_pt
from .opened import Opened
from .source import Options, Source
from .trident import encoder_name, level0_edge

SUFFIXES = (*hdf5.SUFFIXES, ".pt")
DATASETS = ("features",)


def matches(file: Opened) -> bool:
    return "features" in file.arrays or (file.path.suffix == ".pt" and not stored_items(file.path))


def scan(file: Opened, options: Options) -> Source:
    path, slide_id = file.path, file.slide_id
    root = path.parent.parent
    if options.coords is not None:
        patches: Path | None = siblings.named_by_caller(options.coords, slide_id)
    else:
        near = (path.parent, root, root.parent)  # CLAM itself lets the user choose the folder
        patches = siblings.first_existing(folder / "patches" / f"{slide_id}.h5" for folder in near)
    geometry = None if patches is None else siblings.stored_coords(patches)
    coords = file.arrays.get("coords")
    if coords is None and options.coords is None and path.suffix == ".pt":
        twin = siblings.first_existing([root / "h5_files" / f"{slide_id}.h5"])
        coords = None if twin is None else siblings.stored_coords(twin)
    coords = coords or geometry
    features = stored_pt(path) if path.suffix == ".pt" else file.array("features")
    return Source(
        path=path,
        slide_id=slide_id,
        features=features,
        coords=coords,
        unit="px"
        if coords is not None and "int" in coords.dtype
        else None,  # CLAM writes whole pixels; fractions are somebody else's
        guess_unit=True,
        patch_size=None if geometry is None else level0_edge(geometry.attrs),
        encoder=encoder_name(path, features),
    )
