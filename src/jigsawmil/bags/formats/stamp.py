"""STAMP: `<slide>.h5` with `feats` (or `patch_embeddings`) and `coords` in microns; what they are stands at the root.

Files of STAMP 2 say unit and `tile_size`, later ones `tile_size_um`. Files of STAMP 1 say nothing: their coordinates
are pixels of 224-pixel tiles that cover 256 microns, neither unit that we know, so they are refused unless stated.
The stated `tile_size_px` is what the encoder saw: it gives the resolution of tiles, none of level 0. Embeddings of
whole slides or patients (`feat_type`) have one row and no coordinates.
"""

from collections.abc import Mapping
from typing import Any

from ...errors import FeatureError
from ..bag import Unit
from ..tile_spec import TileSpec
from . import hdf5, siblings
from .opened import Opened
from .source import Options, Source, Stored, tile_spec

SUFFIXES = hdf5.SUFFIXES
DATASETS = ("feats", "patch_embeddings")


def matches(file: Opened) -> bool:
    return any(name in file.arrays for name in DATASETS)


def scan(file: Opened, options: Options) -> Source:
    attrs = file.attrs
    if attrs.get("feat_type", "tile") != "tile":  # of a whole slide or patient
        return Source(
            path=file.path,
            slide_id=file.slide_id,
            features=file.array(*DATASETS),
            coords=None,
            encoder=attrs.get("encoder"),
        )
    coords: Stored | None = None
    if "coords" in file.arrays:
        coords = file.own_coords(options)
    elif options.coords is not None:
        coords = siblings.stored_coords(siblings.named_by_caller(options.coords, file.slide_id))
    return Source(
        path=file.path,
        slide_id=file.slide_id,
        features=file.array(*DATASETS),
        coords=coords,
        unit=_unit(file),
        patch_size=_number(attrs.get("tile_size_um", attrs.get("tile_size"))),
        encoder=attrs.get("extractor"),
        tiles=_tiles(attrs),
    )


def _unit(file: Opened) -> Unit | None:
    stated = file.attrs.get("unit")
    if stated in ("um", "µm", "μm"):
        return "um"
    if stated == "px":
        return "px"
    if stated is not None:
        raise FeatureError(f"{file.path.name}: unit {stated!r}, expected 'um' or 'px'. Correct the attribute.")
    # Every version that signs its files, or names the tile size in microns, writes microns.
    return "um" if {"stamp_version", "tile_size_um"} & file.attrs.keys() else None


def _tiles(attrs: Mapping[str, Any]) -> TileSpec | None:
    edge, pixels = _number(attrs.get("tile_size_um")), _number(attrs.get("tile_size_px"))
    return tile_spec(pixels, edge / pixels) if edge and pixels else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
