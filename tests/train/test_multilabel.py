"""`SlideMultilabel` answers as scikit-learn's `MultiOutputClassifier` does, and bears labels that are missing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.multioutput import MultiOutputClassifier

from jigsawmil import SlideClassifier, SlideMultilabel
from jigsawmil.bags.bag import Bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import FeatureError, LabelError, StudyError
from jigsawmil.synthetic.phantom import make_phantom
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_model

SMALL: dict[str, Any] = {"hidden": 16, "attention_dim": 8, "epochs": 8, "patience": 0, "lr": 1e-2, "device": "cpu"}
Given = tuple[list[Bag], np.ndarray]


@pytest.fixture(scope="module")
def given() -> Given:
    """Bags and (bag, target) labels: 30 slides; the first target is easily told, the second is one of three grades."""
    knobs: dict[str, Any] = {"slides": 30, "dim": 16, "patches": 30, "noise": 0.3, "slide_effect": 0.0}
    made = make_phantom("composition", seed=2, **knobs)
    table = np.array([[label, ("low", "mid", "high")[i % 3]] for i, label in enumerate(made.labels)], dtype=object)
    table[4, 0], table[7, 1] = None, np.nan
    return list(made.bags), table


@pytest.fixture(scope="module")
def fitted(given: Given) -> SlideMultilabel:
    return SlideMultilabel("abmil", targets=["tissue", "grade"], **SMALL).fit(*given)


def test_answers_have_the_form_of_scikit_learns(fitted: SlideMultilabel, given: Given) -> None:
    bags, table = given
    whole = np.where(table == table, table, "low")
    whole[4, 0] = "normal"
    theirs = MultiOutputClassifier(LogisticRegression()).fit([bag.features.mean(0).numpy() for bag in bags], whole)
    means = [bag.features.mean(0).numpy() for bag in bags]
    assert fitted.predict(bags).shape == theirs.predict(means).shape == (30, 2)
    for own, other in zip(fitted.predict_proba(bags), theirs.predict_proba(means), strict=True):
        assert own.shape == other.shape
        assert own.sum(axis=1) == pytest.approx(1)
    for own, other in zip(fitted.classes_, theirs.classes_, strict=True):
        assert own.tolist() == other.tolist()
    for column, (own, p) in enumerate(zip(fitted.classes_, fitted.predict_proba(bags), strict=True)):
        assert (fitted.predict(bags)[:, column] == own[p.argmax(axis=1)]).all()
    assert fitted.targets_ == ["tissue", "grade"]
    assert is_classifier(fitted)


def test_it_learns_the_target_that_is_there(fitted: SlideMultilabel, given: Given) -> None:
    bags, table = given
    known = np.array([label is not None for label in table[:, 0]])
    assert np.mean(fitted.predict(bags)[known, 0] == table[known, 0]) >= 0.9


def test_it_is_the_model_of_the_cohort_with_these_labels(fitted: SlideMultilabel, given: Given, tmp_path: Path) -> None:
    bags, table = given
    rows = [dict(zip(("tissue", "grade"), row, strict=True)) for row in table]
    settings = Settings(method="abmil", **SMALL)
    train_model(Cohort.from_bags(bags, rows, task="multilabel"), tmp_path / "model", settings)
    other = SlideMultilabel.load(tmp_path / "model")
    for one, two in zip(fitted.predict_proba(bags), other.predict_proba(bags), strict=True):
        np.testing.assert_array_equal(one, two)


def test_saved_and_loaded_it_answers_the_same(fitted: SlideMultilabel, given: Given, tmp_path: Path) -> None:
    bags, table = given
    fitted.save(tmp_path / "model")
    loaded = SlideMultilabel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(bags), fitted.predict(bags))
    np.testing.assert_array_equal(loaded.attention(bags[0]), fitted.attention(bags[0]))
    assert loaded.attention(bags[0]).sum() == pytest.approx(1, abs=1e-5)
    assert loaded.get_params() == fitted.get_params() | {"device": "auto"}
    assert loaded.score(bags, table) == fitted.score(bags, table)
    with pytest.raises(NotFittedError):
        clone(loaded).predict(bags)
    with pytest.raises(StudyError, match=r"predicts classes\. Load it with .* SlideMultilabel"):
        SlideClassifier.load(tmp_path / "model")
    SlideClassifier("mean-lr").fit(bags, ["a", "b"] * 15).save(tmp_path / "other")
    with pytest.raises(StudyError, match="the task binary, expected one that predicts several targets"):
        SlideMultilabel.load(tmp_path / "other")


def test_score_counts_the_labels_that_are_known(fitted: SlideMultilabel, given: Given) -> None:
    bags = given[0][:4]
    true = fitted.predict(bags).astype(object)
    assert fitted.score(bags, true) == 1
    true[0] = None  # does not count
    true[1, 0] = None  # one that is known, and right
    true[2, 0] = "another"
    assert fitted.score(bags, true) == pytest.approx(2 / 3)
    assert fitted.score(bags, true, sample_weight=[9, 1, 2, 1]) == pytest.approx(2 / 4)


@pytest.mark.parametrize(
    ("make", "classes"),
    [
        (lambda y: y, [0, 1]),
        (lambda y: y.astype(bool), [False, True]),
        (lambda y: np.where(np.arange(60).reshape(30, 2) == 5, np.nan, y), [0.0, 1.0]),
        (lambda y: [[None if (i, j) == (2, 1) else int(cell) for j, cell in enumerate(row)] for i, row in enumerate(y)],
         [0, 1]),
        (lambda y: pd.DataFrame(y).astype("Int64").mask(np.arange(60).reshape(30, 2) == 5), [0, 1]),
    ],
    ids=["integers", "booleans", "NaN", "lists with None", "nullable"],
)  # fmt: skip
def test_predictions_are_of_the_kind_of_the_labels(
    make: Callable[[Any], Any], classes: list[object], given: Given
) -> None:
    y = np.stack([np.arange(30) % 2, np.arange(30) // 2 % 2], axis=1)
    model = SlideMultilabel("abmil", **SMALL | {"epochs": 1}).fit(given[0], make(y))
    assert [own.tolist() for own in model.classes_] == [classes, classes]
    assert {type(cell) for own in model.classes_ for cell in own.tolist()} == {type(classes[0])}
    assert model.predict(given[0]).dtype == np.array(classes).dtype
    assert model.card_.classes[0].endswith("=0") or classes == [False, True]  # 0.0 is 0


def test_a_data_frame_names_its_targets_and_targets_choose_of_them(given: Given) -> None:
    bags, table = given
    frame = pd.DataFrame(table, columns=["tissue", "grade"]).assign(other="x")
    quick = SMALL | {"epochs": 1}
    with pytest.raises(LabelError, match="other: All slides are 'x'"):
        SlideMultilabel("abmil", **quick).fit(bags, frame)
    model = SlideMultilabel("abmil", targets=["grade", "tissue"], **quick).fit(bags, frame)
    assert [own.tolist() for own in model.classes_] == [["high", "low", "mid"], ["normal", "tumour"]]
    with pytest.raises(LabelError, match="Y has no column 'stage'"):
        SlideMultilabel("abmil", targets=["stage"]).fit(bags, frame)
    assert SlideMultilabel("abmil", **quick).fit(bags, table).targets_ == ["target_1", "target_2"]


def test_pooled_predictions_by_scikit_learn(given: Given) -> None:
    y = np.stack([np.arange(30) % 2, np.arange(30) // 2 % 2], axis=1)
    found = cross_val_predict(
        SlideMultilabel("abmil", **SMALL | {"epochs": 1}), given[0], y, cv=2, method="predict_proba"
    )
    assert [p.shape for p in found] == [(30, 2), (30, 2)]
    assert np.concatenate(found).sum(axis=1) == pytest.approx(1)


def test_what_fit_refuses(given: Given) -> None:
    bags, table = given
    model = SlideMultilabel("abmil", **SMALL)
    wrong: dict[str, object] = {
        r"shape \(30,\), expected \(bag, target\)": table[:, 0],
        "30 bags and 29 labels": table[1:],
        "1 of 30 bags have no label": np.vstack([[None, None], table[1:]]),
        "target_2 is continuous": np.stack([np.arange(30) % 2, np.linspace(0, 1, 30)], axis=1),
        "grade is continuous": pd.DataFrame({"grade": pd.array([0.5, None] * 15, dtype="Float64")}),
        "different name for each": pd.DataFrame(table, columns=["er", "er"]),
    }
    for words, y in wrong.items():
        with pytest.raises(LabelError, match=words):
            model.fit(bags, y)
    with pytest.raises(LabelError, match=r"found \['er'\] for 2 columns"):
        SlideMultilabel("abmil", targets=["er"]).fit(bags, table)
    with pytest.raises(LabelError, match="expected a name without any of"):
        SlideMultilabel("abmil", targets=["er", "a/b"]).fit(bags, table)
    with pytest.raises(FeatureError, match="expected a list of bags"):
        model.fit(bags[0], table)
    with pytest.raises(NotFittedError):
        model.predict(bags)
