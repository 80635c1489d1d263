"""What a trained model says of itself: what it was trained on, how good it is out of fold, where it decides."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from jigsawmil.bags.digest import content_digest
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.splits import Fold
from jigsawmil.errors import ConfigError, LabelError, StudyError
from jigsawmil.maps.patch_maps import explain
from jigsawmil.maps.predict import predict_slides
from jigsawmil.statistics.metrics import balanced_threshold
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.tasks import get_task
from jigsawmil.train.apply import apply_model
from jigsawmil.train.checkpoint import ensemble_of, load_model, save_model
from jigsawmil.train.ensemble import splits_of_members
from jigsawmil.train.estimator import SlideClassifier
from jigsawmil.train.out_of_fold import performance_lines
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_model
from jigsawmil.train.trained_on import TRAINED_ON, find_overlap

SMALL: dict[str, Any] = {
    "method": "graph-abmil+jigsaw",
    "hidden": 8,
    "attention_dim": 4,
    "grid": 3,
    "k": 4,
    "epochs": 8,
    "patience": 4,
    "lr": 2e-2,
}
MADE = make_phantom("composition", slides=24, two_slides=0.2, dim=16, patches=20, seed=3, noise=1.0)
BAGS = list(MADE.bags)


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return Cohort.from_bags(BAGS, list(MADE.labels), list(MADE.patients))


@pytest.fixture(scope="module")
def folder(cohort: Cohort, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("deployed") / "model"
    train_model(cohort, out, Settings(members=3, **SMALL))
    return out


@pytest.fixture(scope="module")
def held_out(cohort: Cohort, folder: Path) -> pd.DataFrame:
    """Each slide by the member that held it out, by hand."""
    whole = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
    parts = splits_of_members(cohort, whole, Settings(members=3, **SMALL), seed=0)
    rows = []
    for number, part in enumerate(parts):
        member = load_model(folder / f"member{number}")
        for index in np.flatnonzero(np.isin(cohort.slide_ids, part.val)):
            [seen] = apply_model(*member, [BAGS[index]])
            rows.append((cohort.slide_ids[index], cohort.labels[index], seen.probabilities[1]))
    return pd.DataFrame(rows, columns=["slide", "y", "p"])


def test_the_card_has_the_out_of_fold_figure_of_its_members(
    cohort: Cohort, folder: Path, held_out: pd.DataFrame
) -> None:
    _, card = load_model(folder)
    figures = card.performance
    assert figures is not None
    assert sorted(held_out["slide"]) == sorted(cohort.slide_ids)
    assert figures["auc_oof"] == pytest.approx(roc_auc_score(held_out["y"], held_out["p"]), abs=1e-9)
    assert figures["auc_low"] < figures["auc_oof"] < figures["auc_high"]
    assert (figures["slides"], figures["patients"], figures["members"]) == (24, 20, 3)
    assert "AUROC" in performance_lines(card)[0]


def test_the_threshold_makes_balanced_accuracy_highest(folder: Path, held_out: pd.DataFrame) -> None:
    _, card = load_model(folder)
    assert card.threshold not in (None, 0.5)
    assert card.performance is not None
    y, p = held_out["y"], held_out["p"]
    best = max(balanced_accuracy_score(y, p > cut) for cut in [0, *p, 1])
    assert balanced_accuracy_score(y, p > card.threshold) == pytest.approx(best)
    assert card.performance["balanced_accuracy"] == pytest.approx(best)


def test_rules_of_the_threshold() -> None:
    y = np.repeat([0, 1], 20)
    assert balanced_threshold(y, np.where(y, 0.3, 0.1)) == pytest.approx(0.2)  # halfway
    both = np.r_[np.full(20, 0.2), np.full(10, 0.4), np.full(10, 0.9)]
    assert balanced_threshold(y, both) == pytest.approx(0.3)
    assert balanced_threshold(y, np.full(40, 0.7)) == 0.5
    assert balanced_threshold(y, 1 - both) == 0.5  # none beats chance
    assert balanced_threshold(y[15:25], both[15:25]) == 0.5  # too few cases
    binary, several = get_task("binary"), get_task("multiclass")
    p = np.array([[0.7, 0.3], [0.5, 0.5], [0.2, 0.8]])
    assert binary.decision(p).tolist() == binary.at(0.5).decision(p).tolist() == [0, 0, 1]
    assert binary.at(0.25).decision(p).tolist() == [1, 1, 1]
    assert binary.threshold is None  # the task itself stays as it was
    assert binary.best_threshold(y, np.stack([1 - both, both], 1)) == pytest.approx(0.3)
    mixed = np.tile(both[::2], 2)  # no better than chance
    assert binary.best_threshold(y, np.stack([1 - mixed, mixed], 1)) == 0.5
    assert "0.25" in binary.at(0.25).decision_words
    assert several.best_threshold(np.array([0, 1]), p[:2]) is None


@pytest.mark.parametrize("members", [1, 2])
def test_the_same_training_again_finds_its_model_and_another_one_is_refused(tmp_path: Path, members: int) -> None:
    """As after a kill behind the last file, which leaves what a resumed training needs."""
    root = write_phantom(MADE, tmp_path / "cohort")
    cohort = Cohort.read(root / "labels.csv", root / "features")
    settings = Settings.from_flat({"method": "abmil", "hidden": 8, "epochs": 2, "patience": 1, "members": members})
    assert len(train_model(cohort, tmp_path / "m", settings)) == members
    before = {path: path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()}
    (tmp_path / "m" / ".training-0123456789ab.state").touch()
    assert train_model(cohort, tmp_path / "m", settings) == ()
    assert {path: path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()} == before
    fewer = cohort.subset(range(len(cohort) - 1))
    for other in (
        lambda: train_model(cohort, tmp_path / "m", settings, seed=1),
        lambda: train_model(cohort, tmp_path / "m", settings.replace(lr=1e-5)),
        lambda: train_model(fewer, tmp_path / "m", settings),
    ):
        with pytest.raises(StudyError, match="holds a model already, of other settings, slides or features"):
            other()
    bags = [cohort.bag(index) for index in range(len(cohort))]  # what was done with them in memory is not known
    same = Cohort.from_bags(bags, [cohort.label_of(slide) for slide in cohort.slides], list(cohort.patients))
    train_model(same, tmp_path / "memory", settings)
    with pytest.raises(StudyError, match="holds a model already"):
        train_model(same, tmp_path / "memory", settings)


def test_a_single_model_decides_at_a_half_and_claims_nothing(cohort: Cohort, tmp_path: Path) -> None:
    train_model(cohort, tmp_path / "one", Settings(**SMALL))
    train_model(cohort, tmp_path / "all", Settings(members=2, **{**SMALL, "patience": 0}))
    for name in ("one", "all"):
        _, card = load_model(tmp_path / name)
        assert (card.performance, card.threshold) == (None, None)
        assert "compare" in performance_lines(card)[0]


def test_a_committee_has_a_figure_too(cohort: Cohort, tmp_path: Path) -> None:
    """Each patient by the mean logit of the members that held it out."""
    few: dict[str, Any] = {**SMALL, "epochs": 2, "patience": 1}
    del few["method"], few["k"]
    for members in (1, 3):
        train_model(cohort, tmp_path / str(members), Settings(method="committee", members=members, **few))
        _, card = load_model(tmp_path / str(members))
        assert card.performance is not None
        assert (card.performance["slides"], card.performance["members"]) == (24, len(card.members))
        assert ("by the one member" in card.performance["predictions"]) == (members == 1)
        assert SlideClassifier.load(tmp_path / str(members)).get_params()["members"] == members


def test_what_a_model_was_trained_on(cohort: Cohort, folder: Path) -> None:
    _, card = load_model(folder)
    assert [row.slide_id for row in card.trained_on] == list(cohort.slide_ids)
    assert [row.patient_id for row in card.trained_on] == list(cohort.patients)
    assert [row.digest for row in card.trained_on] == [content_digest(bag.features) for bag in BAGS]
    found = find_overlap(cohort, card.trained_on)
    assert len(found.slides) == len(found.content) == 24
    assert len(found.patients) == 20


def test_overlap_by_patient_by_barcode_and_by_content(cohort: Cohort, folder: Path) -> None:
    _, card = load_model(folder)

    def renamed(numbers: list[int], names: list[str], patients: list[str]) -> Cohort:
        bags = [dataclasses.replace(BAGS[i], slide_id=name) for i, name in zip(numbers, names, strict=True)]
        return Cohort.from_bags(bags, [MADE.labels[i] for i in numbers], patients)

    one = next(i for i, label in enumerate(MADE.labels) if label != MADE.labels[0])
    found = find_overlap(renamed([0, one], ["x", "y"], ["p", "q"]), card.trained_on)
    assert found == ((), (), ("x", "y"))
    assert "2 by content" in found.words
    made = make_phantom("composition", slides=24, dim=16, patches=20, seed=4)
    mine = [dataclasses.replace(bag, slide_id=f"new{i}") for i, bag in enumerate(made.bags)]
    spelled = MADE.patients[0].lstrip("0").lower() + " "  # another spelling
    other = Cohort.from_bags(mine, made.labels, [f"n{i}" for i in range(23)] + [spelled])
    assert find_overlap(other, card.trained_on) == ((), (spelled,), ())
    trained = [row._replace(slide_id=f"TCGA-AA-{i:04d}-01Z-00-DX1") for i, row in enumerate(card.trained_on)]
    named = [dataclasses.replace(bag, slide_id=f"TCGA-AA-{i + 20:04d}-11A-00-DX9") for i, bag in enumerate(made.bags)]
    barcodes = find_overlap(Cohort.from_bags(named, made.labels), trained)
    assert barcodes == ((), tuple(f"TCGA-AA-{i:04d}" for i in range(20, 24)), ())
    assert find_overlap(Cohort.from_bags(mine, made.labels), trained).words == ""


def test_models_without_that_knowledge_still_open(folder: Path, tmp_path: Path) -> None:
    model, card = load_model(folder)
    save_model(tmp_path / "m", model, card)
    values = json.loads((tmp_path / "m/model.json").read_text())
    (tmp_path / "m/model.json").write_text(json.dumps({key: values[key] for key in ("format", "members")}))
    (tmp_path / "m/member1" / TRAINED_ON).unlink()
    own = json.loads((tmp_path / "m/member0/model.json").read_text())
    old = {key: value for key, value in own.items() if key not in ("threshold", "performance", "digest")}
    (tmp_path / "m/member0/model.json").write_text(json.dumps(old))
    _, found = load_model(tmp_path / "m")
    assert (found.trained_on, found.performance, found.threshold) == ((), None, None)
    (tmp_path / "m/member0" / TRAINED_ON).write_text("slide_id\n1\n")
    with pytest.raises(StudyError, match="training slides"):
        load_model(tmp_path / "m")


def test_the_ensemble_comes_back_as_it_was_saved(folder: Path, tmp_path: Path) -> None:
    model, card = load_model(folder)
    save_model(tmp_path / "m", model, card)
    assert load_model(tmp_path / "m")[1] == card
    assert card.training is not None
    assert card.training["settings"]["members"] == 3
    assert ensemble_of(list(zip(model, card.members, strict=True)))[1].trained_on == card.trained_on


def test_predict_says_probability_spread_and_class_per_slide_and_patient(folder: Path, tmp_path: Path) -> None:
    model, card = load_model(folder)
    write_phantom(MADE, tmp_path / "c")
    found = predict_slides(folder, tmp_path / "c/features", out=tmp_path / "p.csv", labels=tmp_path / "c/labels.csv")
    table = found.table.set_index("slide_id")
    assert list(table) == ["patient_id", "prediction", "probability", "logit_std"]
    logits = {}
    for bag in BAGS:
        own = [next(apply_model(one, each, [bag])).scores[0] for one, each in zip(model, card.members, strict=True)]
        logits[bag.slide_id] = own
        assert table.loc[bag.slide_id, "logit_std"] == pytest.approx(np.std(own, ddof=1), abs=1e-5)
    called = np.where(table["probability"] > card.threshold, card.classes[1], card.classes[0])
    assert (table["prediction"] == called).all()
    assert found.patients is not None
    assert list(found.patients) == ["patient_id", "slides", "prediction", "probability", "logit_std"]
    written = pd.read_csv(tmp_path / "p-patients.csv", dtype={"patient_id": str})
    assert list(written["patient_id"]) == list(found.patients["patient_id"])
    assert len(written) == 20
    for row in found.patients.itertuples():
        mine = np.array([logits[slide] for slide in table.index[table["patient_id"] == row.patient_id]])
        assert row.slides == len(mine)
        assert row.probability == pytest.approx(1 / (1 + np.exp(-mine.mean())), abs=1e-6)
        assert row.logit_std == pytest.approx(mine.mean(axis=0).std(ddof=1), abs=1e-5)


def test_predict_needs_to_know_whose_the_slides_are(folder: Path, tmp_path: Path) -> None:
    write_phantom(MADE, tmp_path / "c")
    out = tmp_path / "p.csv"
    found = predict_slides(folder, tmp_path / "c/features", out=out)
    assert found.patients is None
    assert "patient_id" not in found.table
    labels = tmp_path / "c/labels.csv"
    labels.write_text("\n".join(labels.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(LabelError, match="No patient for 1 of 24 slides: 0024"):
        predict_slides(folder, tmp_path / "c/features", out=out, labels=labels)
    labels.write_text("slide_id,case\n0001,a\n0001,b\n")
    with pytest.raises(LabelError, match="slide 0001 belongs to the patients a and b"):
        predict_slides(folder, tmp_path / "c/features", out=out, labels=labels)
    labels.write_text("slide_id,who\n0001,a\n")
    with pytest.raises(LabelError, match="no column of patients"):
        predict_slides(folder, tmp_path / "c/features", out=out, labels=labels)
    with pytest.raises(ConfigError, match="--labels"):
        predict_slides(folder, tmp_path / "c/features", out=out, patient_column="who")


def test_every_way_to_a_prediction_decides_at_the_threshold(folder: Path, tmp_path: Path) -> None:
    model, card = load_model(folder)
    high = dataclasses.replace(card, threshold=0.999)
    save_model(tmp_path / "m", model, high)
    assert (SlideClassifier.load(tmp_path / "m").predict(BAGS) == card.classes[0]).all()
    assert explain(*load_model(tmp_path / "m"), BAGS[0])[0].prediction == card.classes[0]
    low = dataclasses.replace(card, threshold=0.001)
    assert explain(model, low, BAGS[0])[0].prediction == card.classes[1]
