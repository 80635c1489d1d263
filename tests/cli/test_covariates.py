"""Covariates from the label table to the comparison, to new slides and to a second cohort."""

from pathlib import Path

import pandas as pd
import pytest

from jigsawmil.report.page import write_report
from jigsawmil.study.cases import run_maps
from jigsawmil.study.run import open_run

from .conftest import Program

QUICK = ("--set", "hidden=8", "--set", "attention_dim=4", "--epochs", "1", "--device", "cpu", "-q")
NAMES = ["covariates", "abmil", "abmil+covariates"]


@pytest.fixture(scope="module")
def labels(cohort: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The label table of the cohort with an age, which tells the class, and a sex, which does not."""
    frame = pd.read_csv(cohort / "labels.csv", dtype=str)
    patient = frame["patient_id"].astype(int)
    frame["age"] = (60 + 10 * (frame["label"] == "tumour") + patient % 5).astype(str)
    frame["sex"] = ["FM"[number % 2] for number in patient]
    frame.loc[frame["patient_id"] == frame["patient_id"][0], "age"] = "NA"
    path = tmp_path_factory.mktemp("covariates") / "labels.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(jigsawmil: Program, cohort: Path, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("covariates") / "run"
    given = ("--labels", labels, "--features", cohort / "features", "--label-column", "label")
    ran = jigsawmil(
        "compare", *given, "--covariates", "age,sex", "--methods", "abmil", *QUICK, "--folds", 3, "--out", out
    )
    assert ran.code == 0, ran.err
    return out


def test_compare_has_them_alone_the_slide_alone_and_both(run: Path) -> None:
    found = open_run(run)
    assert list(found.summary["variant"]) == NAMES
    assert {*zip(found.comparisons["variant_a"], found.comparisons["variant_b"], strict=True)} == {
        (NAMES[0], NAMES[1]), (NAMES[0], NAMES[2]), (NAMES[1], NAMES[2]),
    }  # fmt: skip
    alone, slide, both = found.summary["auc_oof"]
    assert alone > 0.9  # one patient's age is missing
    assert both > slide  # one epoch teaches nothing; what is joined begins where it stands alone
    page = write_report(run, run / "report.html").read_text()
    assert "clinical covariates alone" in page
    known = "with the number of the 15 patients who have one: age (14), sex (15); used by covariates, abmil+covariates."
    assert known in page


def test_maps_of_a_run_have_the_covariates_of_its_slides(run: Path) -> None:
    found = open_run(run)
    said = found.predictions[found.predictions["variant"] == NAMES[2]].iloc[3]
    maps = run_maps(found, said["slide_id"], variant=NAMES[2])
    assert maps.probabilities[1] == pytest.approx(said["probability"], abs=1e-6)


def test_a_model_takes_them_to_new_slides_and_to_another_cohort(
    jigsawmil: Program, cohort: Path, labels: Path, tmp_path: Path
) -> None:
    model, features = tmp_path / "model", cohort / "features"
    given = ("--labels", labels, "--features", features, "--label-column", "label")
    ran = jigsawmil("train", *given, "--covariates", "age,sex", "--method", "abmil", *QUICK, "--out", model)
    assert ran.code == 0, ran.err
    ran = jigsawmil("predict", model, features, "--out", tmp_path / "p.csv")
    assert "The model uses age, sex. Give the table that has these columns: --labels" in ran.err
    new = pd.read_csv(labels, dtype=str, keep_default_na=False)
    new["sex"] = ["X", *new["sex"][1:]]
    new.to_csv(tmp_path / "new.csv", index=False)
    ran = jigsawmil("predict", model, features, "--labels", tmp_path / "new.csv", "--out", tmp_path / "p.csv", "-q")
    assert ran.code == 0, ran.err
    assert "sex: the model does not know 'X' (1 slides); it takes them as missing" in ran.out
    table = pd.read_csv(tmp_path / "p.csv", dtype={"slide_id": str})
    assert {"logit from age", "logit from sex"} <= {*table.columns}
    assert table["logit from sex"][0] == 0
    assert (
        jigsawmil("predict", model, features / "0001.h5", "--out", tmp_path / "q.csv", "--labels", labels, "-q").code
        == 0
    )
    ran = jigsawmil("validate", model, "--labels", labels, "--features", features, "--label-column", "label",
                    "--allow-overlap", "--out", tmp_path / "v", "-q")  # fmt: skip
    assert ran.code == 0, ran.err
    judged = open_run(tmp_path / "v").predictions.set_index("slide_id")
    both = table[1:].set_index("slide_id")
    assert judged.loc[both.index, "probability"].to_numpy() == pytest.approx(both["probability"].to_numpy(), abs=1e-6)


def test_who_has_none_is_told_how_to_name_them(jigsawmil: Program, cohort: Path, tmp_path: Path) -> None:
    given = ("--labels", cohort / "labels.csv", "--features", cohort / "features")
    ran = jigsawmil("compare", *given, "--methods", "covariates,abmil", *QUICK, "--out", tmp_path / "run")
    assert "covariates: to use covariates, and the cohort has none. Name columns of the label table" in ran.err
    ran = jigsawmil("compare", *given, "--covariates", "agee", "--methods", "abmil", *QUICK, "--out", tmp_path / "run")
    assert "no column 'agee'" in ran.err
