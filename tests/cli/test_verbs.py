"""`phantom`, `check`, `train`, `predict`, `demo`, their --help, and Ctrl-C."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jigsawmil.bags.formats import read_bag
from jigsawmil.cli import starting
from jigsawmil.cli.app import VERBS
from jigsawmil.errors import JigsawmilError
from jigsawmil.study import executors
from jigsawmil.train import fold
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.estimator import SlideClassifier
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import state_key

Table = Callable[[Path], pd.DataFrame]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example_and_keeps_to_the_terminal(verb: str, columns: int, jigsawmil) -> None:
    ran = jigsawmil(verb, "--help", columns=columns)
    assert ran.code == 0
    assert f"Example: jigsawmil {verb}" in ran.out
    assert max(map(len, ran.out.splitlines())) <= columns
    assert "…" not in ran.out  # nothing is cut


def test_help_names_the_methods(jigsawmil) -> None:
    said = " ".join(jigsawmil("compare", "--help", columns=120).out.replace("│", " ").split())
    assert "abmil, abmil+jigsaw, graph-mil, graph-abmil, graph-abmil+jigsaw" in said


def test_a_phantom_is_a_cohort(jigsawmil, tmp_path: Path, table: Table) -> None:
    small = ["--slides", "6", "--patches", "25", "--dim", "16", "--seed", "3", "--out", tmp_path / "phantom"]
    ran = jigsawmil("phantom", "position", *small)
    assert ran.code == 0, ran.err
    labels, features = map(Path, ran.out.split()[-2:])
    assert len(table(labels)) == len(list(features.iterdir())) == 6
    checked = jigsawmil("check", "--labels", labels, "--features", features)
    assert checked.code == 0
    assert "6 slides" in checked.out


def test_check_as_json(jigsawmil, given) -> None:
    told = json.loads(jigsawmil("check", *given, "--json").out)
    assert (told["slides"], told["patients"], told["problems"]) == (18, 15, [])
    assert set(told["classes"]) == {"normal", "tumour"}


def test_training_says_what_it_does(jigsawmil, given, quick, tmp_path: Path) -> None:
    named = ["--positive", "tumour", "--method", "abmil+jigsaw"]
    ran = jigsawmil("train", *given, *quick, *named, "--out", tmp_path / "model")
    assert ran.code == 0, ran.err
    first, cohort, one, two, last = ran.out.splitlines()
    assert first == "Positive class: tumour."
    assert cohort.startswith("18 slides of 15 patients: ")
    assert one.startswith("epoch 1/2  MIL 0.")
    assert "jigsaw" in two
    assert "lambda" in two
    assert last == f"Kept epoch 2 of 2. The model is in {tmp_path / 'model'}."
    files = ["model.json", "model.safetensors", "training_slides.csv"]
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == files
    card = load_model(tmp_path / "model")[1]
    assert (card.model.method, card.model.hidden, card.classes) == ("abmil+jigsaw", 16, ("normal", "tumour"))


def test_a_check_says_that_the_positive_class_is_a_guess(jigsawmil, cohort: Path, tmp_path: Path, table: Table) -> None:
    features = ["--features", cohort / "features"]
    said = " ".join(jigsawmil("check", "--labels", cohort / "labels.csv", *features).out.split())
    assert "Positive class: tumour (guessed: last in sorted order; state it with --positive NAME)." in said
    assert "guess" not in jigsawmil("check", "--labels", cohort / "labels.csv", *features, "--positive", "normal").out
    labels = table(cohort / "labels.csv")
    labels["label"] = (labels["label"] == "tumour").astype(int)  # 0 and 1 are no guess
    labels.to_csv(tmp_path / "labels.csv", index=False)
    assert "Positive class: 1." in jigsawmil("check", "--labels", tmp_path / "labels.csv", *features).out


def test_quiet_training_only_says_where_the_model_is(jigsawmil, given, quick, tmp_path: Path) -> None:
    ran = jigsawmil("train", *given, *quick, "--method", "abmil", "--quiet", "--out", tmp_path / "model")
    assert ran.out.count("\n") == 2


@pytest.mark.parametrize("features", [["."], ["0003.h5"], ["0005.h5", "0003.h5", "0004.h5"], ["0003.h5", "."]])
def test_predictions_are_those_of_the_classifier(features, jigsawmil, model, cohort, tmp_path, table: Table) -> None:
    """Of a file, a folder, several files; a file that is also in the folder counts once."""
    items = [cohort / "features" / name for name in features]
    ran = jigsawmil("predict", model, *items, "--out", tmp_path / "new" / "p.csv")
    assert ran.code == 0, ran.err
    predictions = table(tmp_path / "new" / "p.csv")
    assert list(predictions) == ["slide_id", "prediction", "probability"]
    wanted = len(features) if "." not in features else 18
    assert len(predictions) == predictions["slide_id"].nunique() == wanted
    assert f"{wanted} prediction" in ran.out
    assert "probability of 'tumour'" in ran.out
    classifier = SlideClassifier.load(model)
    paths = [cohort / "features" / f"{slide}.h5" for slide in predictions["slide_id"]]
    assert (classifier.predict_proba(paths)[:, 1] == predictions["probability"]).all()
    assert (classifier.predict(paths) == predictions["prediction"]).all()


def test_attention_of_every_patch_in_the_order_of_the_file(jigsawmil, model, cohort, tmp_path, table: Table) -> None:
    out = ["--out", tmp_path / "p.csv", "--attention", tmp_path / "maps"]
    assert jigsawmil("predict", model, cohort / "features", *out, "--quiet").code == 0
    maps = sorted((tmp_path / "maps").iterdir())
    assert [path.stem for path in maps] == sorted(table(tmp_path / "p.csv")["slide_id"])
    classifier = SlideClassifier.load(model)
    for path in maps[:4]:
        found, bag = pd.read_csv(path), read_bag(cohort / "features" / f"{path.stem}.h5")
        assert list(found) == ["x", "y", "attention"]
        assert (found[["x", "y"]].to_numpy() == bag.coords.numpy()).all()
        assert found["attention"].sum() == pytest.approx(1, abs=1e-5)
        assert found["attention"].to_numpy() == pytest.approx(classifier.attention(bag), abs=1e-7)


def test_a_slide_is_called_as_in_the_label_table(jigsawmil, model, cohort, tmp_path, table: Table) -> None:
    shutil.copy(cohort / "features" / "0003.h5", tmp_path / "0003.svs.h5")
    assert jigsawmil("predict", model, tmp_path / "0003.svs.h5", "--out", tmp_path / "p.csv").code == 0
    assert list(table(tmp_path / "p.csv")["slide_id"]) == ["0003"]


def test_more_classes_have_a_column_each(jigsawmil, quick, cohort: Path, tmp_path: Path, table: Table) -> None:
    labels = table(cohort / "labels.csv")
    labels["label"] = ["abc"[int(patient) % 3] for patient in labels["patient_id"]]
    labels.to_csv(tmp_path / "labels.csv", index=False)
    given = ["--labels", tmp_path / "labels.csv", "--features", cohort / "features", "--method", "abmil"]
    assert jigsawmil("train", "--method", "graph-abmil+jigsaw", *given, *quick, "--out", tmp_path / "model").code == 0
    assert jigsawmil("predict", tmp_path / "model", cohort / "features", "--out", tmp_path / "p.csv").code == 0
    predictions = table(tmp_path / "p.csv")
    columns = ["probability_a", "probability_b", "probability_c"]
    assert list(predictions.columns[2:]) == columns
    likeliest = np.array(["a", "b", "c"])[predictions[columns].to_numpy().argmax(axis=1)]
    assert (predictions["prediction"] == likeliest).all()


def test_a_model_of_patients_says_how_it_knows_them(jigsawmil, given, quick, cohort, tmp_path, table: Table) -> None:
    patient = ["--level", "patient", "--method", "abmil", "--out", tmp_path / "model"]
    assert jigsawmil("train", *given, *quick, *patient).code == 0
    folder = tmp_path / "tcga"
    folder.mkdir()
    for slide, name in {"0001": "0001-01Z-DX1", "0002": "0001-01Z-DX2", "0003": "0002-01Z-DX1"}.items():
        shutil.copy(cohort / "features" / f"{slide}.h5", folder / f"TCGA-AA-{name}.h5")
    out = ["--out", tmp_path / "p.csv", "--attention", tmp_path / "maps"]
    ran = jigsawmil("predict", tmp_path / "model", folder, *out)
    assert ran.code == 0, ran.err
    assert list(table(tmp_path / "p.csv")["patient_id"]) == ["TCGA-AA-0001", "TCGA-AA-0002"]
    assert "Patients are known from TCGA barcodes" in ran.out
    pooled = sum(pd.read_csv(path)["attention"].sum() for path in (tmp_path / "maps").glob("TCGA-AA-0001*"))
    assert pooled == pytest.approx(1, abs=1e-5)  # over all slides of the patient


def test_the_demo_runs_through(jigsawmil, tmp_path: Path, table: Table, monkeypatch) -> None:
    """The same steps on a cohort and with methods that take seconds."""
    real, settings = starting.phantom_spec, Settings.from_flat
    small = {"slides": 12, "patches": 20, "dim": 16}
    monkeypatch.setattr(starting, "phantom_spec", lambda kind, **knobs: real(kind, **knobs | small))
    quick = {"epochs": 1, "patience": 0, "hidden": 16, "attention_dim": 8}
    monkeypatch.setattr(Settings, "from_flat", lambda values: settings(values | quick))
    monkeypatch.setattr(starting, "DEMO", ("abmil", "graph-abmil+jigsaw"))
    monkeypatch.chdir(tmp_path)
    ran = jigsawmil("demo", "--jobs", "1")
    assert ran.code == 0, ran.err
    assert "ABMIL should be at chance" in " ".join(ran.out.split())
    assert list(table(tmp_path / "demo" / "run" / "summary.csv")["variant"]) == ["abmil", "graph-abmil+jigsaw"]
    assert len(list((tmp_path / "demo" / "run" / "jobs").rglob("attention.safetensors"))) == 6
    assert "demo/run/report.html" in ran.out
    assert "graph-abmil+jigsaw" in (tmp_path / "demo" / "run" / "report.html").read_text()
    assert "6 of 6 jobs are done already." in jigsawmil("demo", "--jobs", "1").out  # the cohort is kept too


def test_a_disk_that_fails_is_told_in_plain_words(compare, given, tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "summary.csv")

    monkeypatch.setattr("jigsawmil.study.gather.write_csv", full)
    ran = compare(*given, "--out", tmp_path / "run")
    assert ran.code == 1
    assert "Error: [Errno 28] No space left on device: 'summary.csv'" in ran.err


def test_jobs_that_failed_are_told_at_the_end(compare, given, tmp_path: Path, table: Table, monkeypatch) -> None:
    """The methods that are whole are judged; the exit code says that something is missing."""
    real = executors.run_job

    def sometimes(job, on_epoch, worker) -> None:
        if job.variant == "graph-mil":
            raise JigsawmilError("out of luck" if job.fold else "out of [time]")
        real(job, on_epoch, worker)

    monkeypatch.setattr(executors, "run_job", sometimes)
    same = [*given, "--methods", "abmil,graph-mil", "--folds", "3", "--out", tmp_path / "run"]
    ran = compare(*same)
    assert ran.code == 1
    assert "failed  cohort graph-mil seed 0 fold 1: out of luck" in ran.out
    assert ran.err.splitlines() == [
        "Failed: cohort graph-mil seed 0 fold 0",
        "out of [time]",
        "Failed: cohort graph-mil seed 0 fold 1, cohort graph-mil seed 0 fold 2",
        "out of luck",
        "Run the same command again: only what is missing runs.",
    ]
    assert list(table(tmp_path / "run" / "summary.csv")["variant"]) == ["abmil"]
    monkeypatch.setattr(executors, "run_job", real)
    again = compare(*same)
    assert again.code == 0
    assert "3 of 6 jobs are done already" in again.out


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send to one process")
def test_ctrl_c_stops_in_words_and_leaves_no_half_job(given, tmp_path: Path) -> None:
    out = tmp_path / "run"
    long = ["--methods", "abmil", "--epochs", "1000000", "--patience", "0", "--out", out]
    command = [sys.executable, "-c", "from jigsawmil.cli import main; main()", "compare", *map(str, given + long)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        end = time.monotonic() + 120
        while not (out / "folds.json").exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(0.5)  # into the first epochs
        process.send_signal(signal.SIGINT)
        printed, told = process.communicate(timeout=60)
    assert told == "Stopped. Run the same command again to resume.\n"
    assert process.returncode == 130
    assert "Traceback" not in printed
    assert not [path for path in (out / "jobs").rglob("*") if path.is_file() and not path.name.endswith(".state")]


def test_ctrl_c_while_training(jigsawmil, given, quick, tmp_path: Path, monkeypatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fold, "fit_split", interrupted)
    ran = jigsawmil("train", "--method", "graph-abmil+jigsaw", *given, *quick, "--out", tmp_path / "model")
    assert (ran.code, ran.err) == (130, "Stopped. Run the same command again to resume.\n")


def test_a_training_goes_on_only_under_its_own_settings_and_on_its_own_cohort() -> None:
    settings = Settings()
    assert state_key(settings, 0, "a") == state_key(Settings(), 0, "a")
    both = (settings, settings.replace(epochs=3))
    assert len({state_key(s, seed, cohort) for s in both for seed in (0, 1) for cohort in "ab"}) == 8
