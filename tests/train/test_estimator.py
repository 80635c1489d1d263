"""`SlideClassifier` keeps scikit-learn's conventions, learns what is there, and comes back as it was saved."""

import dataclasses
import inspect
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate
from sklearn.utils.validation import check_is_fitted

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import write_bag
from jigsawmil.config import settings_of
from jigsawmil.errors import ConfigError, FeatureError, LabelError, StudyError
from jigsawmil.synthetic.phantom import make_phantom
from jigsawmil.train.checkpoint import load_model, save_model
from jigsawmil.train.estimator import SlideClassifier, SlideRegressor, SlideSurvival
from jigsawmil.train.multilabel import SlideMultilabel
from jigsawmil.train.settings import Settings

METHOD = "graph-abmil+jigsaw"
SMALL = {"hidden": 16, "attention_dim": 8, "grid": 3, "k": 6, "epochs": 8, "patience": 0, "lr": 1e-2}
Cohort = tuple[list[Bag], list[str], list[str]]


@pytest.fixture(scope="module")
def phantom() -> Cohort:
    """Bags, labels (normal, tumour) and patients: 30 slides of about 30 patches, easily told apart."""
    knobs = {"slides": 30, "dim": 16, "patches": 30, "noise": 0.3, "slide_effect": 0.0}
    made = make_phantom("composition", seed=2, **knobs)
    return list(made.bags), list(made.labels), list(made.patients)


@pytest.fixture(scope="module")
def fitted(phantom: Cohort) -> SlideClassifier:
    bags, labels, patients = phantom
    return SlideClassifier(METHOD, **SMALL).fit(bags[:20], labels[:20], patients[:20])


def permuted(bag: Bag, order: np.ndarray) -> Bag:
    rows = torch.from_numpy(order)
    return dataclasses.replace(bag, features=bag.features[rows], coords=bag.coords[rows])


def test_the_parameters_are_the_settings_with_their_defaults() -> None:
    """But for level: a bag is what it is given."""
    defaults = {name: value for name, value in Settings().flat().items() if name != "level"}
    assert SlideClassifier().get_params() == {**defaults, "positive": None, "ordinal": False, "task": None, "seed": 0}


def test_the_signature_lists_every_parameter_and_no_other_is_taken() -> None:
    assert set(inspect.signature(SlideClassifier).parameters) == set(SlideClassifier().get_params())
    with pytest.raises(TypeError, match="unexpected keyword argument 'hiden'"):
        SlideClassifier(hiden=3)


def test_parameters_are_stored_and_nothing_else_happens() -> None:
    classifier = SlideClassifier(heads=3, method="no such method")  # judged by fit, as in scikit-learn
    assert vars(classifier) == classifier.get_params()
    assert classifier.set_params(heads=4, method="abmil") is classifier
    assert (classifier.heads, classifier.method) == (4, "abmil")
    with pytest.raises(ValueError, match="Invalid parameter 'head'"):
        classifier.set_params(head=4)


def test_a_clone_is_equal_and_unfitted(fitted: SlideClassifier, phantom: Cohort) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert is_classifier(copy)
    with pytest.raises(NotFittedError):
        copy.predict(phantom[0])


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "attention", "save"])
def test_before_fit_there_is_no_answer(ask: str, phantom: Cohort, tmp_path: Path) -> None:
    question = {"attention": phantom[0][0], "save": tmp_path / "model"}.get(ask, phantom[0])
    with pytest.raises(NotFittedError):
        getattr(SlideClassifier(), ask)(question)
    assert not (tmp_path / "model").exists()


def test_it_learns_what_is_there(fitted: SlideClassifier, phantom: Cohort) -> None:
    bags, labels, _ = phantom
    assert fitted.score(bags[20:], labels[20:]) >= 0.9
    assert fitted.history_[-1].mil < fitted.history_[0].mil


def test_the_answers_agree(fitted: SlideClassifier, phantom: Cohort) -> None:
    bags, labels, _ = phantom
    p = fitted.predict_proba(bags)
    assert p.shape == (30, 2)
    assert p.sum(axis=1) == pytest.approx(1)
    assert list(fitted.classes_) == ["normal", "tumour"]
    assert (fitted.predict(bags) == np.where(p[:, 1] > 0.5, "tumour", "normal")).all()
    assert fitted.score(bags, labels) == np.mean(fitted.predict(bags) == np.array(labels))
    assert fitted.score(bags[:2], ["normal", "normal"], sample_weight=[1, 0]) == (p[0, 1] < 0.5)
    one_by_one = np.concatenate([fitted.predict_proba([bag]) for bag in bags[:3]])
    assert (one_by_one == p[:3]).all()


