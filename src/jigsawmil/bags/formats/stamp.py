"""STAMP: `<slide>.h5` with `feats` (or `patch_embeddings`) and `coords` in microns; what they are stands at the root.

Files of STAMP 2 say unit and `tile_size`, later ones `tile_size_um`. Coordinates of STAMP 1 are pixels of its tiles, as
a rule 224 that cover 256 microns; `info.json` beside the files says how many of each, and turns them into microns.
The stated `tile_size_px` is what the encoder saw: it gives the resolution of tiles, none of level 0. Embeddings of
whole slides or patients (`feat_type`) have one row and no coordinates.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import FeatureError
from ..bag import Unit
from ..tile_spec import TileSpec
from . import hdf5, siblings
from .opened import Opened
from .source import Options, Source, Stored, tile_spec

SUFFIXES = hdf5.SUFFIXES
DATASETS = ("feats", "patch_embeddings")
FIRST = "STAMP-extract-1"  # begins the extractor's name in files of STAMP 1


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
    if coords is not None and str(attrs.get("extractor")).startswith(FIRST) and _unit(file) is None:
        return _of_first(file, coords, options)
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


def _of_first(file: Opened, coords: Stored, options: Options) -> Source:
    """A file of STAMP 1: coordinates in pixels of its tiles."""
    about = file.path.with_name("info.json")
    pixels, microns = _first_tiles(about)
    if options.unit is None and (pixels is None or microns is None):
        raise FeatureError(
            f"{file.path.name}: written by STAMP 1, whose coordinates are pixels of its tiles, and {about.name} beside "
            "it does not say how many microns they are. Copy that file here, or write one; with STAMP's defaults it is "
            '{"microns": 256, "patch_size": [224, 224]}.'
        )
    scaled = coords
    if options.unit is None and pixels and microns:
        scale = microns / pixels
        scaled = replace(coords, read=lambda: coords.read().double() * scale)
    return Source(
        path=file.path,
        slide_id=file.slide_id,
        features=file.array(*DATASETS),
        coords=scaled,
        unit="um" if options.unit is None else None,
        patch_size=microns if options.unit in (None, "um") else None,
        encoder=str(file.attrs["extractor"]).removeprefix(FIRST).partition("_")[2] or None,
        tiles=tile_spec(pixels, microns / pixels) if pixels and microns else None,
    )


def _first_tiles(about: Path) -> tuple[float | None, float | None]:
    """Edge of a tile in pixels and in microns."""
    try:
        values = json.loads(about.read_text(encoding="utf-8"))
        edge = values["patch_size"]
        edges = set(edge) if isinstance(edge, list) else {edge}
        return (_number(edges.pop()) if len(edges) == 1 else None), _number(values["microns"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


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
