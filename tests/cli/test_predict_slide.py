"""From a slide to an answer in one command."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.bags.provenance import Encoding
from jigsawmil.bags.tile_spec import TileSpec
from jigsawmil.slides.encoders import load_encoder
from jigsawmil.synthetic.painter import Plan, paint, write_slide

Program = Callable[..., Any]
CELLS = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
NAMES = ("tumour", "stroma")


class MeanColour(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.mean(dim=[2, 3]), x.std(dim=[2, 3])], dim=1)


@pytest.fixture(scope="module")
def world(jigsawmil: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """encoder/colour.pt, slides, features, labels.csv and a model that was trained on them. Not to be changed."""
    root = tmp_path_factory.mktemp("world")
    for name in ("encoder", "slides", "new"):
        (root / name).mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and what people have
        torch.jit.script(MeanColour()).save(str(root / "encoder" / "colour.pt"))
    (root / "encoder" / "colour.pt.json").write_text(json.dumps({"size": 32}))
    rows = []
    for index in range(8):
        kind = index % 2
        plan = Plan(CELLS, np.full(4, kind), NAMES)
        folder = "slides" if index < 6 else "new"
        write_slide(paint(plan, np.random.default_rng(index)).image, root / folder / f"{index:04d}.tif")
        rows.append({"slide_id": f"{index:04d}", "label": NAMES[kind]})
    pd.DataFrame(rows[:6]).to_csv(root / "labels.csv", index=False)
    encoder = root / "encoder" / "colour.pt"
    ran = jigsawmil("extract", root / "slides", "--encoder", encoder, "--out", root / "features", "--device", "cpu")
    assert ran.code == 0, ran.err
    small = [f"--set={pair}" for pair in ("hidden=16", "attention_dim=8", "grid=3")]
    cohort = ["--labels", root / "labels.csv", "--features", root / "features", "--positive", "tumour"]
    quick = ["--method", "abmil", "--epochs", "60", "--patience", "0", "--lr", "0.01", "--k", "4", *small]
    ran = jigsawmil("train", "--method", "graph-abmil+jigsaw", *cohort, *quick, "--out", root / "model")
    assert ran.code == 0, ran.err
    return root


@pytest.fixture
def changed(world: Path, tmp_path: Path) -> Callable[..., Path]:
    """The model with another card."""

    def change(**values: object) -> Path:
        copy = Path(shutil.copytree(world / "model", tmp_path / "changed", dirs_exist_ok=True))
        card = json.loads((copy / "model.json").read_text())
        (copy / "model.json").write_text(json.dumps({**card, **values, "digest": None}))
        return copy

    return change


def test_the_card_knows_how_features_were_made(world: Path) -> None:
    card = json.loads((world / "model" / "model.json").read_text())
    assert (card["encoder"], card["patch_um"]) == ("colour", 128.0)
    assert card["tiles"] == {"patch": 256, "mpp": 0.5, "overlap": 0, "share": 0.25, "drawn": False}
    encoder = load_encoder(str(world / "encoder" / "colour.pt"))
    assert card["encoding"] == {"mark": encoder.mark, "precision": "float32"}


def test_slides_are_cut_as_for_the_training(
    jigsawmil: Program, world: Path, changed: Callable[..., Path], tmp_path: Path
) -> None:
    """The very tiles that `extract` gives with the training's options, down to the features."""
    weights = world / "encoder" / "colour.pt"
    tiles = {"patch": 112, "mpp": 1.0, "overlap": 28, "share": 0.6}
    model = changed(tiles=tiles, patch_um=112.0)
    slide, out = world / "new" / "0006.tif", tmp_path / "p.csv"
    ran = jigsawmil("predict", model, slide, "--weights", weights, "--out", out, "--device", "cpu")
    assert ran.code == 0, ran.err
    options = [part for key, value in tiles.items() for part in (f"--{key}", value)]
    ran = jigsawmil("extract", slide, "--encoder", weights, *options, "--out", tmp_path / "f", "--device", "cpu")
    assert ran.code == 0, ran.err
    name = Path("10x_112px_28px_overlap") / "features_colour" / "0006.h5"
    assert (tmp_path / "p-features" / name).read_bytes() == (tmp_path / "f" / name).read_bytes()
    assert peek_bag(tmp_path / "f" / name).tiles == TileSpec(**tiles)


