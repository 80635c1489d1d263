import json

import h5py
import numpy as np
import pytest
import torch

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.errors import FeatureError

UM = 256.0


@pytest.fixture
def coords(tools):
    return tools.lattice(step=256, origin=(0, 512)).astype(np.float32)


def test_microns_stay_microns_until_the_resolution_is_stated(tools, tmp_path, coords):
    x = tools.features()
    path = tools.stamp(tmp_path / "a.b.h5", x, coords)
    bag = read_bag(path)
    assert (bag.source, bag.slide_id, bag.encoder) == ("stamp", "a.b", "mahmood-uni")
    assert (bag.unit, bag.patch_size, bag.mpp, bag.microns_per_unit) == ("um", UM, None, 1.0)
    assert bag.coords.tolist() == coords.tolist()
    assert torch.equal(bag.features, torch.from_numpy(x.astype(np.float16)).float())

    pixels = read_bag(path, mpp=0.25)
    assert (pixels.unit, pixels.patch_size, pixels.mpp) == ("px", UM / 0.25, 0.25)
    assert torch.equal(pixels.coords, bag.coords / 0.25)
    assert pixels.centroids[0].tolist() == [512, 2048 + 512]


def test_the_pixels_the_encoder_saw_are_no_resolution_of_level_0(tools, tmp_path, coords):
    info = peek_bag(tools.stamp(tmp_path / "a.h5", tools.features(), coords, tile_size_px=224))
    assert (info.mpp, info.dtype) == (None, "float16")


def test_older_files_say_tile_size_and_unit(tools, tmp_path, coords):
    dropped = dict.fromkeys(("stamp_version", "tile_size_um", "tile_size_px", "feat_type", "code_hash"), ...)
    bag = read_bag(tools.stamp(tmp_path / "a.h5", tools.features(), coords, tile_size=UM, **dropped))
    assert (bag.unit, bag.patch_size) == ("um", UM)


def test_patch_embeddings_is_another_name_of_feats(tools, tmp_path, coords):
    bag = read_bag(tools.stamp(tmp_path / "a.h5", tools.features(), coords, key="patch_embeddings"))
    assert (bag.source, len(bag)) == ("stamp", len(coords))


def test_a_signed_file_without_unit_is_in_microns(tools, tmp_path, coords):
    assert read_bag(tools.stamp(tmp_path / "a.h5", tools.features(), coords, unit=...)).unit == "um"


def test_an_unsigned_file_without_unit_is_refused_by_peek_and_read(tools, tmp_path, coords):
    nothing = dict.fromkeys(("stamp_version", "unit", "tile_size_um", "tile_size_px", "feat_type"), ...)
    path = tools.stamp(tmp_path / "a.h5", tools.features(), coords, **nothing)
    for function in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"a\.h5: no unit is stated.*--unit.*px.*um"):
            function(path)
    assert read_bag(path, unit="um", mpp=0.5).coords.tolist() == (coords / 0.5).tolist()
    assert read_bag(path, unit="px").coords.tolist() == coords.tolist()


def test_stamp_1_counts_in_pixels_of_its_tiles(tools, tmp_path):
    """Tiles of 224 pixels that cover 256 microns, which info.json alone says: without it nothing is made up."""
    old = dict.fromkeys(("stamp_version", "unit", "tile_size_um", "tile_size_px", "feat_type", "code_hash"), ...)
    old["extractor"] = "STAMP-extract-1.0.3_15-04-2024_mahmood-uni-56ef09b4"
    grid = tools.lattice(step=224, origin=(0, 448))
    path = tools.stamp(tmp_path / "a.h5", tools.features(), grid, **old)
    for function in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"a\.h5: written by STAMP 1.*info\.json"):
            function(path, mpp=0.5)
    about = {"extractor": old["extractor"], "microns": 256, "patch_size": [224, 224], "augmented_repetitions": 0}
    (tmp_path / "info.json").write_text(json.dumps(about))
    bag = read_bag(path, mpp=0.5)
    assert bag.coords.tolist() == pytest.approx(grid / 224 * 512)
    assert (bag.patch_size, bag.unit) == (512, "px")
    assert read_bag(path).coords.tolist() == pytest.approx(grid / 224 * 256)
    (tmp_path / "info.json").write_text("{}")
    with pytest.raises(FeatureError, match="written by STAMP 1"):
        peek_bag(path)


def test_a_unit_against_the_files_is_refused(tools, tmp_path, coords):
    path = tools.stamp(tmp_path / "a.h5", tools.features(), coords)
    with pytest.raises(FeatureError, match="states unit um, the caller unit=px"):
        read_bag(path, unit="px")
    with pytest.raises(FeatureError, match=r"patch_size 512\.0, the caller patch_size=256"):
        read_bag(path, mpp=0.5, patch_size=256)
    assert read_bag(path, mpp=0.5, patch_size=512).patch_size == 512


@pytest.mark.parametrize("kind", ["slide", "patient"])
def test_slide_and_patient_embeddings_have_no_coordinates(tools, tmp_path, kind):
    x = tools.features(1)
    for name, stored in (("a", x), ("b", x[0])):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["feats"] = stored
            file.attrs.update({"feat_type": kind, "encoder": "titan", "stamp_version": "2.3.0"})
        bag = read_bag(tmp_path / f"{name}.h5")
        assert (bag.placed, bag.encoder, bag.features.tolist()) == (False, "titan", x.tolist())


def test_an_unknown_unit_is_named(tools, tmp_path, coords):
    with pytest.raises(FeatureError, match="unit 'mm'"):
        peek_bag(tools.stamp(tmp_path / "a.h5", tools.features(), coords, unit="mm"))


def test_features_without_coordinates_say_so(tools, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["patch_embeddings"] = tools.features()
    info = peek_bag(tmp_path / "a.h5")
    assert (info.n, info.placed) == (7, False)
