"""`compare` and `study`: what they write, what they print, and that running again goes on."""

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from jigsawmil.bags.formats import find_bags, read_bag, write_bag
from jigsawmil.cli import show
from jigsawmil.errors import StudyError
from jigsawmil.train.apply import apply_model
from jigsawmil.train.checkpoint import load_model

Table = Callable[[Path], pd.DataFrame]
STUDY = """
folds = 2
[defaults]
epochs = 1
patience = 0
hidden = 16
attention_dim = 8
grid = 3
k = 6
[cohorts.phantom]
labels = "cohort/labels.csv"
features = "cohort/features"
[variants.abmil]
[variants.near]
method = "graph-mil"
k = 3
"""


def test_the_tables_of_a_run(finished, cohort: Path, table: Table) -> None:
    run, _ = finished
    summary, predictions = table(run / "summary.csv"), table(run / "predictions.csv")
    first = ["variant", "folds", "auc_mean", "auc_std", "auc_oof", "auc_low", "auc_high"]
    assert list(summary.columns[:7]) == first
    assert list(summary["variant"]) == ["abmil", "graph-abmil+jigsaw"]
    assert list(predictions) == ["variant", "fold", "seed", "slide_id", "patient_id", "label", "probability", "cohort"]
    labels = table(cohort / "labels.csv")
    for _, rows in predictions.groupby("variant"):
        found = rows[["slide_id", "patient_id", "label"]].sort_values("slide_id", ignore_index=True)
        pd.testing.assert_frame_equal(found, labels.sort_values("slide_id", ignore_index=True))  # "0001" stays "0001"
    pairs = table(run / "comparisons.csv")
    assert pairs[["variant_a", "variant_b"]].to_numpy().tolist() == [["abmil", "graph-abmil+jigsaw"]]
    assert table(run / "left_out.csv").empty


def test_predictions_come_from_the_test_folds_that_are_written_down(finished, table: Table) -> None:
    run, _ = finished
    folds = json.loads((run / "folds.json").read_text())["folds"]
    tested = {slide: i for i, fold in enumerate(folds) for slides in fold["test"].values() for slide in slides}
    predictions = table(run / "predictions.csv")
    assert dict(zip(predictions["slide_id"], predictions["fold"], strict=True)) == tested
    for fold in folds:
        assert fold["train"].keys().isdisjoint(fold["test"])  # patients


def test_the_probability_is_that_of_the_positive_class(finished, cohort: Path, table: Table) -> None:
    run, ran = finished
    assert "positive class tumour" in ran.out
    predictions = table(run / "predictions.csv").set_index(["variant", "slide_id"])
    bags = find_bags(cohort / "features")
    for method in ("abmil", "graph-abmil+jigsaw"):
        job = run / "jobs" / "cohort" / method / "seed0-fold1"
        slides = list(table(job / "predictions.csv")["slide_id"])
        model, card = load_model(job)
        assert card.classes == ("normal", "tumour")
        for result in apply_model(model, card, [bags[slide] for slide in slides]):
            assert result.probabilities[1] == predictions.loc[(method, result.name), "probability"]


def test_the_printed_table_and_the_pictures(finished) -> None:
    run, ran = finished
    for words in ("abmil", "graph-abmil+jigsaw", "18 slides of 15 patients", "3 folds", "Differences of AUROC"):
        assert words in ran.out
    files = {"roc.png", "forest.png", "traces.png", "attention-figure-cohort.png", "attention-figure-cohort.csv"}
    assert {path.name for path in (run / "plots").iterdir()} == files
    assert "done    cohort abmil seed 0 fold 0" in ran.out
    assert ran.err == ""


@pytest.mark.parametrize(
    ("typed", "processes", "on_ray"),
    [
        ([], 3, None),
        (["--device", "cpu"], 1, None),
        (["--jobs", "2"], 2, None),
        (["--executor", "ray", "--device", "cuda", "--cpus", "4"], 1, 4),  # a GPU of the cluster's, whatever is here
    ],
)
def test_jobs_are_spread_over_the_gpus_of_this_machine(
    typed, processes, on_ray, compare, given, tmp_path, monkeypatch
) -> None:
    asked: list[tuple[int, int | None]] = []

    def run(*_, processes: int, executor, **__):
        asked.append((processes, executor and executor.keywords["cpus"]))
        raise StudyError("asked")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0 if on_ray else 3)
    monkeypatch.setattr(show, "cross_validate", run)
    monkeypatch.setattr(show, "ray_cluster", lambda address: nullcontext("Ray"))
    ran = compare(*given, *typed, "--out", tmp_path / "run")
    assert "Error: asked" in ran.err
    assert asked == [(processes, on_ray)]


