"""Arrays under names of one's own: in HDF5, .npz and .pt, and in the columns of Parquet."""

import numpy as np
import pytest

from jigsawmil.bags.formats import find_bags, peek_bag, read_bag
from jigsawmil.errors import FeatureError

KINDS = (".h5", ".npz", ".pt")


@pytest.mark.parametrize("ending", KINDS)
def test_usual_names_are_found_and_others_are_named(tools, tmp_path, ending):
    x, coords = tools.features(), tools.lattice()
    usual = tools.named(tmp_path / f"a/s.1{ending}", x, coords, ("embeddings", "coordinates"))
    other = tools.named(tmp_path / f"b/s.1{ending}", x, coords, ("z", "xy"))
    keys = {"features_key": "z", "coords_key": "xy"}
    for path, options in ((usual, {}), (other, keys)):
        with pytest.raises(FeatureError, match=r"no unit is stated.*--unit"):
            peek_bag(path, **options)
        bag = read_bag(path, unit="px", patch_size=512, **options)
        assert (bag.slide_id, bag.patch_size, bag.features.tolist()) == ("s.1", 512, x.tolist())
        assert bag.coords.tolist() == coords.tolist()
        assert list(find_bags(path.parent, features_key="z")) == ["s.1"]
        assert peek_bag(path, unit="um", mpp=0.5, **options).unit == "px"
    with pytest.raises(FeatureError, match="--features-key"):
        peek_bag(other)
    with pytest.raises(FeatureError, match=r"\['xy', 'z'\], and coords_key='places'"):
        peek_bag(other, features_key="z", coords_key="places")


@pytest.mark.parametrize("ending", KINDS)
def test_coordinates_are_not_passed_over(tools, tmp_path, ending):
    x = tools.features()
    with pytest.raises(FeatureError, match="'where' may be them"):
        peek_bag(tools.named(tmp_path / f"a{ending}", x, tools.lattice(), ("embedding", "where")))
    alone = tools.named(tmp_path / f"b{ending}", x, None, ("embedding", ""))
    assert (read_bag(alone).placed, read_bag(alone).features.tolist()) == (False, x.tolist())


def test_a_key_that_a_format_does_not_know(tools, tmp_path):
    path = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice())
    assert read_bag(path, features_key="features", unit="px").source == "named"
    torchmil = tools.torchmil(tmp_path / "t", "a", tools.features(), tools.lattice())
    with pytest.raises(FeatureError, match=r"none is called 'feats'\. Leave features_key"):
        peek_bag(torchmil, features_key="feats")


def test_indices_and_coordinates_are_no_bags(tools, tmp_path):
    x, coords = tools.features(), tools.lattice()
    tools.slideflow(tmp_path / "bags", "a", x, coords, edge=512)
    (tmp_path / "bags/coords").mkdir()
    np.savez(tmp_path / "bags/coords/b.npz", coords)
    assert list(find_bags(tmp_path / "bags")) == ["a"]


@pytest.mark.parametrize("lists", [False, True])
def test_columns_of_parquet(tools, tmp_path, lists):
    x, coords = tools.features(d=12), tools.lattice()
    path = tools.parquet(tmp_path / "a.parquet", x, coords, lists=lists)
    info = peek_bag(path, unit="px")
    assert (info.n, info.dim, info.dtype) == (7, 12, "float32")
    bag = read_bag(path, unit="px", features_key="embedding" if lists else "feature")
    assert bag.features.tolist() == x.tolist()  # columns by their numbers: 2 before 10
    assert bag.coords.tolist() == coords.tolist()
    assert read_bag(path, unit="px", coords_key="y, x").coords.tolist() == coords[:, ::-1].tolist()
    with pytest.raises(FeatureError, match=r"coords_key='left,top', expected one column"):
        peek_bag(path, coords_key="left,top")
    with pytest.raises(FeatureError, match=r"none is 'deep'\. Name one of lists"):
        peek_bag(path, features_key="deep")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FeatureError, match=r"a\.parquet: cannot be read as Parquet"):
        peek_bag(path, unit="px")


def test_anndata_of_others_states_no_unit(tools, tmp_path):
    x, coords = tools.features(), tools.lattice()
    path = tools.h5ad(tmp_path / "a.h5ad", x, coords)
    with pytest.raises(FeatureError, match=r"no unit is stated.*--unit"):
        peek_bag(path)
    with pytest.raises(FeatureError, match=r"patch centres, and the patch edge .* is unknown"):
        peek_bag(path, unit="px")
    bag = read_bag(path, unit="px", patch_size=512)
    assert (bag.features.tolist(), bag.coords.tolist()) == (x.tolist(), coords.tolist())
    assert read_bag(path, unit="px", patch_size=512, features_key="X_pca").dim == 2
    with pytest.raises(FeatureError, match=r"\['X', 'obsm/X_pca', 'obsm/spatial'\], expected dense features in 'uni'"):
        peek_bag(path, features_key="uni")
    assert list(find_bags(tmp_path)) == ["a"]
