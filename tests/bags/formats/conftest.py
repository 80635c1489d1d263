"""Files as each tool writes them: dtypes, chunks, attributes, folders. Read off the tools' public sources."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
import torch

N, D = 7, 5


def features(n: int = N, d: int = D) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def lattice(n: int = N, step: int = 512, origin: tuple[int, int] = (1024, 4096)) -> np.ndarray:
    """Top-left corners, row by row, five a row."""
    index = np.arange(n)
    return np.stack([origin[0] + step * (index % 5), origin[1] + step * (index // 5)], axis=1).astype(np.int64)


def _appendable(file: h5py.File, key: str, value: np.ndarray, rows: int, attrs: dict[str, Any]) -> None:
    shape = value.shape
    dataset = file.create_dataset(
        key, shape=shape, maxshape=(None, *shape[1:]), chunks=(rows, *shape[1:]), dtype=value.dtype
    )
    dataset[:] = value
    for name, attribute in attrs.items():
        dataset.attrs[name] = "None" if attribute is None else attribute


def trident(path: Path, x: np.ndarray, coords: np.ndarray, **changes: Any) -> Path:
    """A 40x slide tiled at 20x with 256 pixels; keyword arguments change or (with `...`) drop attributes of coords."""
    attrs: dict[str, Any] = {
        "patch_size": 256,
        "patch_size_level0": 512,
        "level0_magnification": 40,
        "target_magnification": 20,
        "overlap": 0,
        "name": path.stem,
        "savetodir": "job/20x_256px_0px_overlap",
        "level0_width": 90_000,
        "level0_height": 60_000,
    } | changes
    attrs = {key: value for key, value in attrs.items() if value is not ...}
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        described = {"name": path.stem, "savetodir": str(path.parent.name), "encoder": "uni_v1"}
        _appendable(file, "features", x, 1, described)
        _appendable(file, "coords", coords, 1, attrs)
    return path


def trident_patches(path: Path, coords: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        attrs = {"patch_size": 256, "patch_size_level0": 512, "level0_magnification": 40, "target_magnification": 20}
        _appendable(file, "coords", coords, 1, attrs)
    return path


def clam_h5(path: Path, x: np.ndarray, coords: np.ndarray) -> Path:
    """Batches of four are appended to chunks of 32, as the extraction loop does; no attributes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for key, value in (("features", x), ("coords", coords.astype(np.int32))):
            _appendable(file, key, value[:4], 32, {})
            file[key].resize(len(value), axis=0)
            file[key][4:] = value[4:]
    return path


