"""What a user can type or hold wrong: each is told what was found, what was expected and what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from jigsawmil.bags.formats import find_bags, hdf5

Said = Callable[..., str]


@pytest.fixture
def refused(jigsawmil) -> Said:
    """Run, and hold the refusal to its form; what it said, on one line."""

    def run(*arguments: object, code: int = 1) -> str:
        ran = jigsawmil(*arguments)
        assert ran.code == code, ran.out + ran.err
        assert "Traceback" not in ran.out + ran.err
        assert ("Error: " in ran.err) if code == 1 else ("Try 'jigsawmil" in ran.err)
        return " ".join(ran.err.split())

    return run


@pytest.fixture
def refused_compare(refused: Said, given, tmp_path: Path) -> Said:
    """The same for `compare`, which then has written no result."""

    def run(*arguments: object, code: int = 1, cohort: Path | None = None) -> str:
        where = given if cohort is None else at(cohort)
        out, quick = tmp_path / "run", ["--epochs", "1", "--patience", "0", "--methods", "abmil"]
        said = refused("compare", *where, *quick, "--out", out, *arguments, code=code)
        assert not any(path.is_file() for path in out.rglob("*.csv"))
        return said

    return run


def at(folder: Path) -> list[object]:
    """The options that name a cohort."""
    return ["--labels", folder / "labels.csv", "--features", folder / "features"]


VALUES = [
    (["--methods", "abmill"], ["--methods", "'abmill'", "graph-abmil+jigsaw", "Did you mean 'abmil'?"]),
    (["--methods", "abmil,graph_mil"], ["'graph_mil'", "Did you mean 'graph-mil'?"]),
    (["--methods", ","], ["--methods", "expected one of abmil"]),
    (["--set", "head=4"], ["--set", "'head'", "Did you mean 'heads'?"]),
    (["--set", "heads"], ["--set heads", "KEY=VALUE"]),
    (["--set", "heads=3"], ["heads", "found 3", "divisor of hidden = 256"]),
    (["--set", "heads=2.5"], ["heads", "found 2.5", "a whole number"]),
    (["--set", "attention_bias=maybe"], ["attention_bias", "'maybe'", "true or false"]),
    (["--set", "gated=true"], ["--set gated", "an option of its own. Use --gated,"]),
    (["--dropout", "1"], ["dropout", "found 1", "[0, 1)"]),
    (["--set", "sigma=large"], ["sigma", "'large'", "max-knn"]),
    (["--set", "graph=delaunay"], ["graph", "'delaunay'", "knn, radius"]),
    (["--set", "k=3"], ["--set k", "an option of its own. Use --k,"]),
    (["--set", "lambda=3"], ["--set lambda", "an option of its own"]),
    (["--set", "method=abmil"], ["--set method", "an option of its own"]),
    (["--k", "0"], ["k: found 0", "at least 1"]),
    (["--folds", "1"], ["folds: found 1", "at least 2"]),
    (["--epochs", "0"], ["epochs: found 0", "at least 1"]),
    (["--patience", "-1"], ["patience: found -1", "at least 0"]),
    (["--batch-size", "0"], ["batch_size: found 0", "at least 1"]),
    (["--lr", "0"], ["lr: found 0.0", "above 0"]),
    (["--conv", "gats"], ["conv: found 'gats'", "Did you mean 'gat'?"]),
    (["--jigsaw", "pose"], ["jigsaw: found 'pose'", "consistency, equivariance, position"]),
    (["--level", "case"], ["level: found 'case'", "slide, patient"]),
    (["--lambda", "nonsense"], ["lambda: found 'nonsense'", "a number, em, em-per-slide, balanced"]),
    (["--lambda", "-1"], ["lambda", "found -1.0", "at least 0"]),
    (["--lambda", "nan"], ["lambda", "found nan", "at least 0"]),
    (["--device", "gpu"], ["device: found 'gpu'", "auto, cpu, cuda"]),
    (["--device", "cuda:77"], ["'cuda:77'", "Use auto or cpu"]),
    (["--executor", "ray", "--device", "cuda:1"], ["'cuda:1'", "Use --device cuda"]),
    (["--executor", "ray", "--jobs", "2"], ["--jobs 2 with --executor ray", "Leave --jobs out"]),
    (["--memory-gb", "-1"], ["memory_gb: found -1.0", "at least 0"]),
    (["--slide-mpp", "0"], ["mpp=0.0", "above zero"]),
    (["--unit", "mm"], ["unit='mm'", "'px'", "'um'"]),
    (["--positive", "tumor"], ["'tumor' is not a label", "'normal', 'tumour'", "Did you mean 'tumour'?"]),
    (["--ordinal"], ["'normal', 'tumour'", "three or more grades", "Leave ordinal out"]),
    (["--by-site"], ["site", "unknown", "site_column"]),
    (["--label-column", "lable"], ["no column 'lable'", "Found the columns 'slide_id'", "Did you mean 'label'?"]),
    (["--slide-column", "slide"], ["no column 'slide'", "--slide-column", "Did you mean 'slide_id'?"]),
    (["--label-column", "slide_id"], ["18 different labels on 18 slides", "Name another column"]),
    (["--slide-table", "nowhere.csv"], ["nowhere.csv", "no such file"]),
    (["--splits", "nowhere.json"], ["nowhere.json", "cannot be read", "Expected a split file"]),
    (["--features", "nowhere"], ["nowhere: no such folder", "Give the folder"]),
    (["--labels", "nowhere.csv"], ["nowhere.csv: there is no such file", "Give the label table"]),
    (["--labels", "."], [".: found a folder, expected a file", "Give the label table"]),
    (["--features", __file__], ["found a file, expected a folder", "Give the folder"]),
    (["--executor", "ray", "--threads", "2"], ["--threads 2 applies to this machine", "--cpus"]),
]


@pytest.mark.parametrize(("typed", "fragments"), VALUES, ids=[" ".join(typed) for typed, _ in VALUES])
def test_a_value_that_cannot_be(typed, fragments, refused_compare: Said, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = refused_compare(*typed)
    assert all(fragment in said for fragment in fragments), said


USAGE = [
    (["compare", "--nonsense"], "No such option: --nonsense"),
    (["compare", "--method", "abmil"], "--methods"),
    (["compare", "--out", "x"], "Missing options --labels and --features."),
    (["compare", "--folds", "three"], "Invalid value for '--folds'"),
    (["compare", "--jobs", "0"], "Invalid value for '--jobs'"),
    (["compare", "--seed", "-1"], "Invalid value for '--seed'"),
    (["predict"], "Missing argument"),
    (["study"], "Missing argument"),
    (["trian"], "No such command 'trian'"),
]


@pytest.mark.parametrize(("typed", "words"), USAGE, ids=[" ".join(typed) for typed, _ in USAGE])
def test_wrong_usage(typed, words, refused: Said) -> None:
    said = refused(*typed, code=2)
    assert words in said
    assert "Usage: jigsawmil" in said


def test_nothing_typed_shows_the_verbs(jigsawmil) -> None:
    ran = jigsawmil()
    assert ran.code in (0, 2)  # typer's choice of the day
    assert all(verb in ran.out + ran.err for verb in ("demo", "check", "compare", "predict"))


def test_one_class(refused_compare: Said, own: Path) -> None:
    pd.read_csv(own / "labels.csv", dtype=str).assign(label="tumour").to_csv(own / "labels.csv", index=False)
    said = refused_compare(cohort=own)
    assert "All slides are 'tumour'. Two classes are needed: is this the right column?" in said


def test_fewer_patients_than_folds(refused_compare: Said) -> None:
    said = refused_compare("--folds", "12")
    assert "12 folds need at least 12 patients in every class" in said
    assert "Use 7 folds" in said


def test_features_of_two_dimensions(refused_compare: Said, own: Path) -> None:
    with h5py.File(own / "features" / "0005.h5", "r+") as file:
        narrow = file["features"][:, :8]
        del file["features"]
        file["features"] = narrow
    said = refused_compare(cohort=own)
    assert "16 in 17 files" in said
    assert "8 in 1 file (0005)" in said
    assert "one encoder" in said


def spoil(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        hdf5.unseal(file)
        file["features"][3, 2] = np.nan


def test_nan_features_name_the_slide(
    refused_compare: Said, refused: Said, compare, jigsawmil, model: Path, own: Path, table
) -> None:
    spoil(own / "features" / "0004.h5")
    said = refused_compare(cohort=own)
    assert "0004.h5: 1 features values are NaN or Inf" in said
    assert "Extract the slide again" in said
    assert "0004.h5" in refused("train", *at(own), "--out", own / "model", "--epochs", "1")
    assert not (own / "model").exists()
    assert "1 slide with NaN or infinity: 0004 (0004.h5: 1 features values" in jigsawmil("check", *at(own)).out
    assert compare(*at(own), "--skip-bad", "--out", own / "run").code == 0
    left_out = [["cohort", "0004", "NaN or infinity in the feature file"]]
    assert table(own / "run" / "left_out.csv").to_numpy().tolist() == left_out
    assert "0004" not in set(table(own / "run" / "predictions.csv")["slide_id"])


@pytest.fixture
def predicts_but(jigsawmil, model: Path, own: Path, table) -> Callable[..., str]:
    """`predict` on the cohort of a test: all slides but these get their row, and the exit code is 1; what was said."""

    def run(*lost: str) -> str:
        ran = jigsawmil("predict", model, own / "features", "--out", own / "p.csv", "--attention", own / "maps")
        assert ran.code == 1
        assert "Traceback" not in ran.err
        slides = {path.stem for path in (own / "features").iterdir()} - set(lost)
        assert set(table(own / "p.csv")["slide_id"]) == {path.stem for path in (own / "maps").iterdir()} == slides
        assert all(f"No prediction of {name}: " in ran.err for name in lost)
        return " ".join(ran.err.split())

    return run


def test_a_truncated_file(refused_compare: Said, predicts_but, compare, own: Path, table) -> None:
    path = own / "features" / "0003.h5"
    path.write_bytes(path.read_bytes()[:5000])
    for words in (
        "1 labelled slide with an unreadable file: 0003",
        "truncated",
        "again, or leave them out with --skip-bad",
    ):
        assert words in refused_compare(cohort=own)
    assert "0003.h5" in predicts_but("0003")
    ran = compare(*at(own), "--skip-bad", "--out", own / "run")
    assert ran.code == 0
    left_out = table(own / "run" / "left_out.csv").to_numpy().tolist()
    assert left_out == [["cohort", "0003", "the feature file cannot be read"]]


def test_a_slide_without_features(refused_compare: Said, compare, own: Path, table) -> None:
    (own / "features" / "0006.h5").unlink()
    said = refused_compare(cohort=own)
    assert "1 labelled slide without a feature file: 0006" in said
    assert "--skip-missing" in said
    ran = compare(*at(own), "--skip-missing", "--out", own / "run")
    assert ran.code == 0
    assert "1 slide or file was left out" in ran.out
    assert table(own / "run" / "left_out.csv").to_numpy().tolist() == [["cohort", "0006", "no feature file"]]
    assert "0006" not in set(table(own / "run" / "predictions.csv")["slide_id"])


def test_a_feature_file_without_a_label_is_noted(compare, jigsawmil, own: Path, table) -> None:
    rows = pd.read_csv(own / "labels.csv", dtype=str)
    rows[rows["slide_id"] != "0002"].to_csv(own / "labels.csv", index=False)
    assert compare(*at(own), "--out", own / "run").code == 0
    assert table(own / "run" / "left_out.csv").to_numpy().tolist() == [["cohort", "0002", "not in the table"]]
    checked = jigsawmil("check", *at(own))
    assert checked.code == 0
    assert "1 feature file without a row in the table: 0002" in checked.out


def test_names_that_do_not_agree(refused_compare: Said, own: Path) -> None:
    rows = pd.read_csv(own / "labels.csv", dtype=str)
    rows.assign(slide_id=rows["slide_id"].str.lstrip("0")).to_csv(own / "labels.csv", index=False)
    said = refused_compare(cohort=own)
    assert "they differ in leading zeros" in said


def test_an_empty_folder(refused_compare: Said, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    said = refused_compare("--features", tmp_path / "none")
    assert "no feature files in it" in said
    assert "extract features first" in said


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_output_that_cannot_be_written(name, refused: Said, given, model: Path, cohort: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    out = tmp_path / name
    for verb in ("compare", "train"):
        assert f"{out}: cannot be written" in refused(verb, *given, "--epochs", "1", "--out", out)
    said = refused("phantom", "composition", "--slides", "4", "--patches", "20", "--dim", "16", "--out", out)
    assert str(out) in said
    below = out / "predictions.csv"
    assert f"{out}: cannot be written" in refused("predict", model, cohort / "features", "--out", below)
    assert "cannot be written" in refused("demo", "--out", out)
    assert (tmp_path / "file").read_text() == "mine"


def test_predictions_are_a_file(refused: Said, model: Path, cohort: Path, tmp_path: Path) -> None:
    said = refused("predict", model, cohort / "features", "--out", tmp_path)
    assert f"{tmp_path}: found a folder, expected a file" in said
    assert str(tmp_path / "predictions.csv") in said


def test_a_run_folder_of_other_settings(finished, refused: Said, given) -> None:
    run = finished[0]
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    same = ["compare", *given, "--methods", "abmil", "--folds", "3", "--out", run]
    assert "epochs was 2, is 3" in refused(*same, "--epochs", "3")
    assert "other folds" in refused(*same, "--epochs", "2", "--seed", "1")
    assert "Give another --out" in refused(*same, "--epochs", "2", "--folds", "4")
    assert "other slides, patients or labels" in refused(*same, "--epochs", "2", "--positive", "normal")
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_a_model_is_never_overwritten(refused: Said, model: Path, given) -> None:
    before = (model / "model.json").read_bytes()
    said = refused("train", "--method", "graph-abmil+jigsaw", *given, "--epochs", "1", "--out", model)
    assert f"{model} holds a model already, of other settings, slides or features. Give another --out" in said
    assert (model / "model.json").read_bytes() == before


def test_train_knows_its_methods(refused: Said, given, tmp_path: Path) -> None:
    said = refused("train", *given, "--method", "graph-abmil-jigsaw", "--out", tmp_path / "model")
    assert "--method: found 'graph-abmil-jigsaw'" in said
    assert "Did you mean 'graph-abmil+jigsaw'?" in said
    assert not (tmp_path / "model").exists()


def test_patients_of_several_labels_are_no_bag(refused: Said, own: Path) -> None:
    rows = pd.read_csv(own / "labels.csv", dtype=str)
    twice = rows["patient_id"][rows["patient_id"].duplicated()].iloc[0]
    rows.loc[rows["patient_id"].duplicated() & (rows["patient_id"] == twice), "label"] = "other"
    rows.loc[rows["patient_id"] == "0001", "label"] = "other"
    rows.to_csv(own / "labels.csv", index=False)
    for verb in ("compare", "train"):
        said = refused(verb, *at(own), "--level", "patient", "--out", own / "out")
        assert f"slides of several labels: {twice}" in said


def test_a_model_and_features_of_another_encoder(predicts_but, refused: Said, model: Path, own: Path) -> None:
    with h5py.File(own / "features" / "0005.h5", "r+") as file:
        file["features"].attrs["encoder"] = "uni_v1"
    said = predicts_but("0005")
    assert "0005: features are of the encoder uni_v1, the model was trained on phantom" in said
    assert "Extract with the same encoder, or train on these features." in said
    with h5py.File(own / "features" / "0005.h5", "r+") as file:
        narrow = file["features"][:, :8]
        del file["features"]
        file["features"] = narrow
    said = refused("predict", model, own / "features" / "0005.h5", "--out", own / "q.csv", "--attention", own / "m")
    assert "0005: features have 8 columns, the model was trained on 16 (phantom-1)" in said
    assert not (own / "q.csv").exists()  # there is nothing good to write
    assert not (own / "m").exists()


def test_a_slide_without_patches_is_not_predicted(predicts_but, own: Path) -> None:
    with h5py.File(own / "features" / "0005.h5", "r+") as file:
        for key in ("features", "coords"):
            file[key].resize(0, axis=0)
    spoil(own / "features" / "0007.h5")
    said = predicts_but("0005", "0007")
    assert "0005: the slide has no patches" in said
    assert "0007.h5: 1 features values are NaN or Inf" in said


def test_a_folder_that_is_no_model(refused: Said, cohort: Path, model: Path, tmp_path: Path) -> None:
    said = refused("predict", cohort, cohort / "features", "--out", tmp_path / "p.csv")
    assert "no model.safetensors and no model.json in it" in said
    assert "`jigsawmil train --out`" in said
    for name in ("model.json", "model.safetensors"):
        (tmp_path / name).write_bytes((model / name).read_bytes()[:100])
    said = refused("predict", tmp_path, cohort / "features", "--out", tmp_path / "p.csv")
    assert "not a readable model of jigsawmil" in said


def test_features_that_are_none(refused: Said, model: Path, cohort: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    for features, words in (
        (tmp_path / "nowhere", "no such file or folder"),
        (tmp_path / "none", "no feature files in it"),
        (cohort / "labels.csv", "labels.csv: found a file ending in '.csv'"),
    ):
        assert words in refused("predict", model, features, "--out", tmp_path / "p.csv")
    assert list(tmp_path.iterdir()) == [tmp_path / "none"]


def test_two_files_of_one_slide(refused: Said, model: Path, cohort: Path, own: Path) -> None:
    one, two = cohort / "features" / "0001.h5", own / "features" / "0001.h5"
    said = refused("predict", model, one, two, "--out", own / "p.csv")
    assert "are both features of 0001. Give one of them." in said


def test_splits_that_leak(refused_compare: Said, cohort: Path, tmp_path: Path) -> None:
    """A patient's two slides on two sides."""
    rows = pd.read_csv(cohort / "labels.csv", dtype=str)
    patient = rows["patient_id"][rows["patient_id"].duplicated()].iloc[0]
    first, second = rows["slide_id"][rows["patient_id"] == patient][:2]
    test = [second, *rows["slide_id"][rows["patient_id"] != patient][:5]]
    train = [slide for slide in rows["slide_id"] if slide not in test]
    columns = {"train": pd.Series(train), "val": pd.Series([], dtype=str), "test": pd.Series(test)}
    pd.DataFrame(columns).to_csv(tmp_path / "splits_0.csv")
    said = refused_compare("--splits", tmp_path / "splits_0.csv")
    assert f"patient {patient} is in train ({first}) and in test ({second})" in said
    assert "Correct the split, or make new folds." in said


