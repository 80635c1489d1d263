import pytest
import torch

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.errors import FeatureError

CONFIG = {"tile_px": 256, "tile_um": 128}


@pytest.mark.parametrize("ending", [".npz", ".npy"])
def test_centres_become_corners(tools, tmp_path, ending):
    x, corners = tools.features(), tools.lattice(step=512)
    path = tools.slideflow(tmp_path, "s.1", x, corners, edge=512, config=CONFIG, ending=ending)
    bag = read_bag(path, mpp=0.25)
    assert (bag.source, bag.slide_id, bag.encoder) == ("slideflow", "s.1", "CTransPathFeatures")
    assert (bag.patch_size, bag.mpp, bag.unit) == (512, 0.25, "px")
    assert torch.equal(bag.features, torch.from_numpy(x))
    assert bag.coords.tolist() == corners.tolist()


def test_the_edge_is_rounded_down_as_slideflow_does(tools, tmp_path):
    mpp = 0.2527
    edge = int(128 / mpp)  # 506, not 506.53
    corners = tools.lattice(step=edge)
    path = tools.slideflow(tmp_path, "a", tools.features(), corners, edge=edge, config=CONFIG)
    bag = read_bag(path, mpp=mpp)
    assert bag.patch_size == edge
    assert bag.coords.tolist() == corners.tolist()


def test_a_magnification_means_the_nearest_pyramid_level(tools, tmp_path):
    corners = tools.lattice(step=1024)
    path = tools.slideflow(
        tmp_path, "a", tools.features(), corners, edge=1024, config={"tile_px": 256, "tile_um": "10x"}
    )
    bag = read_bag(path, mpp=0.2527)  # 10x is 3.96 times coarser; the level is 4
    assert (bag.patch_size, bag.coords.tolist()) == (1024, corners.tolist())


def test_without_resolution_the_corners_are_unknown(tools, tmp_path):
    path = tools.slideflow(tmp_path, "a", tools.features(), tools.lattice(), edge=512, config=CONFIG)
    for function in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"centres.*--slide-mpp, mpp=.*--patch-size, patch_size="):
            function(path)
    assert read_bag(path, patch_size=512).coords.tolist() == tools.lattice().tolist()


def test_a_folder_without_config_needs_the_edge(tools, tmp_path):
    path = tools.slideflow(tmp_path, "a", tools.features(), tools.lattice(), edge=512)
    with pytest.raises(FeatureError, match="patch_size="):
        read_bag(path, mpp=0.25)
    assert read_bag(path, patch_size=512, mpp=0.25).coords.tolist() == tools.lattice().tolist()


def test_an_edge_against_the_config_is_refused(tools, tmp_path):
    path = tools.slideflow(tmp_path, "a", tools.features(), tools.lattice(), edge=512, config=CONFIG)
    with pytest.raises(FeatureError, match=r"patch_size 512\.0, the caller patch_size=256"):
        read_bag(path, mpp=0.25, patch_size=256)


def test_a_damaged_config_is_named(tools, tmp_path):
    path = tools.slideflow(tmp_path, "a", tools.features(), tools.lattice(), edge=512)
    (tmp_path / "bags_config.json").write_text("{")
    with pytest.raises(FeatureError, match=r"bags_config\.json: not valid JSON"):
        read_bag(path, mpp=0.25)