def test_positive_says_whose_probability_it_is(compare, given, tmp_path: Path, table: Table) -> None:
    ran = compare(*given, "--positive", "normal", "--out", tmp_path / "run", "--quiet")
    assert ran.code == 0
    assert "positive class normal" in ran.out
    assert "done" not in ran.out
    assert list(table(tmp_path / "run" / "summary.csv")["positive"]) == ["normal"]
    job = tmp_path / "run" / "jobs" / "cohort" / "abmil" / "seed0-fold0"
    assert load_model(job)[1].classes == ("tumour", "normal")


def test_running_again_does_what_is_missing(finished, compare, given, tmp_path: Path, table: Table) -> None:
    run = Path(shutil.copytree(finished[0], tmp_path / "run"))
    same = [*given, "--methods", "abmil,graph-abmil+jigsaw", "--folds", "3", "--attention", "--out", run]
    shutil.rmtree(run / "jobs" / "cohort" / "abmil" / "seed0-fold2")
    (run / "summary.csv").unlink()
    old = (run / "jobs" / "cohort" / "abmil" / "seed0-fold1" / "job.json").stat().st_mtime_ns
    ran = compare(*same)
    assert ran.code == 0
    assert "5 of 6 jobs are done already; running the rest." in ran.out
    assert re.findall(r"done +(.*) \(", ran.out) == ["cohort abmil seed 0 fold 2"]
    assert (run / "jobs" / "cohort" / "abmil" / "seed0-fold1" / "job.json").stat().st_mtime_ns == old
    for file in ("summary.csv", "predictions.csv", "comparisons.csv", "folds.json"):
        assert (run / file).read_bytes() == (finished[0] / file).read_bytes()
    assert "6 of 6 jobs are done already.\n" in compare(*same).out


@pytest.mark.parametrize("names", [("adeno", "none", "squamous"), ("1", "2", "10")])
def test_more_classes_have_a_column_each(names, compare, cohort: Path, tmp_path: Path, table: Table) -> None:
    labels = table(cohort / "labels.csv")
    labels["label"] = [names[int(patient) % 3] for patient in labels["patient_id"]]
    labels.to_csv(tmp_path / "labels.csv", index=False)
    ordinal = ["--ordinal"] if names[0] == "1" else []
    given = ["--labels", tmp_path / "labels.csv", "--features", cohort / "features"]
    ran = compare(*given, *ordinal, "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    predictions = table(tmp_path / "run" / "predictions.csv")
    columns = [f"probability_{name}" for name in names]  # grades by their value: 2 before 10
    assert list(predictions.columns[6:]) == [*columns, "cohort"]
    assert predictions[columns].sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-6)
    assert set(predictions["label"]) == set(names)
    assert ("kappa" in " ".join(table(tmp_path / "run" / "summary.csv"))) == bool(ordinal)


def test_a_bag_may_be_a_patient(compare, given, tmp_path: Path, table: Table) -> None:
    ran = compare(*given, "--level", "patient", "--attention", "--out", tmp_path / "run", pictures=True)
    assert ran.code == 0, ran.err
    predictions = table(tmp_path / "run" / "predictions.csv")
    assert len(predictions) == 15
    assert (predictions["slide_id"] == predictions["patient_id"]).all()
    assert (tmp_path / "run" / "plots" / "attention-figure-cohort.png").exists()


