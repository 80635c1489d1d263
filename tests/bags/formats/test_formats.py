import h5py
import numpy as np
import pytest

from jigsawmil.bags.formats import FORMATS, peek_bag, read_bag
from jigsawmil.bags.tile_spec import TileSpec
from jigsawmil.errors import ConfigError, FeatureError


def test_every_format_is_recognised_by_its_own_reader_alone(tools, tmp_path):
    files = tools.samples(tmp_path)
    assert {name.split()[0] for name in files} == set(FORMATS)
    for name, (path, options) in files.items():
        expected = name.split()[0]
        assert peek_bag(path, **options).format == expected
        assert read_bag(path, **options).source == expected
        assert read_bag(path, format=expected, **options).source == expected


def test_files_say_how_their_slides_were_cut(tools, tmp_path):
    """Or say too little, or nonsense: then nothing is made up."""
    x, coords = tools.features(), tools.lattice()
    assert peek_bag(tools.trident(tmp_path / "a.h5", x, coords, overlap=32)).tiles == TileSpec(overlap=32)
    ours = tools.trident(tmp_path / "b.h5", x, coords, target_mpp=0.44, tissue_share=0.5)
    assert peek_bag(ours).tiles == TileSpec(mpp=0.44, share=0.5)
    for attr in ("patch_size", "target_magnification"):
        for value in (..., "None", 0, -20):
            path = tools.trident(tmp_path / "c.h5", x, coords, **{attr: value})
            assert peek_bag(path).tiles is None
    assert peek_bag(tools.stamp(tmp_path / "d.h5", x, coords)).tiles == TileSpec(patch=224, mpp=256 / 224)
    assert peek_bag(tools.stamp(tmp_path / "e.h5", x, coords, tile_size_px=...)).tiles is None
    assert peek_bag(tools.lazyslide(tmp_path / "f.zarr", x, coords, shapes="ragged")).tiles == TileSpec()
    assert peek_bag(tools.uni2h(tmp_path / "g.h5", x, coords)).tiles is None


def test_a_stated_format_is_taken_at_its_word(tools, tmp_path):
    path = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice())
    assert read_bag(path, format="clam").source == "clam"
    with pytest.raises(FeatureError, match=r"\['coords', 'features'\], expected 'feats' or 'patch_embeddings'"):
        read_bag(path, format="stamp")


def test_an_unknown_format_names_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'trident'"):
        read_bag(tmp_path / "a.h5", format="Tridnet")


def test_unknown_keys_are_listed_beside_the_known(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["embeddings"], file["xy"] = np.zeros((3, 4)), np.zeros((3, 2))
    for function in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"'xy' may be them.*--coords-key"):
            function(tmp_path / "a.h5")


def test_coordinates_alone_are_no_bag(tools, tmp_path):
    path = tools.trident_patches(tmp_path / "patches/a_patches.h5", tools.lattice())
    with pytest.raises(FeatureError, match=r"\['coords'\].*'features'"):
        read_bag(path)


def test_paths_that_lead_nowhere_are_named(tmp_path):
    with pytest.raises(FeatureError, match=r"gone\.h5: no such file"):
        read_bag(tmp_path / "gone.h5")
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(FeatureError, match="is no feature file"):
        read_bag(str(tmp_path / "a.csv"))
    with pytest.raises(FeatureError, match=r"found a folder, expected one feature file.*SLIDE\.h5"):
        read_bag(tmp_path)
