"""External validation: a second cohort, by a model or by all fold models of a run, beside what training promised."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import average_precision_score, balanced_accuracy_score, brier_score_loss, roc_auc_score
from typer.testing import CliRunner

from jigsawmil.cli import app
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import ConfigError, FeatureError, LabelError, StudyError
from jigsawmil.report.finish import validate
from jigsawmil.report.page import write_report
from jigsawmil.report.validation import validation_answer, validation_table
from jigsawmil.statistics.intervals import Interval, difference_interval
from jigsawmil.study.cases import run_maps
from jigsawmil.study.run import Run, open_run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.study.validation import EXTERNAL
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.train.apply import apply_model
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_model
from jigsawmil.train.trained_on import TRAINED_ON

SMALL: dict[str, Any] = {"hidden": 8, "attention_dim": 4, "grid": 3, "k": 4, "epochs": 8, "patience": 4, "lr": 2e-2}
KNOBS: dict[str, Any] = {"slides": 26, "two_slides": 0.25, "dim": 16, "patches": 25, "noise": 1.0}


def draw(folder: Path, seed: int) -> Path:
    """A phantom of the feature space of seed 1."""
    return write_phantom(make_phantom("composition", **KNOBS, seed=seed, encoder_seed=1), folder)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cohort, another drawn with another seed, a run, an ensemble and a single model. Not to be changed."""
    home = tmp_path_factory.mktemp("validation")
    known, _ = draw(home / "known", 1), draw(home / "new", 2)
    cohort = Cohort.read(known / "labels.csv", known / "features")
    train_model(cohort, home / "model", Settings(method="abmil", members=2, **SMALL))
    train_model(cohort, home / "single", Settings(method="abmil", **SMALL))
    spec = cohort_spec({"labels": known / "labels.csv", "features": known / "features"})
    variants = {"abmil": Settings(method="abmil", **SMALL), "pair": Settings(method="abmil", members=2, **SMALL)}
    cross_validate(Study(cohorts={"c": spec}, variants=variants, folds=2, seeds=(0, 3)), home / "run")
    return home


@pytest.fixture(scope="module")
def run(home: Path) -> Run:
    new = home / "new"
    return validate(home / "run", new / "labels.csv", new / "features", home / "of run", attention=True)


@pytest.fixture
def given(home: Path) -> tuple[Path, Path]:
    return home / "new/labels.csv", home / "new/features"


def truth(table: pd.DataFrame) -> pd.Series:
    return (table["label"] == "tumour").astype(int)


