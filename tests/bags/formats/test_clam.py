import h5py
import numpy as np
import pytest
import torch

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.errors import FeatureError


def test_the_edge_is_patch_size_times_downsample_of_the_patches_file(tools, tmp_path):
    x, coords = tools.features(), tools.lattice(step=1024)
    tools.clam_patches(tmp_path / "patches/s.1.h5", coords, level=1, downsample=4.0)
    bag = read_bag(tools.clam_h5(tmp_path / "h5_files/s.1.h5", x, coords))
    assert (bag.source, bag.slide_id, bag.patch_size, bag.unit) == ("clam", "s.1", 1024.0, "px")
    assert torch.equal(bag.features, torch.from_numpy(x))
    assert bag.coords.tolist() == coords.tolist()


def test_a_pyramid_factor_that_is_not_quite_whole_agrees_with_the_whole_edge(tools, tmp_path):
    coords = tools.lattice(step=1024)
    tools.clam_patches(tmp_path / "patches/a.h5", coords, downsample=4.00018)
    path = tools.clam_h5(tmp_path / "h5_files/a.h5", tools.features(), coords)
    assert read_bag(path, patch_size=1024).patch_size == pytest.approx(1024.046)
    with pytest.raises(FeatureError, match=r"1024\.0.*patch_size=256"):
        read_bag(path, patch_size=256)


def test_without_a_patches_file_the_edge_is_the_callers(tools, tmp_path):
    path = tools.clam_h5(tmp_path / "h5_files/a.h5", tools.features(), tools.lattice())
    assert read_bag(path).patch_size is None
    assert read_bag(path, patch_size=512, mpp=0.25).patch_size == 512


def test_patches_may_lie_elsewhere(tools, tmp_path):
    coords = tools.lattice()
    path = tools.clam_h5(tmp_path / "features/h5_files/a.h5", tools.features(), coords)
    tools.clam_patches(tmp_path / "cut/patches/a.h5", coords, level=0, downsample=1.0)
    assert read_bag(path, coords=tmp_path / "cut/patches").patch_size == 256
    assert read_bag(path, coords=tmp_path / "cut/patches/a.h5").patch_size == 256
    with pytest.raises(FeatureError, match="no coordinates of slide 'a'"):
        read_bag(path, coords=tmp_path / "cut")


@pytest.mark.parametrize("where", ["h5_files", "patches"])
def test_a_pt_takes_coordinates_from_the_h5_or_the_patches(tools, tmp_path, where):
    x, coords = tools.features(), tools.lattice()
    path = tools.clam_pt(tmp_path / "pt_files/s.1.pt", x)
    if where == "h5_files":
        tools.clam_h5(tmp_path / "h5_files/s.1.h5", x, coords)
    else:
        tools.clam_patches(tmp_path / "patches/s.1.h5", coords, downsample=2.0)
    bag = read_bag(path)
    assert (bag.source, bag.slide_id) == ("clam", "s.1")
    assert bag.patch_size == (512 if where == "patches" else None)
    assert torch.equal(bag.features, torch.from_numpy(x))
    assert bag.coords.tolist() == coords.tolist()
    assert (peek_bag(path).n, peek_bag(path).dim, peek_bag(path).dtype) == (*x.shape, "float32")


def test_a_pt_without_coordinates_says_so(tools, tmp_path):
    path = tools.clam_pt(tmp_path / "pt_files/a.pt", tools.features())
    assert not peek_bag(path).placed
    assert read_bag(path).coords.tolist() == [[0.0, 0.0]] * 7
    np.save(tmp_path / "where.npy", tools.lattice())
    assert read_bag(path, coords=tmp_path / "where.npy").coords.tolist() == tools.lattice().tolist()


def test_an_h5_with_features_alone_has_no_coordinates(tools, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = tools.features()
    assert not read_bag(tmp_path / "a.h5").placed


def test_fractions_are_not_clams_pixels(tools, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"], file["coords"] = tools.features(), tools.lattice() * 0.25 + 0.1
    with pytest.raises(FeatureError, match=r"fractional.*--unit.*px.*um"):
        peek_bag(tmp_path / "a.h5")
    kept = read_bag(tmp_path / "a.h5", unit="um")
    assert (kept.unit, kept.mpp) == ("um", None)
    turned = read_bag(tmp_path / "a.h5", unit="um", mpp=0.25)
    assert turned.unit == "px"
    assert torch.allclose(turned.coords, kept.coords / 0.25)


def test_whole_numbers_stored_as_floats_are_pixels(tools, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"], file["coords"] = tools.features(), tools.lattice().astype(np.float32)
    assert read_bag(tmp_path / "a.h5").unit == "px"
