"""Verbs about slides: what they write, what they say, what they refuse."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from jigsawmil.slides.slide import open_slide


@pytest.fixture(scope="module")
def painted(jigsawmil: Callable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("slides") / "painted"
    ran = jigsawmil("paint", "--slides", 2, "--patches", 20, "--kind", "arrangement", "--out", out)
    assert ran.code == 0, ran.err
    return out


def test_paint_writes_slides_labels_and_truth(painted: Path) -> None:
    labels = pd.read_csv(painted / "labels.csv", dtype=str)
    assert sorted(labels["label"]) == ["mixed", "segregated"]
    for slide_id in labels["slide_id"]:
        types = np.asarray(Image.open(painted / "truth" / f"{slide_id}_types.png"))
        assert {1, 2} <= set(np.unique(types))  # both kinds of nests
        with open_slide(painted / "slides" / f"{slide_id}.tif") as slide:
            assert slide.mpp == 0.5


def test_tissue_writes_a_mask_polygons_and_a_picture_for_each_slide(
    jigsawmil: Callable, painted: Path, tmp_path: Path
) -> None:
    ran = jigsawmil("tissue", painted / "slides", "--out", tmp_path, "--quiet")
    assert ran.code == 0, ran.err
    assert [line.split(":")[0] for line in ran.out.splitlines()] == ["0001.tif", "0002.tif"]
    assert "mm² of tissue" in ran.out
    for name in ("0001", "0002"):
        mask = np.asarray(Image.open(tmp_path / f"{name}_tissue.png")) > 0
        truth = np.asarray(Image.open(painted / "truth" / f"{name}_tissue.png")) > 0
        truth = truth.reshape(mask.shape[0], 2, mask.shape[1], 2).mean(axis=(1, 3)) >= 0.5
        assert (mask & truth).sum() > 0.9 * (mask | truth).sum()
        assert json.loads((tmp_path / f"{name}.geojson").read_text())["features"]
        assert (tmp_path / f"{name}_preview.png").exists()


def test_an_own_mask_takes_the_place_of_the_found_one(jigsawmil: Callable, painted: Path, tmp_path: Path) -> None:
    square = [[512, 512], [1024, 512], [1024, 1024], [512, 1024], [512, 512]]
    own = tmp_path / "own.geojson"
    own.write_text(json.dumps({"type": "Polygon", "coordinates": [square]}))
    slide = painted / "slides" / "0001.tif"
    ran = jigsawmil("tissue", slide, "--masks", own, "--out", tmp_path / "a", "--quiet")
    assert ran.out.strip() == "0001.tif: 0.07 mm² of tissue, 4 tiles"

    folder = tmp_path / "masks"
    folder.mkdir()
    own.rename(folder / "0001.geojson")
    ran = jigsawmil("tissue", painted / "slides", "--masks", folder, "--out", tmp_path / "b", "--quiet")
    assert ran.code == 1  # the other one has no mask: told, and the first is done
    assert "0001.tif: 0.07 mm²" in ran.out
    assert "0002.tif: no 0002.geojson in" in ran.err
    one = ["--masks", folder / "0001.geojson"]
    ran = jigsawmil("tissue", painted / "slides", *one, "--out", tmp_path / "c", "--quiet")
    assert ran.code == 1
    assert "one outline for 2 slides" in ran.err


def test_what_cannot_be_read_is_told_and_does_not_stop_the_rest(
    jigsawmil: Callable, painted: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.svs").write_bytes(b"II*\0broken")
    Image.new("RGB", (600, 600), "white").save(tmp_path / "plain.png")
    slides = (tmp_path / "broken.svs", tmp_path / "plain.png", painted / "slides" / "0001.tif")
    ran = jigsawmil("tissue", *slides, "--out", tmp_path / "out", "--quiet")
    assert ran.code == 1
    assert "broken.svs: no slide format" in ran.err
    assert "plain.png: the slide does not state its resolution" in ran.err
    assert "--slide-mpp" in ran.err
    assert "0001.tif: " in ran.out
    ran = jigsawmil("tissue", tmp_path / "plain.png", "--slide-mpp", 0.5, "--out", tmp_path / "out", "--quiet")
    assert ran.out.strip() == "plain.png: 0.00 mm² of tissue, 0 tiles"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kind", "position"], "expected one of composition, arrangement"),
        (["--slides", 1], "slides=1 is impossible"),
        (["--patches", 1], "patches=1 is impossible"),
    ],
)
def test_paint_refuses_the_impossible(jigsawmil: Callable, tmp_path: Path, options: list, words: str) -> None:
    ran = jigsawmil("paint", *options, "--out", tmp_path / "out")
    assert ran.code == 1
    assert words in ran.err
    assert not (tmp_path / "out").exists()


def test_tiles_are_those_that_an_encoder_asks_for(jigsawmil: Callable, painted: Path, tmp_path: Path) -> None:
    slide = next((painted / "slides").glob("*.tif"))

    def tiles(*options: str) -> str:
        ran = jigsawmil("tissue", slide, "--out", tmp_path, *options)
        assert ran.code == 0, ran.err
        return str(ran.out.rsplit(",", 1)[1])

    assert tiles() == tiles("--encoder", "uni") != tiles("--encoder", "virchow2") == tiles("--patch", "224")
    ran = jigsawmil("tissue", painted / "slides", "--out", painted / "slides")
    assert ran.code == 1
    assert "this folder holds the slides" in ran.err
