"""From painted slides to feature files with an encoder of a few numbers: whole, once, alike, and readable."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.bags.tile_spec import TileSpec
from jigsawmil.errors import ConfigError, SlideError
from jigsawmil.slides.encoders import Encoder
from jigsawmil.slides.encoders.preprocess import preprocess
from jigsawmil.slides.extract_many import extract_here
from jigsawmil.slides.extract_one import ExtractSettings, extract_slide, features_folder, geometry, read_batches
from jigsawmil.slides.slide import open_slide
from jigsawmil.slides.tiles import make_tiles
from jigsawmil.slides.tissue import find_tissue
from jigsawmil.synthetic.painter import CELL, Plan, paint, write_slide

SETTINGS = ExtractSettings(workers=1, batch=4)


def test_features_are_those_of_the_tiles_and_say_where_they_lie(
    slides: dict[str, Path], encoder: Encoder, tmp_path: Path
) -> None:
    found = extract_slide(slides["0001"], tmp_path, encoder, SETTINGS)
    assert (found.status, found.error) == ("done", None)
    file = tmp_path / "20x_256px_0px_overlap" / "features_colour" / "0001.h5"
    bag = read_bag(file)
    assert len(bag) == found.tiles >= 6
    assert (bag.patch_size, bag.mpp, bag.encoder, bag.unit, bag.source) == (256, 0.5, "colour", "px", "trident")
    assert bag.dim == 6
    with open_slide(slides["0001"]) as slide:
        tiles = make_tiles(slide, find_tissue(slide))
        assert np.array_equal(bag.coords.numpy(), tiles.coords)
        for (x, y), feature in zip(bag.coords.tolist(), bag.features, strict=True):
            pixels = torch.from_numpy(slide.read(x, y, CELL, CELL).copy())[None]
            x = preprocess(pixels, encoder.spec)
            expected = torch.cat([x.mean(dim=[2, 3]), x.std(dim=[2, 3])], dim=1)
            assert torch.allclose(feature, expected[0], atol=1e-5)
    with h5py.File(file) as opened:  # as TRIDENT has it
        attrs = dict(opened["coords"].attrs)
        assert (attrs["patch_size"], attrs["patch_size_level0"], attrs["target_magnification"]) == (256, 256, 20)
        assert (attrs["level0_width"], attrs["level0_height"]) == slide.size
    with h5py.File(tmp_path / "20x_256px_0px_overlap" / "patches" / "0001_patches.h5") as opened:
        assert np.array_equal(opened["coords"][:], tiles.coords)
        assert dict(opened["coords"].attrs) == attrs


def test_masks_and_pictures_are_written_for_a_look(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    found = extract_slide(slides["0001"], tmp_path, encoder, SETTINGS)
    mask = np.asarray(Image.open(tmp_path / "contours" / "0001.png"))
    with open_slide(slides["0001"]) as slide:
        assert np.array_equal(mask > 0, find_tissue(slide).mask)
    assert found.tissue_mm2 == pytest.approx((mask > 0).sum() * 0.008**2, rel=1e-6)
    assert json.loads((tmp_path / "contours_geojson" / "0001.geojson").read_text())["features"]
    preview = np.asarray(Image.open(tmp_path / "20x_256px_0px_overlap" / "visualization" / "0001.png"))
    assert preview.std() > 5


def test_the_same_slide_gives_the_same_bytes(
    slides: dict[str, Path], encoder: Encoder, tmp_path: Path, digests: Callable[[Path, str], dict[str, str]]
) -> None:
    for out in ("a", "b"):
        extract_slide(slides["0001"], tmp_path / out, encoder, SETTINGS)
    extract_slide(slides["0001"], tmp_path / "c", encoder, replace(SETTINGS, workers=3))
    first, second, more = (digests(tmp_path / out, "*.*") for out in ("a", "b", "c"))
    assert len(first) == 5
    assert first == second == more


def test_other_settings_have_a_folder_of_their_own(
    slides: dict[str, Path], encoder: Encoder, script: Path, tmp_path: Path
) -> None:
    other = Encoder(replace(encoder.spec, name="other"), encoder.model)
    runs = [
        (encoder, SETTINGS, "20x_256px_0px_overlap/features_colour", 256),
        (encoder, replace(SETTINGS, tiles=TileSpec(patch=128)), "20x_128px_0px_overlap/features_colour", 128),
        (encoder, replace(SETTINGS, tiles=TileSpec(mpp=1.0)), "10x_256px_0px_overlap/features_colour", 512),
        (encoder, replace(SETTINGS, tiles=TileSpec(overlap=64)), "20x_256px_64px_overlap/features_colour", 256),
        (other, SETTINGS, "20x_256px_0px_overlap/features_other", 256),
    ]
    counts = []
    for which, settings, folder, edge in runs:
        found = extract_slide(slides["0001"], tmp_path, which, settings)
        assert found.status == "done"
        assert peek_bag(tmp_path / folder / "0001.h5").patch_size == edge
        counts.append(found.tiles)
    assert counts[1] > 2 * counts[0] > 2 * counts[2]
    assert counts[3] > counts[0] == counts[4]


def test_a_broken_slide_fails_alone(slides: dict[str, Path], script: Path, tmp_path: Path) -> None:
    whole = slides["0002"].read_bytes()
    (tmp_path / "cut.svs").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.svs").write_text("no slide")
    files = [slides["0001"], tmp_path / "cut.svs", tmp_path / "text.svs", tmp_path / "gone.svs", slides["0003"]]
    found = list(extract_here(files, tmp_path / "out", {"name": str(script)}, SETTINGS))
    assert [one.status for one in found] == ["done", "failed", "failed", "failed", "done"]
    for one, name in zip(found[1:4], ("cut.svs", "text.svs", "gone.svs"), strict=True):
        assert name in str(one.error)
    folder = tmp_path / "out" / "20x_256px_0px_overlap" / "features_colour"
    left = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    assert left == ["0001.h5", "0003.h5", "extracted.csv"]


def test_pixels_that_cannot_be_read_fail_the_slide_and_leave_nothing(
    slides: dict[str, Path], encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jigsawmil.slides.tiles import Tiles

    read = Tiles.read

    def broken(self: Tiles, slide: object, index: int) -> np.ndarray:
        if index == 5:
            raise SlideError("0001.tif: the pixels at (256, 512) cannot be read.")
        return read(self, slide, index)  # type: ignore[arg-type]

    monkeypatch.setattr(Tiles, "read", broken)
    found = extract_slide(slides["0001"], tmp_path, encoder, SETTINGS)
    assert (found.status, found.error) == ("failed", "0001.tif: the pixels at (256, 512) cannot be read.")
    assert not list(tmp_path.rglob("*.h5"))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("extract")]
    monkeypatch.undo()
    assert extract_slide(slides["0001"], tmp_path, encoder, SETTINGS).status == "done"  # a failure is tried again


def test_a_slide_without_tissue_is_noted_once(encoder: Encoder, tmp_path: Path) -> None:
    write_slide(np.full((1024, 1024, 3), 244, np.uint8), tmp_path / "glass.tif")
    found = extract_slide(tmp_path / "glass.tif", tmp_path / "out", encoder, SETTINGS)
    assert (found.status, found.tiles, found.tissue_mm2) == ("no tissue", 0, 0)
    note = tmp_path / "out" / "20x_256px_0px_overlap" / "features_colour" / "glass.no-tissue"
    assert "no tile with enough tissue" in note.read_text()
    again = extract_slide(tmp_path / "glass.tif", tmp_path / "out", encoder, SETTINGS)
    assert again.status == "no tissue"  # each time: it is not among the features


def test_outlines_of_the_user_are_obeyed(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    square = [[256, 256], [768, 256], [768, 512], [256, 512], [256, 256]]  # two tiles
    outline = {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [square]}}
    (tmp_path / "0001.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [outline]}))
    masked = replace(SETTINGS, masks=tmp_path, tiles=TileSpec(share=0.5, drawn=True))
    found = extract_slide(slides["0001"], tmp_path / "out", encoder, masked)
    assert found.tiles == 2
    bag = read_bag(features_folder(tmp_path / "out", "colour", masked) / "0001.h5")
    assert bag.coords.tolist() == [[256, 256], [512, 256]]
    other = extract_slide(slides["0002"], tmp_path / "out", encoder, masked)
    assert other.status == "failed"
    assert "no 0002.geojson in" in str(other.error)


def test_a_slide_that_says_nothing_of_its_pixels_asks_for_the_right_option(encoder: Encoder, tmp_path: Path) -> None:
    plan = Plan(np.array([[0, 0], [1, 0]]), np.array([0, 1]), ("tumour", "stroma"))
    Image.fromarray(paint(plan, np.random.default_rng(0)).image).save(tmp_path / "plain.png")
    found = extract_slide(tmp_path / "plain.png", tmp_path / "out", encoder, SETTINGS)
    assert found.status == "failed"
    assert "--slide-mpp (mpp= in Python)" in str(found.error)
    stated = replace(SETTINGS, slide_mpp=0.5)
    assert extract_slide(tmp_path / "plain.png", tmp_path / "out", encoder, stated).status == "done"
    assert read_bag(features_folder(tmp_path / "out", "colour", stated) / "plain.h5").mpp == 0.5


def test_a_stated_resolution_that_contradicts_the_slide_is_refused(
    slides: dict[str, Path], encoder: Encoder, tmp_path: Path
) -> None:
    found = extract_slide(slides["0001"], tmp_path, encoder, replace(SETTINGS, slide_mpp=0.25))
    assert "states 0.5 microns per pixel, --slide-mpp (mpp=) says 0.25" in str(found.error)


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"workers": 0}, {"batch": 0}, {"precision": "float8"}):
        with pytest.raises(ConfigError, match=str(next(iter(wrong)))):
            ExtractSettings(**wrong)  # type: ignore[arg-type]


def test_numbers_that_are_none_are_not_written(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    broken = encoder._replace(model=lambda x: torch.full((len(x), 6), float("nan")))
    found = extract_slide(slides["0001"], tmp_path, broken, SETTINGS)
    assert "the encoder gave NaN or Inf, in float32" in str(found.error)
    assert not list(tmp_path.rglob("*.h5"))


def test_a_model_whose_output_is_wrong_stops_the_run(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    wrong = Encoder(replace(encoder.spec, dim=7), encoder.model)
    wrong.model.spec = wrong.spec  # type: ignore[attr-defined]
    try:
        with pytest.raises(ConfigError, match="returned 6 numbers per tile, expected 7"):
            extract_slide(slides["0001"], tmp_path, wrong, SETTINGS)
    finally:
        encoder.model.spec = encoder.spec  # type: ignore[attr-defined]


def test_precision_changes_little(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    half = replace(SETTINGS, precision="bfloat16")
    bags = []
    for settings, out in ((SETTINGS, tmp_path / "32"), (half, tmp_path / "16")):
        extract_slide(slides["0001"], out, encoder, settings)
        bags.append(read_bag(features_folder(out, "colour", settings) / "0001.h5").features)
    assert torch.allclose(bags[0], bags[1], atol=0.05)


def test_tiles_come_in_order_and_are_read_ahead_within_bounds(slides: dict[str, Path]) -> None:
    with open_slide(slides["0001"]) as slide:
        tiles = make_tiles(slide, find_tissue(slide), TileSpec(patch=64))
        assert len(tiles) > 60
        taken = 0
        started: list[int] = []

        class Counting:
            def __len__(self) -> int:
                return len(tiles)

            def read(self, slide: object, index: int) -> np.ndarray:
                started.append(index)
                return tiles.read(slide, index)  # type: ignore[arg-type]

        for batch in read_batches(slide, Counting(), workers=2, batch=4):  # type: ignore[arg-type]
            for pixels in batch.numpy():
                assert np.array_equal(pixels, tiles.read(slide, taken))
                taken += 1
            assert len(started) <= taken + 4 * (2 * 2 + 1)
        assert taken == len(tiles) == len(set(started))


# Real slides


def test_a_real_slide_gives_features(real_slide: Callable[[str], Path], encoder: Encoder, tmp_path: Path) -> None:
    found = extract_slide(real_slide("cmu-small-region.svs"), tmp_path, encoder, replace(SETTINGS, batch=32))
    assert found.status == "done"
    bag = read_bag(features_folder(tmp_path, "colour", SETTINGS) / "cmu-small-region.h5")
    assert bag.mpp == pytest.approx(0.499, abs=1e-3)
    assert bag.patch_size == 256
    assert len(bag) == found.tiles > 20
    assert bag.features[:, 1].mean() < bag.features[:, 0].mean()  # H&E: less green than red


def test_a_real_slide_without_mpp_asks_for_it(
    real_slide: Callable[[str], Path], encoder: Encoder, tmp_path: Path
) -> None:
    found = extract_slide(real_slide("tcga-cr-7395.svs"), tmp_path, encoder, SETTINGS)
    assert "--slide-mpp" in str(found.error)


def test_magnifications_give_trident_the_very_tiles(real_slide: Callable[[str], Path]) -> None:
    """It cuts `patch_size` times their ratio: 20.04 / 20, as 0.499 microns would have it, is a pixel too many."""
    with open_slide(real_slide("cmu-small-region.svs")) as slide:
        for spec, power in ((TileSpec(), 20), (TileSpec(mpp=1.0), 20), (TileSpec(patch=224), 20)):
            told = geometry(make_tiles(slide, find_tissue(slide), spec), "name")
            ratio = told["level0_magnification"] / told["target_magnification"]
            assert round(told["patch_size"] * ratio) == told["patch_size_level0"]
            assert (told["level0_magnification"], type(told["level0_magnification"])) == (power, int)


def test_an_encoder_that_loses_tiles_stops_the_run(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    wrong = encoder._replace(model=lambda x: encoder.model(x)[:1])
    with pytest.raises(ConfigError, match="colour: 1 rows of features for 4 tiles; expected one row per tile"):
        extract_slide(slides["0001"], tmp_path, wrong, SETTINGS)
    assert not list(tmp_path.rglob("*.h5"))
