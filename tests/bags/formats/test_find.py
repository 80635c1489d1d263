import shutil

import pytest

from jigsawmil.bags.formats import find_bags, read_bag
from jigsawmil.errors import FeatureError

IDS = ("0007", "TCGA-3C-AALI-01Z.F6E9A5DF", "s 1")


@pytest.fixture
def xy(tools):
    return tools.features(), tools.lattice()


def test_a_trident_folder_gives_ids_as_named(tools, tmp_path, xy):
    job = tmp_path / "20x_256px_0px_overlap"
    for slide in IDS:
        tools.trident(job / f"features_uni_v1/{slide}.h5", *xy)
        tools.trident_patches(job / f"patches/{slide}_patches.h5", xy[1])
    (job / "features_uni_v1/0007.h5.lock").touch()
    (job / "features_uni_v1/.hidden.h5").touch()
    (job / "_config_coords.json").touch()
    for folder in (job / "features_uni_v1", job, str(tmp_path)):
        found = find_bags(folder)
        assert list(found) == sorted(IDS)
        assert found["0007"] == job / "features_uni_v1/0007.h5"
    assert all(read_bag(path).slide_id == slide for slide, path in found.items())


def test_two_encoders_in_one_folder_are_refused_naming_both(tools, tmp_path, xy):
    for encoder in ("uni_v1", "conch"):
        for slide in IDS:
            tools.trident(tmp_path / f"features_{encoder}/{slide}.h5", *xy)
    with pytest.raises(FeatureError, match=r"3 slide ids.*\n.*0007: features_conch/0007\.h5, features_uni_v1/0007\.h5"):
        find_bags(tmp_path)


def test_slide_embeddings_beside_features_of_patches_are_passed_over(tools, tmp_path, xy):
    for slide in IDS:
        tools.trident(tmp_path / f"features_uni/{slide}.h5", *xy)
        tools.trident(tmp_path / f"slide_features_titan/{slide}.h5", *xy)
    assert {path.parent.name for path in find_bags(tmp_path).values()} == {"features_uni"}
    assert list(find_bags(tmp_path / "slide_features_titan")) == sorted(IDS)


def test_clams_pt_and_h5_are_one_slide(tools, tmp_path, xy):
    for slide in IDS:
        tools.clam_h5(tmp_path / f"h5_files/{slide}.h5", *xy)
        tools.clam_pt(tmp_path / f"pt_files/{slide}.pt", xy[0])
        tools.clam_patches(tmp_path / f"patches/{slide}.h5", xy[1])
    (tmp_path / "process_list_autogen.csv").touch()
    for folder, ending in ((tmp_path, ".h5"), (tmp_path / "h5_files", ".h5"), (tmp_path / "pt_files", ".pt")):
        found = find_bags(folder)
        assert list(found) == sorted(IDS)
        assert all(path.suffix == ending and read_bag(path).patch_size == 1024 for path in found.values())


def test_a_pt_and_an_h5_of_unlike_origin_are_two(tools, tmp_path, xy):
    tools.trident(tmp_path / "features_uni/a.h5", *xy)
    tools.clam_pt(tmp_path / "features_uni/a.pt", xy[0])
    with pytest.raises(FeatureError, match=r"a: features_uni/a\.h5, features_uni/a\.pt"):
        find_bags(tmp_path)


def test_slideflow_stamp_and_uni2h_folders(tools, tmp_path, xy):
    (tmp_path / "nested/cohort").mkdir(parents=True)
    for slide, ending in zip(IDS, (".npz", ".npy", ".npz"), strict=True):
        tools.slideflow(tmp_path / "sf", slide, *xy, edge=512, config={"tile_px": 256, "tile_um": 128}, ending=ending)
        tools.stamp(tmp_path / f"nested/cohort/{slide}.h5", *xy)
    assert {path.suffix for path in find_bags(tmp_path / "sf").values()} == {".pt"}
    assert list(find_bags(tmp_path / "sf")) == list(find_bags(tmp_path / "nested")) == sorted(IDS)


@pytest.mark.parametrize("encoder", ["", "features_UNI"])
def test_a_torchmil_root_lists_features_only(tools, tmp_path, xy, encoder):
    root = tmp_path / "labels" / "camelyon"  # a name above the folder says nothing about what is in it
    for slide in IDS:
        tools.torchmil(root, slide, *xy, encoder)
    assert find_bags(root) == find_bags(root / "features")
    assert find_bags(root)["s 1"] == root / "features" / encoder / "s 1.npy"


def test_a_zarr_store_is_one_slide_and_is_not_searched(tools, tmp_path, xy):
    for slide in IDS:
        store = tools.lazyslide(tmp_path / f"{slide}.zarr", *xy, shapes="ragged")
        shutil.copy(tools.trident(tmp_path / "a.h5", *xy), store / "inside.h5")
    (tmp_path / "a.h5").unlink()
    assert find_bags(tmp_path) == {slide: tmp_path / f"{slide}.zarr" for slide in sorted(IDS)}


def test_damaged_and_strange_files_are_listed_so_that_they_can_be_reported(tools, tmp_path, xy):
    import h5py

    tools.trident(tmp_path / "good.h5", *xy)
    (tmp_path / "cut.h5").write_bytes(b"\x89HDF")
    with h5py.File(tmp_path / "strange.h5", "w") as file:
        file["embeddings"] = xy[0]
    assert list(find_bags(tmp_path)) == ["cut", "good", "strange"]


def test_an_empty_or_missing_folder_is_named(tools, tmp_path, xy):
    tools.trident_patches(tmp_path / "patches/a_patches.h5", xy[1])
    with pytest.raises(FeatureError, match="no feature files"):
        find_bags(tmp_path)
    with pytest.raises(FeatureError, match="no such folder"):
        find_bags(tmp_path / "gone")
