import h5py
import numpy as np
import pytest
import torch

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.errors import ConfigError, FeatureError


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_counted_and_located(tools, tmp_path, value):
    x = tools.features()
    x[2, 1] = x[2, 3] = x[5, 0] = value
    path = tools.trident(tmp_path / "a.h5", x, tools.lattice())
    with pytest.raises(FeatureError, match=r"3 features values are NaN or Inf, in 2 of 7 patches \(first rows: 2, 5\)"):
        read_bag(path)


def test_large_numbers_are_numbers(tools, tmp_path):
    x = np.full((7, 5), 3e38, np.float32)  # finite, though their sum is not
    assert read_bag(tools.trident(tmp_path / "a.h5", x, tools.lattice())).features.max() == np.float32(3e38)


def test_coordinates_have_to_be_numbers(tools, tmp_path):
    coords = tools.lattice().astype(float)
    coords[4, 1] = np.nan
    with pytest.raises(FeatureError, match=r"1 coords values.*first rows: 4"):
        read_bag(tools.trident(tmp_path / "a.h5", tools.features(), coords))


def test_duplicate_places_are_kept(tools, tmp_path):
    coords = tools.lattice()
    coords[3] = coords[0]
    assert read_bag(tools.trident(tmp_path / "a.h5", tools.features(), coords)).coords.tolist() == coords.tolist()


def test_lengths_have_to_match(tools, tmp_path):
    path = tools.trident(tmp_path / "a.h5", tools.features(7), tools.lattice(6))
    for function in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"a\.h5: 7 feature rows and 6 coordinates"):
            function(path)


def test_the_embedding_of_a_whole_slide_is_one_patch_without_coordinates(tools, tmp_path):
    x = tools.features()[0]
    for path in (
        tools.trident(
            tmp_path / "slide_features_titan/a.h5", x, tools.lattice()
        ),  # those of the patches, as TRIDENT has
        tools.clam_pt(tmp_path / "plain/a.pt", x),
    ):
        info, bag = peek_bag(path), read_bag(path)
        assert (info.n, info.dim, info.placed, info.patch_size, info.tiles) == (1, 5, False, None, None)
        assert (bag.placed, bag.features.tolist(), bag.coords.tolist()) == (False, [x.tolist()], [[0.0, 0.0]])


def test_coordinates_have_two_columns(tools, tmp_path):
    coords = np.concatenate([tools.lattice(), tools.lattice()[:, :1]], axis=1)
    with pytest.raises(FeatureError, match="3 columns, expected 2"):
        peek_bag(tools.trident(tmp_path / "a.h5", tools.features(), coords))


def test_the_caller_completes_the_file_but_does_not_overrule_it(tools, tmp_path):
    path = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice(), mpp=0.25)
    assert read_bag(path, mpp=0.25, patch_size=512, unit="px").mpp == 0.25
    for stated, both in (
        ({"patch_size": 256}, r"patch_size 512\.0, the caller patch_size=256"),
        ({"mpp": 0.5}, r"mpp 0\.25, the caller mpp=0\.5"),
        ({"unit": "um"}, "unit px, the caller unit=um"),
        ({"coords": tmp_path}, "its own coordinates"),
    ):
        for function in (peek_bag, read_bag):
            with pytest.raises(FeatureError, match=both):
                function(path, **stated)


@pytest.mark.parametrize("options", [{"mpp": 0}, {"mpp": float("nan")}, {"patch_size": -1}, {"unit": "mm"}])
def test_impossible_options_are_refused(tmp_path, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        read_bag(tmp_path / "a.h5", **options)


def test_features_are_one_contiguous_float32_block(tools, tmp_path):
    bag = read_bag(tools.uni2h(tmp_path / "a.h5", tools.features().astype(np.float16), tools.lattice()))
    assert bag.features.is_contiguous()
    assert (bag.features.dtype, bag.coords.dtype) == (torch.float32, torch.float64)


def test_peek_does_not_read_the_features(tmp_path):
    n, d = 1_000_000, 2560  # 10 GB, of which the disk holds none
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, columns, kind in (("features", d, h5py.h5t.IEEE_F32LE), ("coords", 2, h5py.h5t.STD_I64LE)):
            plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((n, columns)), plan)
        file["coords"].attrs["patch_size_level0"] = 512
    info = peek_bag(tmp_path / "a.h5")
    assert (info.n, info.dim, info.patch_size) == (n, d, 512)
