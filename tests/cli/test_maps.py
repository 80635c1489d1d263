"""The verbs of maps: what they write, and what they say to wrong input."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from jigsawmil.bags.formats import read_bag

SLIDE = "0004"


@pytest.fixture(scope="module")
def run(finished: tuple[Path, object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the finished run, into which `faithfulness` may write."""
    return Path(shutil.copytree(finished[0], tmp_path_factory.mktemp("maps") / "run"))


@pytest.fixture(scope="module")
def features(cohort: Path) -> Path:
    return cohort / "features" / f"{SLIDE}.h5"


@pytest.fixture(scope="module")
def scanned(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of features and a folder of slides: one small white slide, and the features as if cut from it."""
    home = tmp_path_factory.mktemp("scanned")
    for name in ("features", "slides"):
        (home / name).mkdir()
    shutil.copy(features, home / "features" / features.name)
    with h5py.File(home / "features" / features.name, "a") as file:
        coords = file["coords"]
        coords[:] -= coords[:].min(axis=0)
        size = [int(side) for side in coords[:].max(axis=0) + 512]
        coords.attrs.update(level0_width=size[0], level0_height=size[1])
    Image.new("RGB", size, "white").save(home / "slides" / f"{SLIDE}.png")
    return home


def test_heatmap_of_a_run_and_its_contact_sheet(jigsawmil, run: Path, scanned: Path, tmp_path: Path) -> None:
    given = ["--slide", scanned / "slides" / f"{SLIDE}.png", "--features", scanned / "features"]
    ran = jigsawmil("heatmap", run, SLIDE, *given, "--top", 4, "--evidence", "--out", tmp_path / "a.png")
    assert ran.code == 0, ran.err
    assert f"Maps of {SLIDE} in {tmp_path / 'a.png'}." in ran.out
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "a-top.png"}
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size[0] > 1000


def test_heatmap_by_file_is_that_of_the_id(jigsawmil, run: Path, features: Path, tmp_path: Path) -> None:
    """A feature file names its slide; the model is still the one that never saw it."""
    for name, item in (("a.png", SLIDE), ("b.png", features)):
        ran = jigsawmil("heatmap", run, item, "--variant", "abmil", "--out", tmp_path / name)
        assert ran.code == 0, ran.err
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_heatmap_of_a_model(jigsawmil, model: Path, features: Path, tmp_path: Path) -> None:
    ran = jigsawmil("heatmap", model, features, "--patch", "3", "--out", tmp_path / "a.svg")
    assert ran.code == 0, ran.err
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


def test_export_writes_a_file_a_slide_and_they_agree(jigsawmil, run: Path, cohort: Path, tmp_path: Path) -> None:
    for format in ("geojson", "csv"):
        ran = jigsawmil("export", run, "--format", format, "--out", tmp_path / format)
        assert ran.code == 0, ran.err
        assert f"18 {format} files in" in ran.out
    assert {path.stem for path in (tmp_path / "csv").iterdir()} == {f"{i:04}" for i in range(1, 19)}
    table = pd.read_csv(tmp_path / "csv" / f"{SLIDE}.csv")
    collection = json.loads((tmp_path / "geojson" / f"{SLIDE}.geojson").read_text())
    measured = [feature["properties"]["measurements"] for feature in collection["features"]]
    assert table["attention"].to_numpy() == pytest.approx([one["attention"] for one in measured], rel=1e-6)
    bag = read_bag(cohort / "features" / f"{SLIDE}.h5")
    assert (table[["x", "y"]].to_numpy() == bag.coords.numpy()).all()
    predictions = pd.read_csv(run / "predictions.csv", dtype={"slide_id": str})
    rows = predictions[(predictions["slide_id"] == SLIDE) & (predictions["variant"] == "graph-abmil+jigsaw")]
    assert measured[0]["probability of tumour"] == pytest.approx(rows["probability"].iloc[0], rel=1e-5)


def test_export_of_some_slides_and_of_a_model(
    jigsawmil, run: Path, model: Path, features: Path, tmp_path: Path
) -> None:
    ran = jigsawmil("export", run, SLIDE, "0007", "--format", "h5ad", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert {path.name for path in (tmp_path / "run").iterdir()} == {f"{SLIDE}.h5ad", "0007.h5ad"}
    ran = jigsawmil("export", model, features, "--format", "csv", "--out", tmp_path / "model", "-q")
    assert ran.code == 0, ran.err
    assert list(pd.read_csv(tmp_path / "model" / f"{SLIDE}.csv"))[:4] == ["x", "y", "size", "attention"]


def test_attribution_is_drawn_and_exported_on_request(
    jigsawmil, run: Path, model: Path, features: Path, tmp_path: Path
) -> None:
    ran = jigsawmil("heatmap", run, SLIDE, "--attribution", "--out", tmp_path / "a.svg")
    assert ran.code == 0, ran.err
    assert "The attribution adds up to the logit, with an error of" in ran.out
    for folder, args in (("run", [run, SLIDE]), ("model", [model, features])):
        ran = jigsawmil("export", *args, "--attribution", "--format", "csv", "--out", tmp_path / folder)
        assert ran.code == 0, ran.err
        assert pd.read_csv(tmp_path / folder / f"{SLIDE}.csv")["attribution"].abs().max() > 0


def ring(folder: Path) -> np.ndarray:
    collection = json.loads((folder / f"{SLIDE}.geojson").read_text())
    return np.array([feature["geometry"]["coordinates"][0][0] for feature in collection["features"]])


def test_geojson_follows_the_bounds_and_may_be_told_not_to(
    jigsawmil, run: Path, scanned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jigsawmil.slides import slide

    real = slide._bounds
    monkeypatch.setattr(slide, "_bounds", lambda *given: real(*given)._replace(x=1000, y=300))
    corners = read_bag(scanned / "features" / f"{SLIDE}.h5").coords.numpy()
    slides = scanned / "slides"
    for name, options, shift in (
        ("plain", [], (0, 0)),
        ("shifted", ["--slides", slides], (1000, 300)),
        ("kept", ["--slides", slides, "--no-bounds-shift"], (0, 0)),
    ):
        ran = jigsawmil("export", run, SLIDE, "--features", scanned / "features", "--out", tmp_path / name, *options)
        assert ran.code == 0, ran.err
        assert ring(tmp_path / name) == pytest.approx(corners - shift)
        assert ("1 shifted by the OpenSlide bounds" in ran.out) == (name == "shifted")


def test_faithfulness_writes_what_the_report_reads(jigsawmil, run: Path) -> None:
    ran = jigsawmil("faithfulness", run, "--slides-at-most", 3, "--seed", 2)
    assert ran.code == 0, ran.err
    for method in ("abmil", "graph-abmil+jigsaw"):
        values = json.loads((run / "faithfulness" / "cohort" / f"{method}.json").read_text())
        assert f"{method}: {values['sentence']}" in ran.out
        assert len(values["slides"]) == 3
        table = pd.read_csv(run / "faithfulness" / "cohort" / f"{method}.csv", dtype={"slide_id": str})
        assert set(table["slide_id"]) == set(values["slides"])
        mean = table[table["ranking"] == "evidence"]["deletion_area"].mean()
        assert values["verdicts"]["evidence"]["deletion"]["area"] == pytest.approx(mean)
    again = jigsawmil("faithfulness", run, "--slides-at-most", 3, "--seed", 2, "--quiet")
    assert [line for line in ran.out.splitlines() if " map" in line] == again.out.splitlines()


WRONG = [
    (["heatmap", "{nowhere}", SLIDE], "no such folder. Give the folder that `jigsawmil compare`"),
    (["heatmap", "{cohort}", SLIDE], "neither a run (study.json) nor a model (model.json) is in it"),
    (["heatmap", "{run}", "9999"], "9999: no slide of"),
    (["heatmap", "{run}", SLIDE, "--method", "graph-abml"], "Did you mean"),
    (["heatmap", "{run}", SLIDE, "--slide", "{nowhere}/a.svs"], "does not exist"),
    (["heatmap", "{run}", SLIDE, "--slide", "{other}"], "were cut from a slide of"),
    (["heatmap", "{run}", SLIDE, "--top", "3"], "--top cuts tiles out of the slide. Give --slide"),
    (["heatmap", "{run}", SLIDE, "--patch", "x"], "expected the number of a patch, from 0 on, or auto"),
    (["heatmap", "{run}", SLIDE, "--patch", "99999"], "has patches 0 to"),
    (["heatmap", "{model}", SLIDE], "no such file. Expected the feature file of a slide"),
    (["heatmap", "{model}", "{narrow}"], "features have 8 columns, the model was trained on 16"),
    (["heatmap", "{model}", "{encoder}"], "of the encoder uni_v1, the model was trained on phantom"),
    (["heatmap", "{model}", "{features}", "--method", "abmil"], "belong to a run"),
    (["export", "{run}", "--format", "geojsn", "--out", "{out}"], "Did you mean 'geojson'"),
    (["export", "{run}", "nobody", "--out", "{out}"], "nobody: no slide of"),
    (["heatmap", "{run}", SLIDE, "--unit", "um"], "features of a run are read as in its study"),
    (["export", "{model}", "--out", "{out}"], "A model needs feature files"),
    (["export", "{run}", SLIDE, "--slides", "{empty}", "--out", "{out}"], f"No slide {SLIDE} among the 0"),
    (["export", "{model}", "{microns}", "--out", "{out}"], "in microns and the pixel size is unknown"),
    (["faithfulness", "{cohort}"], "no study.json in it"),
    (["faithfulness", "{run}", "--method", "abml"], "Did you mean 'abmil'"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_wrong_input_is_told_in_plain_words(
    arguments: list[str], words: str, jigsawmil, run: Path, model: Path, cohort: Path, features: Path, tmp_path: Path
) -> None:
    places = {"run": run, "model": model, "cohort": cohort, "features": features, "nowhere": tmp_path / "nowhere"}
    for name in ("empty", "narrow", "encoder", "microns"):
        (tmp_path / name).mkdir()
    Image.new("RGB", (100, 100)).save(tmp_path / "other.png")
    for name in ("narrow", "encoder", "microns"):
        places[name] = Path(shutil.copy(features, tmp_path / name / f"{SLIDE}.h5"))
    with h5py.File(places["narrow"], "a") as file:
        narrow = file["features"][:, :8]
        del file["features"]
        file["features"] = narrow
    with h5py.File(places["encoder"], "a") as file:
        file["features"].attrs["encoder"] = "uni_v1"
    write_stamp(features, places["microns"])
    places |= {"empty": tmp_path / "empty", "other": tmp_path / "other.png", "out": tmp_path / "out"}
    ran = jigsawmil(*[text.format(**places) for text in arguments])
    assert ran.code == 1
    assert words in " ".join(ran.err.split())
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True


def write_stamp(features: Path, path: Path) -> None:
    """The same bag as STAMP writes it: microns, and no resolution."""
    bag = read_bag(features)
    with h5py.File(path, "w") as file:
        file["feats"], file["coords"] = bag.features.numpy(), (bag.coords * 0.25).numpy().astype(np.float32)
        file.attrs.update(stamp_version="2.0", extractor=bag.encoder, unit="um", tile_size_um=128.0, tile_size_px=256)


def test_microns_with_a_stated_resolution_are_exported(jigsawmil, model: Path, features: Path, tmp_path: Path) -> None:
    write_stamp(features, tmp_path / f"{SLIDE}.h5")
    ran = jigsawmil("export", model, tmp_path / f"{SLIDE}.h5", "--slide-mpp", 0.25, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert ring(tmp_path / "out") == pytest.approx(read_bag(features).coords.numpy(), abs=0.01)