STUDIES = [
    ("epoch = 3", ["key: found 'epoch'", "expected one of cohorts"]),
    ("[defaults]\nepoch = 3", ["defaults", "'epoch'", "Did you mean 'epochs'?"]),
    ("[variants.abmil]\nkk = 3", ["variants.abmil", "'kk'"]),
    ("[variants.mine]\nk = 3", ["variants.mine", "method: found 'mine'", "expected one of abmil"]),
    ("[cohorts.c]\nlabel = 'x'", ["cohorts.c", "'label'", "Did you mean 'labels'?"]),
    ("[cohorts.c]\nlabels = 'x'", ["cohorts.c", "no features"]),
    ("folds = 'three'", ["'three'", "whole number"]),
    ("seeds = 3", ["seeds: found 3", "a list such as [0, 1]"]),
    ("", ["cohorts: found []", "at least one"]),
    ("a = ", ["not a TOML file"]),
]


@pytest.mark.parametrize(("text", "fragments"), STUDIES, ids=[text.replace("\n", " ") for text, _ in STUDIES])
def test_a_study_file_that_cannot_be(text: str, fragments: list[str], refused: Said, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text)
    said = refused("study", tmp_path / "mine.toml", "--out", tmp_path / "run")
    assert "mine.toml" in said
    assert all(fragment in said for fragment in fragments), said
    assert not (tmp_path / "run").exists()