def test_the_shuffle_control_is_reported_beside(compare, given, tmp_path: Path, table: Table) -> None:
    ran = compare(*given, "--methods", "abmil,graph-mil", "--shuffle-control", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "Does patch position matter in this cohort?" in ran.out
    control = table(tmp_path / "run" / "control" / "control.csv").set_index("variant")
    assert set(control.index) == {"abmil", "graph-mil"}
    true, moved = (table(tmp_path / "run" / part / "predictions.csv") for part in (".", "control"))
    same = (true["probability"] - moved["probability"]).abs().groupby(true["variant"]).max()
    assert same["abmil"] < 1e-6  # it cannot see places
    assert same["graph-mil"] > 1e-4


def test_lambda_is_a_number_or_a_rule(compare, given, tmp_path: Path) -> None:
    traces = {}
    for value in ("0.5", "em"):
        out = tmp_path / value
        assert compare(*given, "--methods", "abmil+jigsaw", "--lambda", value, "--out", out, "--quiet").code == 0
        traces[value] = pd.read_csv(out / "jobs" / "cohort" / "abmil+jigsaw" / "seed0-fold0" / "trace.csv")["lambda_"]
    assert (traces["0.5"] == 0.5).all()
    assert traces["em"].between(0.2, 0.4).all()  # 1 / (1 + log 9)


def test_seeds_have_folds_of_their_own(compare, given, tmp_path: Path, table: Table) -> None:
    assert compare(*given, "--seeds", "2", "--seed", "4", "--out", tmp_path / "run", "--quiet").code == 0
    folds = table(tmp_path / "run" / "predictions.csv").pivot(index="slide_id", columns="seed", values="fold")
    assert list(folds) == [4, 5]
    assert (folds[4] != folds[5]).any()


def test_folds_of_a_run_can_be_used_again(finished, compare, given, tmp_path: Path, table: Table) -> None:
    ran = compare(*given, "--splits", finished[0] / "folds.json", "--seed", "3", "--out", tmp_path / "run", "--quiet")
    assert ran.code == 0, ran.err
    theirs, ours = (table(folder / "predictions.csv") for folder in (finished[0], tmp_path / "run"))
    columns = ["slide_id", "fold"]
    pd.testing.assert_frame_equal(ours[columns], theirs.query("variant == 'abmil'")[columns])


def test_the_order_of_patches_changes_nothing(finished, compare, own: Path, tmp_path: Path, table: Table) -> None:
    rng = np.random.default_rng(0)
    for path in find_bags(own / "features").values():
        bag = read_bag(path)
        order = torch.from_numpy(rng.permutation(len(bag)))
        write_bag(dataclasses.replace(bag, features=bag.features[order], coords=bag.coords[order]), path)
    given = ["--labels", own / "labels.csv", "--features", own / "features"]
    assert compare(*given, "--methods", "graph-abmil+jigsaw", "--folds", "3", "--out", tmp_path / "run").code == 0
    theirs = table(finished[0] / "predictions.csv").query("variant == 'graph-abmil+jigsaw'")
    ours = table(tmp_path / "run" / "predictions.csv")
    assert ours["probability"].to_numpy() == pytest.approx(theirs["probability"].to_numpy(), abs=1e-6)


def test_a_study_file(jigsawmil, cohort: Path, tmp_path: Path, table: Table, monkeypatch) -> None:
    (tmp_path / "cohort").symlink_to(cohort)
    (tmp_path / "mine.toml").write_text(STUDY)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # its paths are relative to the file, not to here
    ran = jigsawmil("study", "../mine.toml", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert list(table(tmp_path / "run" / "summary.csv")["variant"]) == ["abmil", "near"]
    assert "4 of 4 jobs are done already." in jigsawmil("study", "../mine.toml", "--out", tmp_path / "run").out


def test_a_study_goes_to_a_folder_of_its_name(jigsawmil, cohort: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "cohort").symlink_to(cohort)
    (tmp_path / "mine.toml").write_text(STUDY.split("[variants.near]")[0])
    monkeypatch.chdir(tmp_path)
    assert jigsawmil("study", "mine.toml", "--quiet").code == 0
    assert (tmp_path / "runs" / "mine" / "summary.csv").exists()


def test_a_run_again_with_fewer_methods_says_what_left_the_tables(jigsawmil, given, quick, tmp_path: Path) -> None:
    again = ["compare", *given, *quick, "--folds", "2", "--out", tmp_path / "run", "--methods"]
    assert "Left out of the tables" not in jigsawmil(*again, "abmil,graph-mil").out
    said = jigsawmil(*again, "abmil").out
    assert "Left out of the tables" in said
    assert ": graph-mil." in " ".join(said.split())
