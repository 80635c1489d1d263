import sys

import numpy as np
import pytest
import torch

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.errors import FeatureError


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("shapes", ["parquet", "ragged"])
def test_table_and_polygons_become_a_bag(tools, tmp_path, shapes, zarr_format):
    x, corners = tools.features(), tools.lattice()
    path = tools.lazyslide(tmp_path / "GTEX-1.2.zarr", x, corners, shapes=shapes, zarr_format=zarr_format)
    bag = read_bag(path)
    assert (bag.source, bag.slide_id, bag.encoder) == ("lazyslide", "GTEX-1.2", "uni")
    assert (bag.patch_size, bag.mpp, bag.unit) == (512, 0.25, "px")
    assert torch.equal(bag.features, torch.from_numpy(x))
    assert bag.coords.tolist() == corners.tolist()
    info = peek_bag(path)
    assert (info.n, info.dim, info.dtype, info.patch_size) == (*x.shape, "float32", 512)


@pytest.mark.parametrize("shapes", ["parquet", "ragged"])
def test_rows_are_joined_by_tile_id_not_by_order(tools, tmp_path, shapes):
    corners, ids = tools.lattice(7), np.array([6, 0, 3])
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(3), corners, tile_ids=ids, shapes=shapes)
    assert read_bag(path).coords.tolist() == corners[ids].tolist()


def test_tiles_that_no_longer_exist_are_counted(tools, tmp_path):
    ids = np.array([0, 99, 1])
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(3), tools.lattice(), tile_ids=ids, shapes="ragged")
    with pytest.raises(FeatureError, match="1 of 3 feature rows"):
        peek_bag(path)


def test_of_several_models_one_is_named(tools, tmp_path):
    tables = ("uni_tiles", "conch_tiles", "conch_tiles_text_similarity")
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(), tools.lattice(), tables=tables, shapes="ragged")
    with pytest.raises(FeatureError, match=r"conch_tiles, uni_tiles\. .*--features-key conch_tiles"):
        read_bag(path)
    ways = [(path / "tables" / "uni_tiles", None), (path, "uni_tiles"), (path, "uni")]
    for where, key in ways:
        bag = read_bag(where, features_key=key)
        assert (bag.encoder, bag.slide_id) == ("uni", "a")
    with pytest.raises(FeatureError, match=r"no feature table 'virchow'; found tables \['conch_tiles'"):
        peek_bag(path, features_key="virchow")


def test_a_table_under_a_name_of_its_own(tools, tmp_path):
    """What LazySlide writes with key_added."""
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(), tools.lattice(), tables=("mine",), shapes="ragged")
    with pytest.raises(FeatureError, match="Name a table of another name"):
        read_bag(path)
    bag = read_bag(path, features_key="mine")
    assert (bag.encoder, bag.coords.tolist()) == ("mine", tools.lattice().tolist())


def test_the_resolution_of_a_slide_that_states_none_is_that_of_its_tiles(tools, tmp_path):
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(), tools.lattice(), slide_mpp=None, shapes="ragged")
    assert read_bag(path).mpp == 0.25  # tiles at 0.5 microns, made of two pixels each
    zarr = pytest.importorskip("zarr")
    root = zarr.open_group(path)
    spec = root.attrs["tile_spec"]
    root.attrs["tile_spec"] = {"tiles": spec["tiles"] | {"mpp": None}}
    assert read_bag(path).mpp is None
    assert read_bag(path, mpp=0.3).mpp == 0.3


def test_a_store_without_features_lists_what_it_has(tools, tmp_path):
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(), tools.lattice(), tables=("cells",), shapes="ragged")
    with pytest.raises(FeatureError, match=r"found tables \['cells'\] and shapes \['tiles'\]"):
        peek_bag(path)


@pytest.mark.parametrize(("package", "shapes"), [("zarr", "ragged"), ("pyarrow.parquet", "parquet")])
def test_a_missing_package_names_the_extra(tools, tmp_path, monkeypatch, package, shapes):
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(), tools.lattice(), shapes=shapes)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FeatureError, match=r"pip install 'jigsawmil\[zarr\]'"):
        peek_bag(path)


def test_oblong_tiles_are_refused(tools, tmp_path):
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(), tools.lattice(), shapes="ragged")
    zarr = pytest.importorskip("zarr")
    points = zarr.open_group(path)["shapes/tiles/coords"]
    points[:] = points[:] * [1, 2]
    with pytest.raises(FeatureError, match="512 to 1024"):
        peek_bag(path)


def test_shapes_that_are_no_tiles_are_refused(tools, tmp_path):
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(), tools.lattice(), shapes="ragged")
    zarr = pytest.importorskip("zarr")
    zarr.open_group(path)["shapes/tiles"].create_array("coords", data=np.ones((21, 2)), overwrite=True)  # triangles
    with pytest.raises(FeatureError, match="not boxes"):
        peek_bag(path)


def test_an_empty_store_is_counted(tools, tmp_path):
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(0), tools.lattice(0), shapes="parquet")
    assert peek_bag(path).n == 0
    with pytest.raises(FeatureError, match="empty"):
        read_bag(path)


def test_a_damaged_parquet_file_is_named(tools, tmp_path):
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(), tools.lattice(), shapes="parquet")
    (path / "shapes/tiles/shapes.parquet").write_bytes(b"PAR1")
    with pytest.raises(FeatureError, match=r"shapes\.parquet: cannot be read"):
        peek_bag(path)