def test_no_study_file(refused: Said, tmp_path: Path) -> None:
    assert "nowhere.toml: cannot be read" in refused("study", tmp_path / "nowhere.toml")


def test_check_finds_everything_at_once_and_fails(jigsawmil, own: Path) -> None:
    (own / "features" / "0001.h5").unlink()
    (own / "features" / "0002.h5").write_bytes(b"no h5")
    ran = jigsawmil("check", *at(own))
    assert ran.code == 1
    assert "2 errors" in ran.out
    assert "0001" in ran.out
    assert "0002" in ran.out
    told = json.loads(jigsawmil("check", *at(own), "--json").out)
    assert {problem["kind"]: problem["names"] for problem in told["problems"]} == {
        "no-features": ["0001"],
        "unreadable": ["0002"],
    }
    assert told["slides"] == len(find_bags(own / "features")) - 1 == 16


def test_a_url_is_no_folder(jigsawmil, given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = jigsawmil("train", *given, "--out", "s3://bucket/model")
    assert ran.code == 1
    assert "looks like a URL, expected a folder" in " ".join(ran.err.split())
    assert list(tmp_path.iterdir()) == []


def test_hostile_files_are_refused_in_a_sentence(refused: Said, given, tmp_path: Path) -> None:
    """Deep JSON, and a field beyond the limit of csv."""
    deep, wide, labels = tmp_path / "deep.json", tmp_path / "wide.csv", tmp_path / "labels.csv"
    deep.write_text("[" * 100_000)
    wide.write_text("slide,fold\n" + "x" * 200_000 + ",1\n")
    labels.write_text("slide_id,label\n" + "x" * 200_000 + ",1\n")
    run = ["compare", *given, "--out", tmp_path / "run"]
    assert "deep.json: not valid JSON" in refused(*run, "--splits", deep)
    assert "wide.csv: not a table (field larger than field limit" in refused(*run, "--splits", wide)
    assert "labels.csv, line 2: not a table" in refused("check", "--labels", labels, *given[2:])


def test_a_demo_leaves_a_folder_of_something_else_alone(refused: Said, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "Give a new or empty folder" in refused("demo", "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
