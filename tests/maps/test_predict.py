"""Slides in, predictions out, in Python: what the command line writes."""

from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

import jigsawmil
from jigsawmil.errors import ConfigError
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.train.checkpoint import load_model


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    knobs = {"slides": 8, "dim": 16, "patches": 20, "seed": 1}
    return write_phantom(make_phantom("composition", **knobs), tmp_path_factory.mktemp("predict") / "cohort")


@pytest.fixture(scope="module")
def model(cohort: Path) -> Path:
    read = jigsawmil.Cohort.read(cohort / "labels.csv", cohort / "features")
    settings = jigsawmil.Settings.from_flat({"method": "abmil", "epochs": 2, "patience": 0, "hidden": 8})
    (history,) = jigsawmil.train_model(read, cohort / "model", settings, seed=3)
    assert len(history.epochs) == 2
    assert not list((cohort / "model").glob(".training-*"))  # what a resumed training needs is gone at the end
    return cohort / "model"


def test_a_trained_model_has_its_card(model: Path) -> None:
    _, card = load_model(model)
    assert card.model.method == "abmil"
    assert card.training["seed"] == 3
    with pytest.raises(jigsawmil.JigsawmilError, match="holds a model already"):
        jigsawmil.train_model(jigsawmil.Cohort.read(model.parent / "labels.csv", model.parent / "features"), model)


def test_features_give_the_table_attention_and_maps(model: Path, cohort: Path, tmp_path: Path) -> None:
    files = sorted((cohort / "features").glob("*.h5"))[:2]
    places = {"heatmap": tmp_path / "maps", "attention": tmp_path / "attention"}
    found = jigsawmil.predict_slides(model, files, out=tmp_path / "p.csv", device="cpu", **places)
    assert found.extracted == []
    written = pd.read_csv(tmp_path / "p.csv", dtype={"slide_id": str})
    assert written["slide_id"].tolist() == [file.stem for file in files]
    pd.testing.assert_frame_equal(written, found.table)
    for file in files:
        attention = pd.read_csv(tmp_path / "attention" / f"{file.stem}.csv")
        assert len(attention) == len(jigsawmil.read_bag(file))
        assert attention["attention"].sum() == pytest.approx(1, abs=1e-4)
        assert (tmp_path / "maps" / f"{file.stem}.png").stat().st_size > 1000


def test_pictures_show_the_attribution_where_it_is_asked_for(model: Path, cohort: Path, tmp_path: Path) -> None:
    [file] = sorted((cohort / "features").glob("*.h5"))[:1]
    plain, more = (tmp_path / name for name in ("plain", "more"))
    jigsawmil.predict_slides(model, file, out=tmp_path / "a.csv", heatmap=plain)
    jigsawmil.predict_slides(model, file, out=tmp_path / "b.csv", heatmap=more, attribution=True)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    with Image.open(plain / f"{file.stem}.png") as before, Image.open(more / f"{file.stem}.png") as after:
        assert after.width * after.height > before.width * before.height  # a panel more
    with pytest.raises(ConfigError, match="--heatmap"):
        jigsawmil.predict_slides(model, file, out=tmp_path / "c.csv", attribution=True)


def test_an_option_that_is_none_is_refused(model: Path, cohort: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="wheights"):
        jigsawmil.predict_slides(model, cohort / "features", out=tmp_path / "p.csv", wheights="x")
    slide = tmp_path / "x.svs"
    slide.write_bytes(b"")
    with pytest.raises(ConfigError, match="in two commands"):
        jigsawmil.predict_slides(model, slide, out=tmp_path / "p.csv", unit="px")