def test_fit_returns_itself_and_the_same_seed_the_same_numbers(phantom: Cohort) -> None:
    bags, labels, _ = phantom

    def fit(seed: int) -> np.ndarray:
        classifier = SlideClassifier(METHOD, **SMALL | {"epochs": 2}, seed=seed)
        assert classifier.fit(bags[:12], labels[:12]) is classifier
        return classifier.predict_proba(bags[12:16])

    before = torch.random.get_rng_state()
    assert (fit(0) == fit(0)).all()
    assert (fit(0) != fit(1)).any()
    assert (torch.random.get_rng_state() == before).all()  # the caller's randomness is the caller's


def test_attention_follows_the_patches(fitted: SlideClassifier, phantom: Cohort) -> None:
    bag = phantom[0][3]
    attention = fitted.attention(bag)
    assert attention.sum() == pytest.approx(1, abs=1e-5)
    assert np.ptp(attention) > 1e-4
    order = np.random.default_rng(0).permutation(len(bag))
    assert fitted.attention(permuted(bag, order)) == pytest.approx(attention[order], abs=1e-6)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 1], [0, 1]),
        ([False, True], [False, True]),
        ([2.0, 10.0], [2.0, 10.0]),
        (["10", "9"], ["9", "10"]),  # numbers by value
        (["wild", "mutant"], ["mutant", "wild"]),
    ],
)
def test_predictions_are_of_the_kind_of_the_labels(labels: list, classes: list, phantom: Cohort) -> None:
    bags, names, _ = phantom
    y = np.array(labels)[[int(name == "tumour") for name in names]]
    classifier = SlideClassifier("abmil", **SMALL | {"epochs": 1}).fit(bags, y)
    assert list(classifier.classes_) == classes
    assert classifier.predict(bags).dtype == y.dtype
    assert np.mean(classifier.predict(bags) == y) == classifier.score(bags, y)


def test_the_positive_class_is_the_last(phantom: Cohort) -> None:
    bags, labels, _ = phantom
    quick = SMALL | {"epochs": 1}
    assert list(SlideClassifier("abmil", **quick, positive="normal").fit(bags, labels).classes_) == ["tumour", "normal"]
    numbers = [int(label == "tumour") for label in labels]
    assert list(SlideClassifier("abmil", **quick, positive=0).fit(bags, numbers).classes_) == [1, 0]


def test_more_classes_and_grades(phantom: Cohort) -> None:
    bags, _, _ = phantom
    grades = [(2, 3, 10)[i % 3] for i in range(len(bags))]
    for ordinal in (False, True):
        classifier = SlideClassifier("abmil", **SMALL | {"epochs": 1}, ordinal=ordinal).fit(bags, grades)
        assert list(classifier.classes_) == [2, 3, 10]
        assert classifier.predict_proba(bags).sum(axis=1) == pytest.approx(1, abs=1e-6)
        assert classifier.card_.model.task == ("ordinal" if ordinal else "multiclass")


def test_saved_and_loaded_it_answers_the_same(fitted: SlideClassifier, phantom: Cohort, tmp_path: Path) -> None:
    bags, labels, _ = phantom
    fitted.save(tmp_path / "model")
    loaded = SlideClassifier.load(tmp_path / "model")
    assert (loaded.predict_proba(bags) == fitted.predict_proba(bags)).all()
    assert (loaded.attention(bags[0]) == fitted.attention(bags[0])).all()
    assert loaded.get_params() == fitted.get_params()
    assert loaded.score(bags, labels) == fitted.score(bags, labels)


def test_what_is_loaded_can_be_trained_again(phantom: Cohort, tmp_path: Path) -> None:
    bags, labels, _ = phantom
    numbers = [int(label == "tumour") for label in labels]
    quick = SMALL | {"epochs": 1}
    first = SlideClassifier("abmil+jigsaw", **quick, lambda_=0.5, positive=0, seed=7, device="cpu").fit(bags, numbers)
    first.save(tmp_path / "model")
    loaded = SlideClassifier.load(tmp_path / "model")
    assert (loaded.seed, loaded.lambda_, loaded.positive) == (7, 0.5, "0")
    assert loaded.device == "auto"  # the next machine may have another one
    assert list(loaded.classes_) == ["1", "0"]
    assert loaded.score(bags, numbers) == first.score(bags, numbers)
    again = clone(loaded).fit(bags, numbers)
    assert (again.predict_proba(bags) == first.predict_proba(bags)).all()


def test_a_model_of_patients_is_refused(fitted: SlideClassifier, tmp_path: Path) -> None:
    save_model(tmp_path, fitted.model_, dataclasses.replace(fitted.card_, level="patient"))
    with pytest.raises(StudyError, match="`jigsawmil predict`"):
        SlideClassifier.load(tmp_path)


