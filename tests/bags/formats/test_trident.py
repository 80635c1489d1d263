import os

import h5py
import numpy as np
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import peek_bag, read_bag, write_bag
from jigsawmil.errors import FeatureError


def bag_of(x, coords, **fields):
    return Bag(slide_id="s1", features=torch.from_numpy(x), coords=torch.from_numpy(coords).double(), **fields)


def test_a_40x_slide_tiled_at_20x_steps_by_level_0_pixels(tools, tmp_path):
    x, coords = tools.features(), tools.lattice(step=512)
    bag = read_bag(tools.trident(tmp_path / "features_uni_v1/TCGA-3C-AALI-01Z.F6E9.h5", x, coords))
    assert bag.source == "trident"
    assert bag.slide_id == "TCGA-3C-AALI-01Z.F6E9"
    assert (bag.patch_size, bag.unit, bag.mpp, bag.encoder) == (512.0, "px", None, "uni_v1")
    assert torch.equal(bag.features, torch.from_numpy(x))
    assert bag.coords.dtype == torch.float64
    assert bag.coords.tolist() == coords.tolist()
    assert bag.centroids[0].tolist() == [1024 + 256, 4096 + 256]


@pytest.mark.parametrize("missing", [..., None])  # left out, or the string 'None'
def test_the_level_0_edge_follows_from_the_magnifications(tools, tmp_path, missing):
    path = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice(), patch_size_level0=missing)
    assert read_bag(path).patch_size == 512


def test_without_magnifications_patch_size_alone_says_nothing_about_level_0(tools, tmp_path):
    silent = dict.fromkeys(("patch_size_level0", "level0_magnification", "target_magnification"))
    path = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice(), **silent)
    assert read_bag(path).patch_size is None
    assert read_bag(path, patch_size=512).patch_size == 512


def test_coordinates_cut_by_clam_keep_clams_attributes(tools, tmp_path):
    dropped = dict.fromkeys(("patch_size_level0", "level0_magnification", "target_magnification"), ...)
    x, coords = tools.features(), tools.lattice()
    level1 = tools.trident(tmp_path / "a.h5", x, coords, patch_level=1, downsample=(4.0, 4.0), **dropped)
    level0 = tools.trident(tmp_path / "b.h5", x, coords, patch_level=0, custom_downsample=2, **dropped)
    unknown = tools.trident(tmp_path / "c.h5", x, coords, patch_level=1, **dropped)
    assert [read_bag(path).patch_size for path in (level1, level0, unknown)] == [1024, 512, None]


def test_a_pt_of_numpy_finds_its_coordinates_in_the_patches_folder(tools, tmp_path):
    x, coords = tools.features().astype(np.float16), tools.lattice()
    tools.trident_patches(tmp_path / "patches/001.5_patches.h5", coords)
    path = tmp_path / "features_conch_v15/001.5.pt"
    path.parent.mkdir()
    torch.save(x, path)
    bag = read_bag(path)
    assert (bag.source, bag.slide_id, bag.patch_size, bag.encoder) == ("trident", "001.5", 512, "conch_v15")
    assert torch.equal(bag.features, torch.from_numpy(x).float())
    assert bag.coords.tolist() == coords.tolist()
    assert (peek_bag(path).n, peek_bag(path).dtype) == (len(x), "float16")


def test_the_encoder_of_older_files_is_in_the_folders_name(tools, tmp_path):
    path = tools.trident(tmp_path / "features_gigapath/a.h5", tools.features(), tools.lattice())
    with h5py.File(path, "a") as file:
        del file["features"].attrs["encoder"]
    assert read_bag(path).encoder == "gigapath"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"patch_size": 512.0, "mpp": 0.2527, "encoder": "uni_v1"},
        {"patch_size": 1010.25, "mpp": 1 / 3},
    ],
)
@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_what_is_written_is_read_back_exactly(tools, tmp_path, fields, shift):
    bag = bag_of(tools.features(), tools.lattice() + shift, **fields)
    write_bag(bag, tmp_path / "s1.h5")
    again = read_bag(tmp_path / "s1.h5")
    assert again.source == "trident"
    assert torch.equal(again.features, bag.features)
    assert torch.equal(again.coords, bag.coords)
    for name in ("slide_id", "patch_size", "mpp", "unit", "encoder"):
        assert getattr(again, name) == getattr(bag, name)


def test_the_written_file_is_tridents(tools, tmp_path):
    write_bag(bag_of(tools.features(), tools.lattice(), patch_size=512.0), tmp_path / "s1.h5")
    reference = tools.trident(tmp_path / "t.h5", tools.features(), tools.lattice())
    with h5py.File(tmp_path / "s1.h5") as ours, h5py.File(reference) as theirs:
        assert set(ours) == set(theirs)
        for key in theirs:
            assert ours[key].dtype == theirs[key].dtype
            assert ours[key].maxshape == theirs[key].maxshape  # can be appended to
            assert set(theirs[key].attrs) - {"savetodir", "level0_magnification", "target_magnification"} <= set(
                ours[key].attrs
            )
        assert ours["coords"].attrs["patch_size_level0"] == 512
        assert ours["coords"].attrs["level0_width"] == "None"


def test_magnifications_are_numbers_or_left_out(tools, tmp_path):
    """TRIDENT computes with them; without them it takes patches as CLAM's. Neither says how the slide was cut."""
    for mpp in (0.25, None):
        write_bag(bag_of(tools.features(), tools.lattice(), patch_size=512.0, mpp=mpp), tmp_path / "s1.h5")
        with h5py.File(tmp_path / "s1.h5") as file:
            attrs = dict(file["coords"].attrs)
        names = ("level0_magnification", "target_magnification")
        assert [attrs.get(name) for name in names] == ([None, None] if mpp is None else [40, 40])
        assert (attrs["patch_size"], attrs["patch_level"], attrs["custom_downsample"]) == (512, 0, 1)
        assert peek_bag(tmp_path / "s1.h5").tiles is None


def test_a_failed_write_leaves_the_old_file_and_no_debris(tools, tmp_path, monkeypatch):
    path = tmp_path / "s1.h5"
    write_bag(bag_of(tools.features(), tools.lattice()), path)
    before = path.read_bytes()

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(FeatureError, match="No space left"):
        write_bag(bag_of(2 * tools.features(), tools.lattice()), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_microns_do_not_fit_tridents_layout(tools, tmp_path):
    with pytest.raises(FeatureError, match="mpp="):
        write_bag(bag_of(tools.features(), tools.lattice(), unit="um"), tmp_path / "s1.h5")


def test_an_unwritable_place_is_named(tools, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FeatureError, match="cannot be written"):
        write_bag(bag_of(tools.features(), tools.lattice()), tmp_path / "file" / "s1.h5")