def clam_patches(path: Path, coords: np.ndarray, level: int = 1, downsample: float = 4.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    attrs = {
        "patch_size": 256,
        "patch_level": level,
        "downsample": (downsample, downsample),
        "downsampled_level_dim": (22_500, 15_000),
        "level_dim": (22_500, 15_000),
        "name": path.stem,
        "save_path": "results/patches",
    }
    with h5py.File(path, "w") as file:
        _appendable(file, "coords", coords, 32, attrs)
    return path


def clam_pt(path: Path, x: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(torch.from_numpy(x), path)
    return path


def uni2h(path: Path, x: np.ndarray, coords: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        file["features"], file["coords"] = x[None], coords[None]
    return path


def stamp(path: Path, x: np.ndarray, coords: np.ndarray, key: str = "feats", **changes: Any) -> Path:
    """Corners in microns; keyword arguments change or (with `...`) drop attributes of the root."""
    attrs = {
        "stamp_version": "2.3.0",
        "extractor": "mahmood-uni",
        "unit": "um",
        "tile_size_um": 256.0,
        "tile_size_px": 224,
        "code_hash": "0123abcd",
        "feat_type": "tile",
    } | changes
    with h5py.File(path, "w") as file:
        file["coords"] = coords.astype(np.float32)
        file[key] = x.astype(np.float16)
        for name, value in attrs.items():
            if value is not ...:
                file.attrs[name] = value
    return path


def slideflow(
    folder: Path, slide: str, x: np.ndarray, corners: np.ndarray, *, edge: int, config: Any = None, ending: str = ".npz"
) -> Path:
    """Tile centres as slideflow computes them: corner + half the extracted edge, made whole."""
    folder.mkdir(parents=True, exist_ok=True)
    centres = (corners + edge / 2).astype(np.int64)
    torch.save(torch.from_numpy(x.astype(np.float32)), folder / f"{slide}.pt")
    index = folder / f"{slide}.index{ending}"
    if ending == ".npz":
        np.savez(index, centres)
    else:
        np.save(index, centres)
    if config is not None:
        full = {
            "extractor": {"class": "slideflow.model.extractors.ctranspath.CTransPathFeatures", "kwargs": {}},
            "normalizer": None,
            "num_features": x.shape[1],
        } | config
        (folder / "bags_config.json").write_text(json.dumps(full))
    return folder / f"{slide}.pt"


def torchmil(root: Path, bag: str, x: np.ndarray, coords: np.ndarray, encoder: str = "") -> Path:
    path = root / "features" / encoder / f"{bag}.npy"
    labels = np.ones(1)
    for target, value in (
        (path, x),
        (root / "coords" / f"{bag}.npy", coords),
        (root / "labels" / f"{bag}.npy", labels),
    ):
        target.parent.mkdir(parents=True, exist_ok=True)
        np.save(target, value)
    return path


def torchmil_h5(path: Path, x: np.ndarray, coords: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        file["features"], file["coords"] = x, coords
        file["labels"], file["inst_labels"] = np.ones(1), np.zeros(len(x))
    return path


def _box(x: float, y: float, edge: float) -> np.ndarray:
    """The ring of shapely's box: from the lower right, counter-clockwise, closed."""
    return np.array([[x + edge, y], [x + edge, y + edge], [x, y + edge], [x, y], [x + edge, y]])


def _wkb(ring: np.ndarray) -> bytes:
    return b"\x01" + np.array([3, 1, len(ring)], "<u4").tobytes() + ring.astype("<f8").tobytes()


def lazyslide(
    path: Path,
    x: np.ndarray,
    corners: np.ndarray,
    *,
    edge: int = 512,
    tables: tuple[str, ...] = ("uni_tiles",),
    tile_ids: np.ndarray | None = None,  # of the feature rows; the polygons are numbered from zero
    shapes: str = "parquet",
    slide_mpp: float | None = 0.25,
    zarr_format: int = 2,
) -> Path:
    """A SpatialData store: AnnData tables, tile polygons as GeoParquet or (before SpatialData 0.2) ragged arrays."""
    zarr = pytest.importorskip("zarr")
    root = zarr.create_group(path, zarr_format=zarr_format)
    spec = {"height": 256, "width": 256, "stride_height": 256, "stride_width": 256, "mpp": 0.5, "ops_level": 0}
    spec |= {"ops_downsample": 2.0, "base_level": 0, "base_downsample": 2.0, "tissue_name": "tissues"}
    root.attrs.update(
        {
            "spatialdata_attrs": {"version": "0.1", "spatialdata_software_version": "0.5.0"},
            "tile_spec": {"tiles": spec},
            "slide_properties": {"shape": [60_000, 90_000], "n_level": 4, "mpp": slide_mpp, "magnification": 40},
        }
    )
    ids = np.arange(len(x)) if tile_ids is None else tile_ids
    for name in tables:
        table = root.create_group(f"tables/{name}")
        table.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0", "version": "0.1"})
        table.attrs.update({"region": "tiles", "region_key": "library_id", "instance_key": "tile_id"})
        table.create_array("X", data=x)
        obs = table.create_group("obs", attributes={"encoding-type": "dataframe", "_index": "_index"})
        obs.create_array("tile_id", data=ids)
    rings = [_box(*corner, edge) for corner in corners.astype(float)]
    tiles = root.create_group("shapes/tiles")
    tiles.attrs.update({"encoding-type": "ngff:shapes", "axes": ["x", "y"]})
    if shapes == "parquet":
        pa = pytest.importorskip("pyarrow", reason="GeoParquet needs pyarrow: pip install 'jigsawmil[zarr]'")
        import pyarrow.parquet as pq

        n = len(rings)
        columns = {"tile_id": np.arange(n), "tissue_id": np.zeros(n, int), "geometry": [_wkb(ring) for ring in rings]}
        geo = {"primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB"}}, "version": "1.0.0"}
        pq.write_table(
            pa.table(columns).replace_schema_metadata({"geo": json.dumps(geo)}), path / "shapes/tiles/shapes.parquet"
        )
    else:
        tiles.create_array("coords", data=np.concatenate(rings))
        tiles.create_array("offset0", data=np.arange(0, 5 * len(rings) + 1, 5))  # rings -> points
        tiles.create_array("offset1", data=np.arange(len(rings) + 1))  # polygons -> rings
        tiles.create_array("Index", data=np.arange(len(rings)))
    return path


def named(
    path: Path, x: np.ndarray, coords: np.ndarray | None, names: tuple[str, str] = ("features", "coords")
) -> Path:
    """Arrays under any names, in the kind of file that the ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {names[0]: x} | ({} if coords is None else {names[1]: coords})
    if path.suffix == ".npz":
        np.savez_compressed(path, **arrays)
    elif path.suffix == ".pt":
        torch.save({key: torch.from_numpy(value) for key, value in arrays.items()} | {"slide": path.stem}, path)
    else:
        with h5py.File(path, "w") as file:
            for key, value in arrays.items():
                file[key] = value
    return path


def parquet(path: Path, x: np.ndarray, coords: np.ndarray, *, lists: bool = False) -> Path:
    """A row per patch: numbered columns, or one of lists."""
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'jigsawmil[zarr]'")
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    columns: dict[str, Any] = {"x": coords[:, 0], "y": coords[:, 1]}
    numbered = {f"feature_{i}": x[:, i] for i in range(x.shape[1] - 1, -1, -1)}  # not in the order of their numbers
    columns |= {"embedding": list(x)} if lists else numbered
    pq.write_table(pa.table(columns), path)
    return path


def joined(path: Path, *encoders: Path) -> Path:
    """Ours: it names the features of several encoders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    places = [[os.path.relpath(one.parent, path.parent), one.name] for one in encoders]
    path.write_text(json.dumps({"features": places}))
    return path


def h5ad(path: Path, x: np.ndarray, coords: np.ndarray, edge: float = 512) -> Path:
    """As AnnData writes it: a dense X, further features and the centres of spots in obsm."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        for name, value in (("X", x), ("obsm/X_pca", x[:, :2]), ("obsm/spatial", coords + edge / 2)):
            file[name] = value
            file[name].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        file["uns/spatial/a/scalefactors/spot_diameter_fullres"] = edge
    return path


class Sample(NamedTuple):
    """One slide as a tool leaves it: its files lie in a folder of their own, all of which `tools.fuzz` damages."""

    path: Path
    options: dict[str, Any]  # of `read_bag`


def samples(folder: Path, n: int = N, d: int = D) -> dict[str, Sample]:
    """A sample of every format, by the format's name, and of its variants, by the name and a word.

    Every format has to be here: `test_every_format_is_recognised_by_its_own_reader_alone` and `make fuzz` use it."""
    x, coords = features(n, d), lattice(n)
    clam_patches(folder / "clam/patches/a.h5", coords)
    clam_patches(folder / "clam_pt/patches/a.h5", coords)
    trident_patches(folder / "trident_pt/patches/a_patches.h5", coords)
    for name in ("uni2h", "stamp", "torchmil_h5"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    config = {"tile_px": 256, "tile_um": 128}
    parts = [trident(folder / f"joined/features_{name}/a.h5", x, coords) for name in ("uni", "conch")]
    made = {
        "trident": trident(folder / "trident/features_uni/a.h5", x, coords),
        "trident pt": clam_pt(folder / "trident_pt/features_uni/a.pt", x),
        "clam": clam_h5(folder / "clam/h5_files/a.h5", x, coords),
        "clam pt": clam_pt(folder / "clam_pt/pt_files/a.pt", x),
        "uni2h": uni2h(folder / "uni2h/a.h5", x, coords),
        "stamp": stamp(folder / "stamp/a.h5", x, coords),
        "slideflow": slideflow(folder / "slideflow", "a", x, coords, edge=512, config=config),
        "slideflow npy": slideflow(folder / "slideflow_npy", "a", x, coords, edge=512, config=config, ending=".npy"),
        "torchmil": torchmil(folder / "torchmil", "a", x, coords),
        "torchmil h5": torchmil_h5(folder / "torchmil_h5/a.h5", x, coords),
        "named": named(folder / "named/a.h5", x, coords, ("embeddings", "xy")),
        "named npz": named(folder / "named_npz/a.npz", x, coords),
        "named pt": named(folder / "named_pt/a.pt", x, coords),
        "parquet": parquet(folder / "parquet/a.parquet", x, coords),
        "h5ad": h5ad(folder / "h5ad/a.h5ad", x, coords),
        "lazyslide": lazyslide(folder / "lazyslide/a.zarr", x, coords),
        "lazyslide ragged": lazyslide(folder / "lazyslide_ragged/a.zarr", x, coords, shapes="ragged"),
        "lazyslide zarr3": lazyslide(folder / "lazyslide_3/a.zarr", x, coords, shapes="ragged", zarr_format=3),
        "joined": joined(folder / "joined/both/a.joined", *parts),
    }
    options: dict[str, dict[str, Any]] = {
        "slideflow": {"mpp": 0.25},
        "slideflow npy": {"mpp": 0.25},
        "named": {"features_key": "embeddings", "coords_key": "xy", "unit": "px"},
        "named npz": {"unit": "px"},
        "named pt": {"unit": "px"},
        "parquet": {"unit": "px"},
        "h5ad": {"unit": "px", "patch_size": 512},
    }
    return {name: Sample(path, options.get(name, {})) for name, path in made.items()}


@pytest.fixture
def tools() -> SimpleNamespace:
    writers: list[Callable[..., Any]] = [
        features, lattice, trident, trident_patches, clam_h5, clam_patches, clam_pt, uni2h,
        stamp, slideflow, torchmil, torchmil_h5, lazyslide, named, parquet, h5ad, samples,
    ]  # fmt: skip
    return SimpleNamespace(**{writer.__name__: writer for writer in writers})
