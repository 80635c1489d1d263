"""Members of an ensemble are jobs like any other."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from jigsawmil import validate
from jigsawmil.nn.options import COMMITTEE
from jigsawmil.report.describe import study_toml
from jigsawmil.report.page import write_report
from jigsawmil.study.cases import run_maps
from jigsawmil.study.disagreement import disagreement
from jigsawmil.study.job import LOGIT
from jigsawmil.study.run import Run, open_run
from jigsawmil.study.study import Study
from jigsawmil.study.study_file import read_study
from jigsawmil.train.settings import Settings
from jigsawmil.viewer.data import Library

StudyOf = Callable[..., Study]
Ran = Callable[..., tuple[Run, list[str]]]
KINDS = [kind["method"] for kind in COMMITTEE]
OPTIONS: dict[str, Any] = {"epochs": 3, "patience": 2, "members": 2, "attention": True}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, phantom: Path, study_of: StudyOf, ran: Ran) -> Run:
    return ran(study_of(phantom, ("abmil", "graph-abmil"), **OPTIONS), tmp_path_factory.mktemp("ensembles") / "run")[0]


def test_predictions_are_those_of_the_mean_logit(finished: Run) -> None:
    table = finished.predictions.set_index(["variant", "slide_id"])
    for variant in ("abmil", "graph-abmil"):
        for fold in range(2):
            jobs = [job for job in finished.jobs if (job.variant, job.fold) == (variant, fold)]
            assert [job.member for job in jobs] == [0, 1]
            read = [pd.read_csv(job.files.predictions, dtype={"slide_id": str}) for job in jobs]
            logits = np.stack([own["logit0"] for own in read])
            found = table.loc[variant].loc[read[0]["slide_id"]]
            np.testing.assert_allclose(found["probability"], 1 / (1 + np.exp(-logits.mean(axis=0))), rtol=1e-12)
            np.testing.assert_allclose(found["logit_std"], logits.std(axis=0, ddof=1), rtol=1e-9)


def test_a_member_never_sees_the_test_fold_or_the_patients_it_stops_by(finished: Run) -> None:
    specs = {(job.variant, job.fold, job.member): job.spec["folds"] for job in finished.jobs}
    assert len(set(specs.values())) == 4  # two folds, two members: each fits other slides; both variants the same
    assert specs["abmil", 0, 1] == specs["graph-abmil", 0, 1]
    for job in finished.jobs:
        assert job.settings["members"] == 1  # a job is one model
    assert finished.settings["abmil"]["members"] == 2  # and the variant what was asked for


def test_a_missing_member_is_run_again_to_the_same_bytes(
    finished: Run, phantom: Path, study_of: StudyOf, ran: Ran, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(finished.folder, tmp_path / "run"))
    shutil.rmtree(copy / "jobs/c/abmil/seed0-fold1-member1")
    again, ended = ran(study_of(phantom, ("abmil", "graph-abmil"), **OPTIONS), copy)
    assert ended == ["c abmil seed 0 fold 1 member 1"]
    for name in ("predictions.csv", "summary.csv", "comparisons.csv"):
        assert (copy / name).read_bytes() == (finished.folder / name).read_bytes()
    assert open_run(copy).settings == again.settings


def test_two_processes_give_the_same_bytes(
    finished: Run, phantom: Path, study_of: StudyOf, ran: Ran, tmp_path: Path
) -> None:
    ran(study_of(phantom, ("abmil", "graph-abmil"), **OPTIONS), tmp_path / "two", processes=2)
    assert (tmp_path / "two/predictions.csv").read_bytes() == (finished.folder / "predictions.csv").read_bytes()


def test_one_member_is_the_single_model_it_always_was(
    phantom: Path, study_of: StudyOf, ran: Ran, tmp_path: Path
) -> None:
    plain, _ = ran(study_of(phantom, ("abmil",)), tmp_path / "plain")
    one, _ = ran(study_of(phantom, ("abmil",), members=1), tmp_path / "one")
    assert "logit_std" not in plain.predictions
    assert [job.folder.name for job in one.jobs] == ["seed0-fold0", "seed0-fold1"]
    assert (tmp_path / "one/predictions.csv").read_bytes() == (tmp_path / "plain/predictions.csv").read_bytes()


def test_a_committee_is_a_variant_like_any_other(phantom: Path, study_of: StudyOf, ran: Ran, tmp_path: Path) -> None:
    """By default with three members of each kind, so that weights are learnt."""
    study = study_of(phantom, ("abmil", "committee"), epochs=2, patience=1)
    variants = {name: own.replace(members=3 if name == "committee" else 1) for name, own in study.variants.items()}
    run, ended = ran(replace(study, variants=variants), tmp_path / "run")
    assert len(ended) == 2 + 2 * 15
    assert list(run.summary["variant"]) == ["abmil", "committee"]
    members = [job for job in run.jobs if job.variant == "committee" and job.fold == 0]
    assert [job.settings["method"] for job in sorted(members, key=lambda job: job.member)] == [
        *[method for method in KINDS for _ in range(3)]
    ]
    sums = run.weights.groupby("fold")["weight"].agg(["sum", "count"])
    assert sums.to_numpy() == pytest.approx(np.array([[1, 15]] * 2))
    assert run.weights["weight"].round(9).nunique() == 2 * len(KINDS)  # learnt in each fold, alike within a kind
    by_weight = pd.Series(dtype=float)
    for job in members:
        rows = pd.read_csv(job.files.predictions, dtype={"slide_id": str}).set_index("slide_id")
        by_weight = by_weight.add(job.weight * rows[f"{LOGIT}0"], fill_value=0)
    out_of_fold = run.predictions[(run.predictions["variant"] == "committee") & (run.predictions["fold"] == 0)]
    expected = 1 / (1 + np.exp(-by_weight[out_of_fold["slide_id"]].to_numpy()))
    assert out_of_fold["probability"].to_numpy() == pytest.approx(expected, abs=1e-6)
    first = out_of_fold.iloc[0]
    assert run_maps(run, first["slide_id"]).probabilities[1] == pytest.approx(first["probability"], abs=1e-9)
    validated = validate(run.folder, phantom / "labels.csv", phantom / "features", tmp_path / "v", allow_overlap=True)
    assert validated.weights["weight"].sum() == pytest.approx(1)
    assert len(validated.weights) == 30
    page = write_report(run.folder, run.folder / "report.html").read_text()
    assert "Several kinds of model whose logits are averaged" in page
    assert "graph-abmil+jigsaw, k = 24, sage" in page


def test_the_spread_is_judged_by_the_errors_it_finds() -> None:
    """Members disagree about the wrong cases in one table, about any in the other."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 40)
    p = np.where(rng.random(80) < 0.2, 1 - truth, truth) * 0.8 + 0.1
    wrong = (p > 0.5) != truth
    table = pd.DataFrame({"variant": "e", "label": truth.astype(str), "probability": p, "patient_id": np.arange(80)})
    sure = disagreement(table.assign(logit_std=wrong + rng.random(80)), ("0", "1"), "binary")[0]
    assert (sure.cases, sure.errors) == (80, wrong.sum())
    assert sure.auroc.value == roc_auc_score(wrong, wrong + 0.0) == 1.0
    assert sure.wrong > 1 > sure.right
    chance = disagreement(table.assign(logit_std=rng.random(80)), ("0", "1"), "binary")[0]
    assert chance.auroc.low < 0.5 < chance.auroc.high
    right = disagreement(table.assign(probability=truth * 1.0, logit_std=1.0), ("0", "1"), "binary")[0]
    assert (right.errors, right.auroc) == (0, None)
    assert disagreement(table, ("0", "1"), "binary") == []


def test_report_and_viewer_show_how_far_members_disagree(finished: Run) -> None:
    page = write_report(finished.folder, finished.folder / "report.html").read_text()
    assert "Do the members agree?" in page
    table = Library(finished).table("c", "abmil", 0)
    own = finished.predictions.set_index(["variant", "slide_id"])["logit_std"]["abmil"]
    assert list(table["spread"]) == [own[slide] for slide in table["slide_id"]]


def test_the_study_file_of_a_run_asks_for_the_same_settings(
    phantom: Path, study_of: StudyOf, small: Any, ran: Ran, tmp_path: Path
) -> None:
    """Also if all variants have the default method, and so names that are no methods."""
    method = Settings().method
    variants = {f"{epochs} epochs": small(method, epochs=epochs, members=1) for epochs in (1, 2)}
    study = replace(study_of(phantom), variants=variants)
    run, _ = ran(study, tmp_path / "run")
    (tmp_path / "again.toml").write_text(study_toml(run))
    assert read_study(tmp_path / "again.toml").variants == variants
