"""LazySlide / wsidata: `<slide>.zarr`, a SpatialData store with a table `{model}_{tiles}` and tile polygons.

Features are `X` of the AnnData table, its `obs/tile_id` names the polygon of each row. Polygons are in level-0 pixels:
GeoParquet (WKB) since SpatialData 0.2, ragged Zarr arrays before. `tile_spec` and `slide_properties` are attributes of
the root. Of tables of several models, or under a name of one's own (`key_added`), `features_key` names the model or the
table; so does the path `<slide>.zarr/tables/<table>`.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FeatureError
from ..tile_spec import TileSpec
from .arrays import as_tensor
from .guard import refuse_bomb
from .opened import Opened
from .source import Options, Source, Stored, tile_spec
from .zarr_arrays import read_array

SUFFIXES, FOLDERS, KEYED = (".zarr",), True, True
NEEDS = "pip install 'jigsawmil[zarr]'"
WKB_BOX = struct.pack("<BIII", 1, 3, 1, 5)  # little-endian polygon of one ring of five points, x and y of each follow


def matches(file: Opened) -> bool:
    return _store(file.path) is not None


def scan(file: Opened, options: Options) -> Source:
    store = _store(file.path)
    if store is None:
        raise FeatureError(f"{file.path.name}: no SpatialData store; expected a Zarr folder with 'tables'.")
    if options.coords is not None:
        raise FeatureError(f"{store.name}: the store holds its own coordinates. Leave coords out.")
    if options.coords_key is not None:
        raise FeatureError(f"{store.name}: the table of features names its tiles. Leave coords_key out.")
    root = _open(store)
    table, tiles = _feature_table(store, root, options.features_key if file.path == store else file.path.name)
    x, obs = root[f"tables/{table}/X"], root[f"tables/{table}/obs"]
    if not hasattr(x, "shape"):
        raise FeatureError(f"{store.name}: features of table '{table}' are sparse, expected a dense matrix.")
    ids, corners, edge = _polygons(store, root, tiles)
    if "tile_id" in obs:
        corners = corners[_rows(store, ids, read_array(store, obs["tile_id"], zeros=True))]
    spec = root.attrs.get("tile_spec", {}).get(tiles, {})
    return Source(
        path=store,
        slide_id=store.stem,
        features=Stored(x.shape, x.dtype.name, lambda: as_tensor(read_array(store, x))),
        coords=Stored(corners.shape, corners.dtype.name, lambda: as_tensor(corners)),
        unit="px",
        patch_size=edge,
        mpp=_slide_mpp(root.attrs, spec),
        encoder=table.removesuffix(f"_{tiles}"),
        tiles=_tiles(spec),
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
    """Name of the feature table, and of the tiles that it describes: `{model}_{tiles}`, or what the caller calls it."""
    tables, shapes = sorted(root["tables"].keys()), sorted(root["shapes"].keys()) if "shapes" in root else []
    found: dict[str, str] = {}
    for table in tables:
        region = root[f"tables/{table}"].attrs.get("region")
        tiles = region[0] if isinstance(region, list) and region else region
        wanted = table.endswith(f"_{tiles}") if chosen is None else chosen in (table, table.removesuffix(f"_{tiles}"))
        if tiles in shapes and wanted and f"tables/{table}/X" in root:
            found[table] = tiles
    if len(found) == 1:
        return next(iter(found.items()))
    if not found:
        raise FeatureError(
            f"{store.name}: no feature table{'' if chosen is None else f' {chosen!r}'}; found tables {tables} and "
            f"shapes {shapes}, expected a table '<model>_<tiles>' for one of the shapes. Name a table of another name "
            "(--features-key, features_key= in Python), or run LazySlide's feature_extraction and write the store."
        )
    raise FeatureError(
        f"{store.name}: features of several models: {', '.join(found)}. Name one: --features-key {next(iter(found))} "
        "(features_key= in Python)."
    )


def _rows(store: Path, ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Row of each wanted tile; rows of table and shapes need not be in one order."""
    row_of = {tile: row for row, tile in enumerate(ids.tolist())}
    twice = {"polygons": len(ids) - len(row_of), "feature rows": len(wanted) - len(set(wanted.tolist()))}
    for what, found in twice.items():
        if found:  # as where ids are missing, which read as zeros
            raise FeatureError(
                f"{store.name}: {found} {what} share their tile id with another one. Copy the store again."
            )
    rows = [row_of.get(tile) for tile in wanted.tolist()]
    unknown = rows.count(None)
    if unknown:
        raise FeatureError(
            f"{store.name}: {unknown} of {len(rows)} feature rows name a tile that has no polygon. "
            "The tiles are newer than the features: extract the features again."
        )
    return np.array(rows, dtype=np.int64)


