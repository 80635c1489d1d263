"""LazySlide / wsidata: `<slide>.zarr`, a SpatialData store with a table `{model}_{tiles}` and tile polygons.

Features are `X` of the AnnData table, its `obs/tile_id` names the polygon of each row. Polygons are in level-0 pixels:
GeoParquet (WKB) since SpatialData 0.2, ragged Zarr arrays before. `tile_spec` and `slide_properties` are attributes of
the root. A store with tables of several models is read by the path of one of them: `<slide>.zarr/tables/<table>`.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import FeatureError
from .opened import Opened
from .source import Options, Source, Stored

NEEDS = "pip install 'jigsawmil[zarr]'"


def matches(file: Opened) -> bool:
    return _store(file.path) is not None


def scan(file: Opened, options: Options) -> Source:
    store = _store(file.path)
    if store is None:
        raise FeatureError(f"{file.path.name}: no SpatialData store; expected a Zarr folder with 'tables'.")
    if options.coords is not None:
        raise FeatureError(f"{store.name}: the store holds its own coordinates. Leave coords out.")
    root = _open(store)
    table, tiles = _feature_table(store, root, None if file.path == store else file.path.name)
    x, obs = root[f"tables/{table}/X"], root[f"tables/{table}/obs"]
    ids, corners, edge = _polygons(store, root, tiles)
    if "tile_id" in obs:
        corners = corners[_rows(store, ids, obs["tile_id"][:])]
    return Source(
        path=store,
        slide_id=store.stem,
        features=Stored(x.shape, x.dtype.name, lambda: torch.from_numpy(x[:])),
        coords=Stored(corners.shape, corners.dtype.name, lambda: torch.from_numpy(corners)),
        unit="px",
        patch_size=edge,
        mpp=_slide_mpp(root.attrs, tiles),
        encoder=table.removesuffix(f"_{tiles}"),
    )


def _store(path: Path) -> Path | None:
    """The store that the path is, or whose table it is."""
    store = path.parent.parent if path.parent.name == "tables" else path
    marks = (".zgroup", "zarr.json", ".zattrs", ".zmetadata")
    return store if (store / "tables").is_dir() and any((store / mark).is_file() for mark in marks) else None


def _open(store: Path) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise FeatureError(f"{store.name}: Zarr stores need the zarr package: {NEEDS}") from error
    try:
        return zarr.open_group(store, mode="r")
    except (OSError, ValueError, KeyError) as error:
        raise FeatureError(f"{store.name}: cannot be read as a Zarr store ({error}). Copy it again.") from error


def _feature_table(store: Path, root: Any, chosen: str | None) -> tuple[str, str]:
    """Name of the feature table, and of the tiles that it describes: `{model}_{tiles}`."""
    tables, shapes = sorted(root["tables"].keys()), sorted(root["shapes"].keys()) if "shapes" in root else []
    found: dict[str, str] = {}
    for table in tables:
        region = root[f"tables/{table}"].attrs.get("region")
        tiles = region[0] if isinstance(region, list) and region else region
        if tiles in shapes and table.endswith(f"_{tiles}") and f"tables/{table}/X" in root:
            found[table] = tiles
    if chosen is not None:
        found = {table: tiles for table, tiles in found.items() if table == chosen}
    if len(found) == 1:
        return next(iter(found.items()))
    if not found:
        raise FeatureError(
            f"{store.name}: no feature table; found tables {tables} and shapes {shapes}, expected a table "
            "'<model>_<tiles>' for one of the shapes. Run LazySlide's feature_extraction and write the store."
        )
    raise FeatureError(
        f"{store.name}: features of several models: {', '.join(found)}. "
        f"Give the path of one: {store.name}/tables/{next(iter(found))}."
    )


def _rows(store: Path, ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Row of each wanted tile; rows of table and shapes need not be in one order."""
    order = np.argsort(ids, kind="stable")
    place = np.searchsorted(ids, wanted, sorter=order).clip(max=max(len(ids) - 1, 0))
    rows = order[place] if len(ids) else np.zeros(0, dtype=int)
    unknown = len(wanted) if len(ids) == 0 else int((ids[rows] != wanted).sum())
    if unknown:
        raise FeatureError(
            f"{store.name}: {unknown} of {len(wanted)} feature rows name a tile that has no polygon. "
            "Tiles were made anew after the features: extract them again."
        )
    return rows


def _slide_mpp(attrs: Any, tiles: str) -> float | None:
    """Resolution of level 0. The mpp in `tile_spec` is the one asked for, `base_downsample` times coarser."""
    if "slide_properties" in attrs:
        return attrs["slide_properties"].get("mpp")
    spec = attrs.get("tile_spec", {}).get(tiles, {})
    return spec["mpp"] / spec["base_downsample"] if spec.get("mpp") and spec.get("base_downsample") else None


def _polygons(store: Path, root: Any, tiles: str) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Tile ids, top-left corners (N, 2) and the edge, in level-0 pixels."""
    parquet = store / "shapes" / tiles / "shapes.parquet"
    ids, points, starts = _from_parquet(parquet) if parquet.is_file() else _from_zarr(root[f"shapes/{tiles}"])
    if len(ids) == 0:
        return ids, np.zeros((0, 2)), None
    low, high = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)  # (tile, 2)
    sizes = np.unique(np.round(high - low, 6))
    if len(sizes) > 1:
        raise FeatureError(
            f"{store.name}: tiles measure {sizes.min():g} to {sizes.max():g} level-0 pixels; expected squares of one "
            "size. Tile the slide with equal width and height."
        )
    return ids, low, float(sizes[0])


def _from_zarr(shapes: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, points of all outlines (M, 2), and where each polygon begins: points -> rings -> polygons."""
    rings, polygons = shapes["offset0"][:].ravel(), shapes["offset1"][:].ravel()
    return shapes["Index"][:], shapes["coords"][:], rings[polygons[:-1]]


def _from_parquet(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FeatureError(f"{path}: tile polygons in Parquet need the pyarrow package: {NEEDS}") from error
    table = pq.read_table(path)
    rings = [_outline(wkb) for wkb in table["geometry"].to_pylist()]
    ids = table["tile_id"].to_numpy() if "tile_id" in table.column_names else np.arange(len(rings))
    starts = np.cumsum([0, *map(len, rings)])[:-1]
    return ids, np.concatenate(rings) if rings else np.zeros((0, 2)), starts


def _outline(wkb: bytes) -> np.ndarray:
    """Outer ring (M, 2) of a polygon in well-known binary: byte order, type, rings, points, then x, y of each point."""
    order = "<" if wkb[0] == 1 else ">"
    kind, _, points = np.frombuffer(wkb, dtype=f"{order}u4", count=3, offset=1)
    if kind != 3:
        raise FeatureError(f"tile geometry of WKB type {kind}, expected 3 (polygon). Tile the slide again.")
    return np.frombuffer(wkb, dtype=f"{order}f8", count=2 * points, offset=13).reshape(-1, 2)