def test_a_slide_gives_the_answer_that_its_features_give(jigsawmil: Program, world: Path, tmp_path: Path) -> None:
    weights = world / "encoder" / "colour.pt"
    out, maps = tmp_path / "answers.csv", tmp_path / "maps"
    ran = jigsawmil(
        "predict", world / "model", world / "new" / "0006.tif", world / "new" / "0007.tif",
        "--weights", weights, "--out", out, "--heatmap", maps, "--device", "cpu",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    table = pd.read_csv(out, dtype={"slide_id": str})
    assert table["slide_id"].tolist() == ["0006", "0007"]
    assert table["prediction"].tolist() == ["tumour", "stroma"]
    assert "0006: tumour (probability of tumour " in ran.out
    for name in ("0006", "0007"):
        picture = np.asarray(Image.open(maps / f"{name}.png").convert("RGB"))
        assert picture.shape[0] > 300
        assert picture.std() > 10
    features = tmp_path / "answers-features" / "20x_256px_0px_overlap" / "features_colour"
    assert read_bag(features / "0006.h5").patch_size == 256
    again = jigsawmil("predict", world / "model", features, "--out", tmp_path / "again.csv", "--device", "cpu")
    assert again.code == 0, again.err
    assert pd.read_csv(tmp_path / "again.csv", dtype={"slide_id": str}).equals(table)
    folder = jigsawmil(
        "predict", world / "model", world / "new", "--weights", weights, "--out", out, "--device", "cpu", "--quiet"
    )
    assert "2 already" in folder.out  # the features beside the output are found again
    assert pd.read_csv(out, dtype={"slide_id": str}).equals(table)


def test_slides_and_features_can_be_given_together_but_once_each(
    jigsawmil: Program, world: Path, tmp_path: Path
) -> None:
    features = world / "features" / "20x_256px_0px_overlap" / "features_colour" / "0001.h5"
    weights = ["--weights", world / "encoder" / "colour.pt", "--device", "cpu"]
    out = tmp_path / "p.csv"
    ran = jigsawmil("predict", world / "model", features, world / "new" / "0006.tif", *weights, "--out", out)
    assert ran.code == 0, ran.err
    assert pd.read_csv(out, dtype={"slide_id": str})["slide_id"].tolist() == ["0001", "0006"]
    twice = jigsawmil("predict", world / "model", features, world / "slides" / "0001.tif", *weights, "--out", out)
    assert twice.code == 1
    assert "both features of 0001" in " ".join(twice.err.split())


def test_a_slide_that_cannot_be_read_fails_alone(jigsawmil: Program, world: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.svs").write_text("no slide")
    write_slide(np.full((768, 768, 3), 244, np.uint8), tmp_path / "glass.tif")
    out = tmp_path / "p.csv"
    given = [tmp_path / "broken.svs", tmp_path / "glass.tif", world / "new" / "0006.tif"]
    ran = jigsawmil(
        "predict",
        world / "model",
        *given,
        "--weights",
        world / "encoder" / "colour.pt",
        "--out",
        out,
        "--device",
        "cpu",
    )
    assert ran.code == 1
    assert "Failed: broken.svs" in ran.err
    assert "No tissue: glass" in ran.out
    assert pd.read_csv(out, dtype={"slide_id": str})["slide_id"].tolist() == ["0006"]
    weights = ["--weights", world / "encoder" / "colour.pt", "--device", "cpu", "--quiet"]
    again = jigsawmil("predict", world / "model", *given[1:], *weights, "--out", out)
    assert again.code == 1  # glass has no prediction, and is named each time
    assert "No tissue: glass" in again.out


def test_another_slide_of_the_same_name_gets_its_own_answer(jigsawmil: Program, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    options = ["--weights", world / "encoder" / "colour.pt", "--device", "cpu", "--out", out]
    for name, truth in (("0006", "tumour"), ("0007", "stroma"), ("0006", "tumour")):
        shutil.copy(world / "new" / f"{name}.tif", tmp_path / "HE.tif")
        ran = jigsawmil("predict", world / "model", tmp_path / "HE.tif", *options)
        assert ran.code == 0, ran.err
        assert pd.read_csv(out)["prediction"].tolist() == [truth]


def test_a_stated_resolution_is_for_slides_that_have_none(jigsawmil: Program, world: Path, tmp_path: Path) -> None:
    """0.501 beside a slide that says 0.5 is no contradiction, neither for the slide nor for its features."""
    given = [world / "new" / "0006.tif", "--weights", world / "encoder" / "colour.pt", "--device", "cpu"]
    ran = jigsawmil("predict", world / "model", *given, "--slide-mpp", "0.501", "--out", tmp_path / "p.csv")
    assert ran.code == 0, ran.err


def test_other_weights_of_the_same_name_are_refused(jigsawmil: Program, world: Path, tmp_path: Path) -> None:
    class Other(MeanColour):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x.std(dim=[2, 3]), x.mean(dim=[2, 3])], dim=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Other()).save(str(tmp_path / "colour.pt"))
    shutil.copy(world / "encoder" / "colour.pt.json", tmp_path)
    slide, out = world / "new" / "0006.tif", tmp_path / "p.csv"
    ran = jigsawmil("predict", world / "model", slide, "--weights", tmp_path / "colour.pt", "--out", out)
    assert ran.code == 1
    assert "not the colour of the model's training (other weights" in " ".join(ran.err.split())
    assert not out.exists()


def test_slides_are_encoded_in_the_precision_of_the_training(
    jigsawmil: Program, world: Path, changed: Callable[..., Path], tmp_path: Path
) -> None:
    card = json.loads((world / "model" / "model.json").read_text())
    model = changed(encoding={**card["encoding"], "precision": "bfloat16"})
    given = [world / "new" / "0006.tif", "--weights", world / "encoder" / "colour.pt", "--device", "cpu"]
    assert jigsawmil("predict", model, *given, "--out", tmp_path / "p.csv").code == 0
    [features] = (tmp_path / "p-features").rglob("0006.h5")
    assert peek_bag(features).encoding == Encoding(**{**card["encoding"], "precision": "bfloat16"})


def test_a_resolution_stated_for_one_slide_does_not_stop_the_map_of_another(
    jigsawmil: Program, world: Path, tmp_path: Path
) -> None:
    """First without it, then with it: the slide that says its own is done by then."""
    shutil.copy(world / "new" / "0006.tif", tmp_path / "says.tif")
    with Image.open(world / "new" / "0006.tif") as picture:
        picture.save(tmp_path / "silent.png")
    slides = [tmp_path / "says.tif", tmp_path / "silent.png"]
    options = ["--weights", world / "encoder" / "colour.pt", "--device", "cpu", "--out", tmp_path / "p.csv"]
    options += ["--heatmap", tmp_path / "maps"]
    assert jigsawmil("predict", world / "model", *slides, *options).code == 1  # silent.png asks for --slide-mpp
    ran = jigsawmil("predict", world / "model", *slides, *options, "--slide-mpp", "0.4")
    assert ran.code == 0, ran.err
    assert {path.name for path in (tmp_path / "maps").iterdir()} == {"says.png", "silent.png"}


def test_who_trained_on_outlines_is_told(
    jigsawmil: Program, world: Path, changed: Callable[..., Path], tmp_path: Path
) -> None:
    tiles = {"patch": 256, "mpp": 0.5, "overlap": 0, "share": 0.25, "drawn": True}
    slide, out = world / "new" / "0006.tif", tmp_path / "p.csv"
    options = ["--weights", world / "encoder" / "colour.pt", "--device", "cpu", "--out", out]
    ran = jigsawmil("predict", changed(tiles=tiles), slide, *options)
    assert "outlined by hand; without --masks it sees all tissue" in " ".join(ran.out.split())
    square = [[256, 256], [512, 256], [512, 512], [256, 512], [256, 256]]
    (tmp_path / "0006.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": [square]}))
    ran = jigsawmil("predict", changed(tiles=tiles), slide, *options, "--masks", tmp_path)
    assert ran.code == 0, ran.err
    assert "by hand" not in ran.out
    [features] = (tmp_path / "p-features").rglob("0006.h5")
    assert len(read_bag(features)) == 1


