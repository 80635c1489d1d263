import h5py
import numpy as np
import pytest
import torch

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.errors import FeatureError


@pytest.mark.parametrize("encoder", ["", "features_UNI"])  # as a user lays it out, and as its CAMELYON16 comes
def test_npy_folders(tools, tmp_path, encoder):
    x, coords = tools.features(), tools.lattice()
    path = tools.torchmil(tmp_path, "bag.1", x, coords, encoder)
    bag = read_bag(path)
    assert (bag.source, bag.slide_id, bag.unit, bag.patch_size) == ("torchmil", "bag.1", "px", None)
    assert torch.equal(bag.features, torch.from_numpy(x))
    assert bag.coords.tolist() == coords.tolist()
    info = peek_bag(path, patch_size=512)
    assert (info.n, info.dim, info.dtype, info.patch_size) == (*x.shape, "float32", 512)


def test_one_h5_with_all_keys(tools, tmp_path):
    bag = read_bag(tools.torchmil_h5(tmp_path / "a.h5", tools.features(), tools.lattice()))
    assert bag.source == "torchmil"
    assert bag.coords.tolist() == tools.lattice().tolist()


def test_h5_folders(tools, tmp_path):
    for key, value in (("features", tools.features()), ("coords", tools.lattice())):
        (tmp_path / key).mkdir()
        with h5py.File(tmp_path / key / "a.h5", "w") as file:
            file[key] = value
    bag = read_bag(tmp_path / "features/a.h5")
    assert (bag.source, bag.coords.tolist()) == ("torchmil", tools.lattice().tolist())


def test_cells_of_a_grid_are_not_taken_for_pixels(tools, tmp_path):
    path = tools.torchmil(tmp_path, "a", tools.features(), tools.lattice(step=1, origin=(0, 0)))
    for function in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"lie 1 apart, like cells of a grid.*--unit.*px"):
            function(path)
    assert read_bag(path, unit="px").coords.tolist() == tools.lattice(step=1, origin=(0, 0)).tolist()


def test_contours_that_restart_the_lattice_are_still_pixels(tools, tmp_path):
    coords = np.concatenate([tools.lattice(6), tools.lattice(6, origin=(1027, 90_000)), tools.lattice(1)])
    path = tools.torchmil(tmp_path, "a", tools.features(13), coords)  # columns 3 pixels apart, and a duplicate
    assert read_bag(path).unit == "px"


def test_pickled_arrays_are_not_opened(tools, tmp_path):
    path = tools.torchmil(tmp_path, "a", tools.features(), tools.lattice())
    np.save(path, np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(FeatureError, match="array of numbers"):
        read_bag(path)


def test_features_alone_have_no_coordinates(tools, tmp_path):
    path = tools.torchmil(tmp_path, "a", tools.features(), tools.lattice())
    assert read_bag(path).placed
    (tmp_path / "coords/a.npy").unlink()
    assert not read_bag(path).placed