def _tiles(spec: Any) -> TileSpec | None:
    width = spec.get("width", 0)
    return tile_spec(width, spec.get("mpp"), width - spec.get("stride_width", width))


def _slide_mpp(attrs: Any, spec: Any) -> float | None:
    """Resolution of level 0. The mpp in `tile_spec` is the one asked for, `base_downsample` times coarser."""
    stated = attrs.get("slide_properties", {}).get("mpp")
    if stated is not None:
        return stated
    return spec["mpp"] / spec["base_downsample"] if spec.get("mpp") and spec.get("base_downsample") else None


def _polygons(store: Path, root: Any, tiles: str) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Tile ids, top-left corners (N, 2) and the edge, in level-0 pixels."""
    parquet = store / "shapes" / tiles / "shapes.parquet"
    ids, outlines = _from_parquet(parquet) if parquet.is_file() else _from_zarr(store, root[f"shapes/{tiles}"])
    if len(outlines) == 0:
        return ids, np.zeros((0, 2)), None
    low, high = outlines.min(axis=1), outlines.max(axis=1)  # (tile, 2)
    sizes = np.unique(np.round(high - low, 6))
    if len(sizes) > 1:
        raise FeatureError(
            f"{store.name}: tiles measure {sizes.min():g} to {sizes.max():g} level-0 pixels; expected squares of one "
            "size. Tile the slide with equal width and height."
        )
    return ids, low, float(sizes[0])


def _from_zarr(store: Path, shapes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ids, and outlines (N, 5, 2) out of the ragged arrays."""
    ids, points = read_array(store, shapes["Index"], zeros=True), read_array(store, shapes["coords"])
    if len(points) != 5 * len(ids):
        raise _no_boxes(shapes.path)
    return ids, points.reshape(-1, 5, 2)


def _from_parquet(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Ids, and outlines (N, 5, 2) out of well-known binary."""
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FeatureError(f"{path}: tile polygons in Parquet need the pyarrow package: {NEEDS}") from error
    try:
        about = pq.read_metadata(path)
        unpacked = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        refuse_bomb(str(path), path.stat().st_size, unpacked)
        table = pq.read_table(path)
        polygons = table["geometry"].to_pylist()
    except (OSError, ValueError, KeyError) as error:
        raise FeatureError(f"{path}: cannot be read as GeoParquet ({error}). Copy it again.") from error
    if not all(isinstance(wkb, bytes) and wkb.startswith(WKB_BOX) for wkb in polygons):
        raise _no_boxes(str(path))
    ids = table["tile_id"].to_numpy() if "tile_id" in table.column_names else np.arange(len(polygons))
    raw = np.frombuffer(b"".join(polygons), np.uint8).reshape(-1, len(WKB_BOX) + 5 * 16)
    return ids, raw[:, len(WKB_BOX) :].copy().view("<f8").reshape(-1, 5, 2)


def _no_boxes(where: str) -> FeatureError:
    return FeatureError(f"{where}: shapes that are not boxes, expected tiles. Tile the slide again.")