def test_what_a_model_does_not_know_is_asked_for(
    jigsawmil: Program, world: Path, changed: Callable[..., Path], tmp_path: Path
) -> None:
    slide, weights = world / "new" / "0006.tif", world / "encoder" / "colour.pt"
    other = Path(shutil.copy(weights, tmp_path / "other.pt"))
    shutil.copy(world / "encoder" / "colour.pt.json", tmp_path / "other.pt.json")
    cases: list[tuple[dict[str, object], list[object], str]] = [
        ({"encoder": None}, [], "does not state the encoder"),
        ({}, [], "colour, which is not among `jigsawmil encoders`"),
        ({}, ["--weights", other], "is the encoder other"),
        (
            {"encoder": "uni"},
            [],
            "uni is the encoder uni and gives 1024. Give features made with the encoder and",
        ),
        ({"patch_um": None, "tiles": None}, ["--weights", weights], "does not state its patch size"),
        ({}, ["--weights", weights, "--patch-um", "64"], "trained on patches of 128 microns"),
        ({}, ["--weights", weights, "--patch-size", "256"], "apply to feature files"),
    ]
    for card, options, words in cases:
        ran = jigsawmil("predict", changed(**card), slide, *options, "--out", tmp_path / "p.csv", "--device", "cpu")
        assert ran.code == 1, words
        assert words in " ".join(ran.err.split()), ran.err
    stated = ["--weights", weights, "--patch-um", "128", "--out", tmp_path / "p.csv", "--device", "cpu"]
    assert jigsawmil("predict", changed(patch_um=None, tiles=None), slide, *stated).code == 0


def test_a_slide_without_mpp_asks_for_it(jigsawmil: Program, world: Path, tmp_path: Path) -> None:
    plan = Plan(CELLS, np.zeros(4, np.int64), NAMES)
    Image.fromarray(paint(plan, np.random.default_rng(9)).image).save(tmp_path / "plain.png")
    weights = ["--weights", world / "encoder" / "colour.pt", "--out", tmp_path / "p.csv", "--device", "cpu"]
    ran = jigsawmil("predict", world / "model", tmp_path / "plain.png", *weights)
    assert ran.code == 1
    assert "--slide-mpp" in ran.err
    assert not (tmp_path / "p.csv").exists()
    maps = tmp_path / "maps"
    ran = jigsawmil(
        "predict", world / "model", tmp_path / "plain.png", *weights, "--slide-mpp", "0.5", "--heatmap", maps
    )
    assert ran.code == 0, ran.err
    assert (maps / "plain.png").exists()