def test_figures_are_those_of_scikit_learn(run: Run) -> None:
    y, p, row = truth(run.predictions), run.predictions["probability"], run.summary.iloc[0]
    threshold = run.record.validation.threshold
    assert len(y) == row["slides"] == 26
    assert row["auc_oof"] == pytest.approx(roc_auc_score(y, p))
    assert row["auprc"] == pytest.approx(average_precision_score(y, p))
    assert row["brier"] == pytest.approx(brier_score_loss(y, p))
    assert row["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, p > threshold))
    assert row["auc_low"] < row["auc_oof"] < row["auc_high"]
    assert row["boot_low"] < row["auc_oof"] < row["boot_high"]
    assert np.isfinite(row["calibration_intercept"])
    intercept = row["calibration_intercept"]
    assert expit(np.log(p / (1 - p)) + intercept).mean() == pytest.approx(y.mean(), abs=1e-6)  # in the large


def test_columns_are_those_of_a_comparison(run: Run, home: Path) -> None:
    compared = open_run(home / "run")
    for name in ("summary", "slides", "left_out", "comparisons"):
        theirs, ours = (pd.read_csv(folder / f"{name}.csv") for folder in (compared.folder, run.folder))
        assert list(ours) == list(theirs), name
    assert set(run.predictions) == set(compared.predictions)


def test_all_fold_models_of_a_variant_answer_by_their_mean_logit(run: Run, home: Path) -> None:
    jobs = [job for job in open_run(home / "run").jobs if job.variant == "pair"]
    assert len(jobs) == len(run.jobs) == 8  # 2 folds x 2 seeds x 2 members, the last variant
    models = [load_model(job.folder) for job in jobs]
    for row in run.predictions.iloc[:3].itertuples():
        file = home / "new/features" / f"{row.slide_id}.h5"
        logits = [next(apply_model(*one, [file])).scores[0] for one in models]
        assert row.probability == pytest.approx(expit(np.mean(logits)), abs=1e-7)
        assert row.logit_std == pytest.approx(np.std(logits, ddof=1), abs=1e-6)


def test_a_patient_is_the_mean_logit_of_its_slides(run: Run) -> None:
    table, patients = run.predictions, run.patient_predictions.set_index("patient_id")
    logit = np.log(table["probability"] / (1 - table["probability"]))
    mean = logit.groupby(table["patient_id"]).mean()
    assert len(patients) == table["patient_id"].nunique() < len(table)
    np.testing.assert_allclose(patients["probability"], expit(mean)[patients.index], rtol=1e-6)
    area = roc_auc_score(truth(patients), patients["probability"])
    assert run.patient_summary["auc_oof"].iloc[0] == pytest.approx(area)
    assert run.summary["auc_patient"].iloc[0] == pytest.approx(area)


def test_threshold_and_reference_of_a_run_are_its_own_out_of_fold(run: Run, home: Path) -> None:
    source, record = open_run(home / "run"), run.record.validation
    summary = source.summary.set_index("variant").loc["pair"]
    assert record.reference["auc_oof"] == summary["auc_oof"]
    table = source.predictions[source.predictions["variant"] == "pair"]
    pooled = table.groupby("slide_id").agg({"label": "first", "probability": "mean"})
    y, p = truth(pooled), pooled["probability"]
    best = max(balanced_accuracy_score(y, p > cut) for cut in [0, *p])
    assert record.threshold not in (None, 0.5)
    assert balanced_accuracy_score(y, p > record.threshold) == pytest.approx(best)
    assert record.reference["balanced_accuracy"] == pytest.approx(best)


def test_the_report_says_what_a_reader_needs(run: Run) -> None:
    page = (run.folder / "report.html").read_text()
    for words in (
        "jigsawmil report · of run · external", "External validation of the ensemble of all 8 fold models of pair",
        "2 folds x 2 seeds x 2 members", "in training", "calibration in the large", "calibration slope",
        "external, by patient", "patient bootstrap", "fixed in training",
        "id, patient id and content of the features: nothing is shared.",
        "jigsawmil validate", "Confusion matrix", "Do the members agree?", "Most confidently right", "by patient",
    ):  # fmt: skip
        assert words in page, words
    for words in ("Losses and lambda", "Are the differences real?", "jigsawmil study study.toml", "out-of-fold AUROC"):
        assert words not in page, words
    again = write_report(run.folder, run.folder / "report.html").read_text()
    assert again == page  # `jigsawmil report` makes the same page
    stated = validation_answer(run)
    assert "external slides, against" in stated.headline
    assert stated.further[0].startswith("Difference ")
    assert [column.header for column in validation_table(run).columns][1:] == [
        "external, by slide", "external, by patient", "in training",
    ]  # fmt: skip


def test_a_validation_is_a_run_for_maps_and_viewer(run: Run, home: Path) -> None:
    slide = run.predictions["slide_id"].iloc[0]
    assert len(run.jobs_of(slide)) == 8
    maps = run_maps(run, slide)
    assert maps.probabilities[1] == pytest.approx(run.predictions["probability"].iloc[0], abs=1e-7)
    with pytest.raises(StudyError, match=r"is itself a validation\. Give the run or model: .*run"):
        validate(run.folder, home / "new/labels.csv", home / "new/features", home / "no")


def test_a_model_with_its_card(home: Path, given: tuple[Path, Path], tmp_path: Path) -> None:
    found = validate(home / "model", *given, tmp_path / "v")
    _, card = load_model(home / "model")
    record = found.record.validation
    assert (record.threshold, record.models) == (card.threshold, 2)
    assert record.reference == card.performance
    assert "each patient by the one member that held it out" in (tmp_path / "v/report.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["v"]  # nothing temporary is left


def test_a_single_model_has_nothing_to_compare_with(home: Path, given: tuple[Path, Path], tmp_path: Path) -> None:
    found = validate(home / "single", *given, tmp_path / "v", device="cpu")
    assert (found.record.validation.threshold, found.record.validation.reference) == (None, {})
    assert "states no out-of-fold performance" in (tmp_path / "v/report.html").read_text()
    assert [job.member for job in found.jobs] == [None]
    assert "logit_std" not in found.predictions


def test_overlap_by_id_by_patient_and_by_content_is_refused(home: Path, tmp_path: Path) -> None:
    known, new = home / "known", home / "new"
    for source in ("model", "run"):
        with pytest.raises(StudyError, match=r"26 by slide id: 0001, .*21 by patient id.*26 by content"):
            validate(home / source, known / "labels.csv", known / "features", tmp_path / "v")
    labels = pd.read_csv(new / "labels.csv", dtype=str)
    labels.loc[3, "patient_id"] = "0007"
    labels.to_csv(tmp_path / "patients.csv", index=False)
    with pytest.raises(StudyError, match=r"\(1 by patient id: 0007\).*--allow-overlap"):
        validate(home / "model", tmp_path / "patients.csv", new / "features", tmp_path / "v")
    mixed = Path(shutil.copytree(new, tmp_path / "mixed"))
    shutil.copy(known / "features/0003.h5", mixed / "features/2-0001.h5")
    with pytest.raises(StudyError, match=r"\(1 by content \(.*\): 2-0001\)"):
        validate(home / "run", mixed / "labels.csv", mixed / "features", tmp_path / "v")
    assert not (tmp_path / "v").exists()
    found = validate(home / "run", mixed / "labels.csv", mixed / "features", tmp_path / "v", allow_overlap=True)
    assert "2-0001" in found.record.validation.overlap
    assert "Not fully external" in (tmp_path / "v/report.html").read_text()


def test_a_model_that_does_not_know_its_training_set_says_so(
    home: Path, given: tuple[Path, Path], tmp_path: Path
) -> None:
    old = Path(shutil.copytree(home / "model", tmp_path / "old"))
    for file in old.rglob(TRAINED_ON):
        file.unlink()
    found = validate(old, *given, tmp_path / "v")
    assert any("cannot be checked" in note for note in found.notes["external"])
    before = Path(shutil.copytree(home / "run", tmp_path / "run"))
    for file in before.rglob(TRAINED_ON):
        file.unlink()
    known = home / "known"
    with pytest.raises(StudyError, match=r"26 by slide id: .*21 by patient id"):  # the run's own table knows the ids
        validate(before, known / "labels.csv", known / "features", tmp_path / "w")
    found = validate(before, *given, tmp_path / "w")
    assert any("by ids only" in note for note in found.notes["external"])


def test_wrong_input_is_refused_in_words(home: Path, given: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "v"
    with pytest.raises(StudyError, match="neither a run"):
        validate(tmp_path, *given, out)
    with pytest.raises(ConfigError, match="--variant and --cohort belong to a run"):
        validate(home / "model", *given, out, variant="abmil")
    with pytest.raises(ConfigError, match="Did you mean 'pair'"):
        validate(home / "run", *given, out, variant="pairs")
    with pytest.raises(ConfigError, match="the model defines"):
        validate(home / "model", *given, out, positive="tumour")
    labels = pd.read_csv(given[0], dtype=str)
    labels["label"] = labels["label"].replace("normal", "benign")
    labels.to_csv(tmp_path / "l.csv", index=False)
    with pytest.raises(LabelError, match="does not know: 'benign'; expected 'normal', 'tumour'"):
        validate(home / "model", tmp_path / "l.csv", given[1], out)
    other = write_phantom(make_phantom("composition", **{**KNOBS, "dim": 20}, seed=5), tmp_path / "dims")
    with pytest.raises(FeatureError, match="features have 20 columns"):
        validate(home / "model", other / "labels.csv", other / "features", out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    with pytest.raises(StudyError, match="not empty"):
        validate(home / "model", *given, tmp_path / "full")
    assert not out.exists()


@pytest.mark.parametrize(("task", "names"), [("multiclass", "abc"), ("ordinal", "012")])
def test_other_tasks(task: str, names: str, home: Path, tmp_path: Path) -> None:
    for which in ("known", "new"):
        table = pd.read_csv(home / which / "labels.csv", dtype=str)
        table["label"] = [names[int(patient.split("-")[-1]) % 3] for patient in table["patient_id"]]
        table.to_csv(tmp_path / f"{which}.csv", index=False)
    cohort = Cohort.read(tmp_path / "known.csv", home / "known/features", task=task)
    train_model(cohort, tmp_path / "model", Settings(method="abmil", members=2, **SMALL))
    found = validate(tmp_path / "model", tmp_path / "new.csv", home / "new/features", tmp_path / "v")
    row, table = found.summary.iloc[0], found.predictions
    p = table[[f"probability_{name}" for name in names]].to_numpy()
    y = table["label"].map(names.index)
    assert row["auc_oof"] == pytest.approx(roc_auc_score(y, p, multi_class="ovr"))
    assert row["boot_low"] < row["auc_oof"] < row["boot_high"]
    assert found.record.validation.threshold is None
    two = pd.read_csv(tmp_path / "new.csv", dtype=str)
    two[two["label"] != names[2]].to_csv(tmp_path / "two.csv", index=False)  # a class is missing: no macro AUROC
    fewer = validate(tmp_path / "model", tmp_path / "two.csv", home / "new/features", tmp_path / "w")
    assert np.isnan(fewer.summary["auc_oof"].iloc[0])
    assert "lacks a class" in (tmp_path / "w/report.html").read_text()


@pytest.mark.parametrize(
    ("task", "columns"),
    [
        ("regression", {"label_column": "value"}),
        ("survival", {"time_column": "weeks", "event_column": "relapse"}),
        ("multilabel", {"label_columns": "planted,chance"}),
        (None, {"label_column": "value"}),
    ],
)
def test_labels_are_read_from_the_columns_of_training(
    outcome_cohort: Callable[[str], Path], home: Path, tmp_path: Path, task: str | None, columns: dict[str, str]
) -> None:
    """Also if the table has columns that would be found without a name."""
    folder = outcome_cohort(task) if task else home / "known"
    table = pd.read_csv(folder / "labels.csv", dtype=str)
    table = table.rename(columns={"time": "weeks", "event": "relapse"})
    if task is None:
        table = table.rename(columns={"label": "value"})
    table.to_csv(tmp_path / "known.csv", index=False)
    cohort = Cohort.read(tmp_path / "known.csv", folder / "features", task=task, **columns)
    assert cohort.label_columns == columns
    train_model(cohort, tmp_path / "model", Settings(method="abmil", **{**SMALL, "epochs": 1, "patience": 0}))
    table.assign(label="else", time=0, event=1).to_csv(tmp_path / "new.csv", index=False)
    kept: dict[str, Any] = {"allow_overlap": True}
    found = validate(tmp_path / "model", tmp_path / "new.csv", folder / "features", tmp_path / "v", **kept)
    assert len(found.predictions) >= len(table)
    assert not [note for note in found.notes[EXTERNAL] if "Labels are read" in note]
    with pytest.raises(LabelError):  # the user's word goes before the model's
        validate(
            tmp_path / "model", tmp_path / "new.csv", folder / "features", tmp_path / "w",
            **dict.fromkeys(columns, "label"), **kept,
        )  # fmt: skip


def test_another_column_than_that_of_training_is_named(outcome_cohort: Callable[[str], Path], tmp_path: Path) -> None:
    folder = outcome_cohort("regression")
    cohort = Cohort.read(folder / "labels.csv", folder / "features", task="regression", label_column="value")
    train_model(cohort, tmp_path / "model", Settings(method="abmil", **{**SMALL, "epochs": 1, "patience": 0}))
    table = pd.read_csv(folder / "labels.csv", dtype=str).drop(columns="label")
    table.rename(columns={"value": "label"}).to_csv(tmp_path / "new.csv", index=False)
    found = validate(tmp_path / "model", tmp_path / "new.csv", folder / "features", tmp_path / "v", allow_overlap=True)
    told = "Labels are read from 'label'; in training they were in 'value', which the table does not have."
    assert told in found.notes[EXTERNAL]


def test_a_model_of_patients(home: Path, given: tuple[Path, Path], tmp_path: Path) -> None:
    cohort = Cohort.read(home / "known/labels.csv", home / "known/features")
    train_model(cohort, tmp_path / "model", Settings(method="abmil", level="patient", **SMALL))
    found = validate(tmp_path / "model", *given, tmp_path / "v")
    assert len(found.predictions) == found.predictions["patient_id"].nunique() == 21
    assert (found.predictions["slide_id"] == found.predictions["patient_id"]).all()
    assert found.patient_summary.empty


def test_the_difference_of_two_cohorts() -> None:
    same = Interval(0.8, 0.7, 0.9)
    found = difference_interval(same, same)
    assert found == pytest.approx((0.0, -(0.02**0.5), 0.02**0.5))
    apart = difference_interval(Interval(0.6, 0.55, 0.65), Interval(0.9, 0.88, 0.92))
    assert apart.high < 0
    assert apart.value == pytest.approx(-0.3)


def test_by_the_command_line(
    jigsawmil: Callable[..., Any], home: Path, given: tuple[Path, Path], tmp_path: Path
) -> None:
    labels, features = given
    flags = ["--labels", labels, "--features", features, "--patient-column", "patient_id"]
    ran = jigsawmil("validate", home / "run", *flags, "--variant", "abmil", "--out", tmp_path / "v")
    assert ran.code == 0, ran.err
    assert "abmil reaches an AUROC of" in ran.out
    assert "ensemble of all 4 fold models" in ran.out
    assert {"summary.csv", "predictions.csv", "report.html"} <= {path.name for path in (tmp_path / "v").iterdir()}
    assert json.loads((tmp_path / "v/study.json").read_text())["validation"]["models"] == 4
    assert jigsawmil("report", tmp_path / "v", "--out", tmp_path / "r.html").code == 0
    known = ["--labels", home / "known/labels.csv", "--features", home / "known/features"]
    refused = jigsawmil("validate", home / "run", *known, "--out", tmp_path / "w")
    assert refused.code == 1
    assert "--allow-overlap" in refused.err


def test_a_validation_opens_wherever_a_run_does(run: Run, tmp_path: Path) -> None:
    slide = str(run.predictions["slide_id"].iloc[0])
    picture = tmp_path / "map.png"
    commands = [
        ["heatmap", str(run.folder), slide, "--out", str(picture)],
        ["export", str(run.folder), slide, "--format", "csv", "--out", str(tmp_path / "maps")],
        ["faithfulness", str(run.folder), "--slides-at-most", "3", "--attribution"],
    ]
    for command in commands:
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    assert picture.stat().st_size > 1000
    assert (tmp_path / "maps" / f"{slide}.csv").is_file()
    figures = json.loads(run.files.faithfulness(EXTERNAL, "pair.json").read_text())
    assert set(figures["verdicts"]) == {"attention", "evidence", "attribution"}
    shutil.rmtree(run.files.faithfulness())