def test_a_fitted_one_can_be_pickled(fitted: SlideClassifier, phantom: Cohort) -> None:
    """joblib does so where scikit-learn runs in parallel."""
    copy = pickle.loads(pickle.dumps(fitted))
    assert (copy.predict_proba(phantom[0][:2]) == fitted.predict_proba(phantom[0][:2])).all()


def test_paths_are_read(fitted: SlideClassifier, phantom: Cohort, tmp_path: Path) -> None:
    bags = phantom[0][:2]
    for bag in bags:
        write_bag(bag, tmp_path / f"{bag.slide_id}.h5")
    paths = [tmp_path / f"{bags[0].slide_id}.h5", str(tmp_path / f"{bags[1].slide_id}.h5")]
    assert (fitted.predict_proba(paths) == fitted.predict_proba(bags)).all()


def test_cross_validation_by_scikit_learn(phantom: Cohort) -> None:
    """Whatever holds the bags."""
    bags, labels, _ = phantom
    array = np.empty(len(bags), dtype=object)
    array[:] = bags
    quick = SlideClassifier("abmil", **SMALL | {"epochs": 3})
    scores = [cross_val_score(quick, x, labels, cv=2) for x in (bags, array, pd.Series(bags))]
    assert (scores[0] == scores[1]).all()
    assert (scores[0] == scores[2]).all()


@pytest.mark.parametrize("numbers", [False, True])
def test_scorers_of_scikit_learn(numbers: bool, phantom: Cohort) -> None:
    bags, labels, _ = phantom
    y = np.array([int(label == "tumour") for label in labels] if numbers else labels)
    names = ["accuracy", "roc_auc", "neg_log_loss", "balanced_accuracy"]
    found = cross_validate(SlideClassifier("abmil", **SMALL), bags, y, cv=2, scoring=names, error_score="raise")
    assert found["test_roc_auc"].min() > 0.8
    assert found["test_accuracy"].min() > 0.75


def test_search_and_pooled_predictions_by_scikit_learn(phantom: Cohort) -> None:
    bags, labels, patients = phantom
    classifier = SlideClassifier("abmil", **SMALL | {"epochs": 1})
    given = {"patients": patients}
    p = cross_val_predict(classifier, bags, labels, cv=2, method="predict_proba", params=given)
    assert p.sum(axis=1) == pytest.approx(1)
    search = GridSearchCV(classifier, {"method": ["abmil", "graph-mil"]}, cv=2).fit(bags, labels)
    assert set(search.predict(bags)) <= {"normal", "tumour"}


def test_what_fit_refuses(phantom: Cohort) -> None:
    bags, labels, _ = phantom
    with pytest.raises(ConfigError, match="Did you mean 'abmil'"):
        SlideClassifier("abmill").fit(bags, labels)
    with pytest.raises(ConfigError, match="divisor of hidden"):
        SlideClassifier(heads=3).fit(bags, labels)
    with pytest.raises(LabelError, match="30 bags and 29 labels"):
        SlideClassifier().fit(bags, labels[1:])
    with pytest.raises(LabelError, match="All slides are 'a'"):
        SlideClassifier().fit(bags, ["a"] * 30)
    with pytest.raises(LabelError, match="different slide ids"):
        SlideClassifier().fit([bags[0], *bags[:-1]], labels)
    with pytest.raises(LabelError, match="not a label"):
        SlideClassifier(positive="tumor").fit(bags, labels)


WRONG = [
    ("one bag", lambda bags: bags[0], "expected a list of bags"),
    ("a path", lambda bags: "slide.h5", "expected a list of bags"),
    ("nothing", lambda bags: [], "expected at least one"),
    ("a matrix", lambda bags: np.zeros((4, 16)), "expected bags, or paths of feature files; found ndarray"),
    ("no such file", lambda bags: ["nowhere.h5"], "nowhere.h5"),
    ("NaN", lambda bags: [dataclasses.replace(bags[0], features=bags[0].features * torch.nan)], "NaN or Inf"),
    ("another width", lambda bags: [dataclasses.replace(bags[0], features=bags[0].features[:, :8])], "8 columns"),
    ("another encoder", lambda bags: [dataclasses.replace(bags[0], encoder="uni_v1")], "encoder uni_v1"),
    ("no patch", lambda bags: [permuted(bags[0], np.arange(0))], "no patches"),
]


@pytest.mark.parametrize(("name", "make", "words"), WRONG, ids=[name for name, *_ in WRONG])
def test_what_predict_refuses(name, make, words: str, fitted: SlideClassifier, phantom: Cohort) -> None:
    with pytest.raises(FeatureError, match=words):
        fitted.predict_proba(make(phantom[0]))


