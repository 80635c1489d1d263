import h5py
import numpy as np
import pytest
import torch

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.errors import FeatureError


def test_the_leading_batch_dimension_is_taken_off_both(tools, tmp_path):
    x, coords = tools.features(d=1536), tools.lattice()
    bag = read_bag(tools.uni2h(tmp_path / "TCGA-A1.uuid.h5", x, coords), patch_size=512)
    assert (bag.source, bag.slide_id, bag.patch_size) == ("uni2h", "TCGA-A1.uuid", 512)
    assert torch.equal(bag.features, torch.from_numpy(x))
    assert bag.coords.tolist() == coords.tolist()


def test_a_slide_of_one_patch_is_no_batch_dimension(tools, tmp_path):
    bag = read_bag(tools.uni2h(tmp_path / "a.h5", tools.features(1), tools.lattice(1)))
    assert bag.features.shape == (1, 5)
    assert bag.coords.tolist() == [[1024, 4096]]


def test_attributes_of_coords_give_the_edge(tools, tmp_path):
    path = tools.uni2h(tmp_path / "a.h5", tools.features(), tools.lattice())
    with h5py.File(path, "a") as file:
        file["coords"].attrs["patch_size_level0"] = 512
    assert peek_bag(path).patch_size == 512


@pytest.mark.parametrize("shape", [(1, 0, 1536), (0, 1536), (0,)])
def test_an_empty_slide_is_counted_by_peek_and_refused_by_read(tmp_path, shape):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = np.zeros(shape, np.float32)
        file["coords"] = np.zeros((*shape[:-1], 2) if len(shape) > 1 else (0,), np.int64)
    assert peek_bag(tmp_path / "a.h5").n == 0
    with pytest.raises(FeatureError, match=r"a\.h5: the slide is empty"):
        read_bag(tmp_path / "a.h5")


def test_two_slides_in_one_file_are_refused(tools, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"], file["coords"] = np.zeros((2, 4, 3)), np.zeros((2, 4, 2))
    with pytest.raises(FeatureError, match=r"shape \(2, 4, 3\)"):
        peek_bag(tmp_path / "a.h5")