def test_labels_and_unfitted_estimators_are_refused_as_scikit_learn_does(
    fitted: SlideClassifier, phantom: Cohort
) -> None:
    bags, labels, _ = phantom
    for unfitted in (SlideClassifier(), clone(fitted)):
        with pytest.raises(NotFittedError):
            check_is_fitted(unfitted)
    check_is_fitted(fitted)
    wrong: dict[str, object] = {
        r"shape \(30, 1\), expected \(30,\)": np.array(labels)[:, None],
        "y is continuous": np.linspace(0.5, 1.2, 30),
        "Two classes are needed": ["normal"] * 30,
    }
    for words, y in wrong.items():
        with pytest.raises(ValueError, match=words):
            SlideClassifier(METHOD, **SMALL).fit(bags, y)
    with pytest.raises(ValueError, match="Two classes are needed"):
        SlideClassifier(METHOD, **SMALL).fit(bags[:1], labels[:1])
    with pytest.raises(ValueError, match="1 of 30 bags have no label"):
        SlideClassifier(METHOD, **SMALL).fit(bags, [float("nan"), *labels[1:]])
    with pytest.raises(ValueError, match=r"shape \(30, 1\)"):
        SlideRegressor(METHOD, **SMALL).fit(bags, np.ones((30, 1)))
    assert fitted.n_features_in_ == 16
    probabilities = fitted.predict_proba(bags[:3])
    assert np.exp(fitted.predict_log_proba(bags[:3])) == pytest.approx(probabilities)
    assert 1 / (1 + np.exp(-fitted.decision_function(bags[:3]))) == pytest.approx(probabilities[:, 1])


def test_help_says_what_every_setting_means() -> None:
    for found in (SlideClassifier, SlideRegressor, SlideSurvival, SlideMultilabel, Settings):
        shown = " ".join((found.__doc__ or "").split())
        for setting in settings_of(Settings):
            if setting.name != "level" or found is Settings:
                assert f"{setting.name} : " in shown
                assert " ".join(setting.help.split()) in shown


def test_nan_is_named_before_training(phantom: Cohort) -> None:
    bags, labels, _ = phantom
    spoilt = dataclasses.replace(bags[4], features=bags[4].features * torch.inf)
    with pytest.raises(FeatureError, match=rf"{bags[4].slide_id}: some features are NaN or Inf"):
        SlideClassifier(METHOD, **SMALL).fit([*bags[:4], spoilt, *bags[5:]], labels)


def test_the_saved_model_is_that_of_the_program(fitted: SlideClassifier, phantom: Cohort, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    _, card = load_model(tmp_path / "model")
    assert card.classes == ("normal", "tumour")
    assert card.encoder == phantom[0][0].encoder
    assert card.training is not None
    assert card.training["slides"] == 20


def test_a_preset_sets_what_is_not_given() -> None:
    classifier = SlideClassifier(preset="paper", k=8)
    assert classifier._settings() == Settings.preset("paper", k=8)
    assert clone(classifier)._settings() == classifier._settings()
    assert SlideClassifier("abmil", preset="paper").method == "abmil"
    assert "preset" not in classifier.get_params()  # it has become the parameters it stands for
    with pytest.raises(ConfigError, match="found 'papers', expected one of default, paper"):
        SlideClassifier(preset="papers")


def test_values_and_outcomes_are_learnt_as_classes_are(phantom: Cohort, tmp_path: Path) -> None:
    bags = phantom[0][:12]
    strength = np.array([float(bag.features.mean()) for bag in bags])
    regressor = clone(SlideRegressor("graph-abmil", **SMALL)).fit(bags, 100 * strength + 7)
    assert np.allclose(regressor.predict(bags).mean(), (100 * strength + 7).mean(), atol=100 * strength.std() + 1)
    outcomes = [(float(10 + i), i % 3 != 0) for i in range(12)]
    model = SlideSurvival("graph-abmil", loss="cox", **SMALL).fit(bags, outcomes)
    curves = model.predict_survival(bags)
    assert curves.shape == (12, len(model.unique_times_))
    assert (np.diff(curves, axis=1) <= 0).all()
    assert 0 <= model.score(bags, outcomes) <= 1
    model.save(tmp_path / "model")
    again = SlideSurvival.load(tmp_path / "model")
    assert again.get_params()["loss"] == "cox"
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    with pytest.raises(StudyError, match="the task survival, expected one that predicts a measured value"):
        SlideRegressor.load(tmp_path / "model")


def test_what_is_wrong_with_bags_and_labels_is_said_in_words_of_python(phantom: Cohort) -> None:
    """Not in those of the command line, and of no file."""
    for given in (phantom[0][:4], phantom[0][:1]):
        with pytest.raises(LabelError) as raised:
            SlideClassifier("abmil").fit(given, ["a"] * len(given))
        said = str(raised.value)
        assert said.startswith("bags and labels: cannot be used as given.")
        assert "give patients=" in said
        assert "--" not in said
