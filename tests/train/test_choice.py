"""What may be chosen, and the rule that chooses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.splits import Fold, make_folds
from jigsawmil.errors import ConfigError, SplitError
from jigsawmil.statistics.paired import corrected_t_test
from jigsawmil.study.study import with_choices
from jigsawmil.synthetic.phantom import make_phantom
from jigsawmil.train.choice import Choice
from jigsawmil.train.choosing import choose_settings
from jigsawmil.train.decision import Inner, decide, inner_folds
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_model

SMALL: dict[str, Any] = {"method": "abmil", "hidden": 16, "attention_dim": 8, "epochs": 2, "patience": 0}
DEFAULT = [0.70, 0.50, 0.60, 0.65, 0.55, 0.60]


def less(by: list[float]) -> list[float]:
    return [a - b for a, b in zip(DEFAULT, by, strict=True)]


@pytest.mark.parametrize(
    ("gains", "chosen"),
    [
        ({"better": [0.1] * 6}, "better"),  # every inner fold agrees
        ({"worse": [-0.1] * 6}, "default"),
        ({"equal": [0.0] * 6}, "default"),
        ({"lucky": [0.3, -0.1, -0.1, 0.2, -0.1, -0.1]}, "default"),  # a mean gain well within its error
        ({"good": [0.05, 0.06] * 3, "better": [0.1, 0.11] * 3}, "better"),
        ({"large but unsure": [0.9, -0.5] * 3, "small and sure": [0.05, 0.06] * 3}, "small and sure"),
        ({"first": [0.1] * 6, "second": [0.1] * 6}, "first"),
    ],
)
def test_the_default_stays_unless_a_gain_exceeds_its_standard_error(gains: dict[str, list[float]], chosen: str) -> None:
    found = decide({"default": DEFAULT, **{name: less(by) for name, by in gains.items()}}, folds=3)
    assert found.chosen == chosen
    assert found.default == "default"
    for each in found.judged[1:]:
        assert each.gain == pytest.approx(np.mean(gains[each.candidate]))


def test_the_error_is_that_of_the_corrected_t_test() -> None:
    gains = [0.05, 0.08, 0.01, 0.04, 0.02, 0.09]
    _, judged = decide({"default": DEFAULT, "other": less(gains)}, folds=3).judged
    assert judged.gain / judged.error == pytest.approx(corrected_t_test(gains, n_train=2, n_test=1).t)


def test_a_loss_that_is_no_number_is_never_chosen() -> None:
    assert decide({"default": DEFAULT, "odd": [float("nan")] * 6}, folds=3).chosen == "default"


def test_candidates_are_all_combinations_and_the_default_first() -> None:
    choice = Choice(options={"k": [8, 50], "conv": ["gat", "sage"]})
    names = list(choice.candidates(Settings(method="graph-abmil")))
    assert names == ["k=50, conv=gat", "k=8, conv=gat", "k=8, conv=sage", "k=50, conv=sage"]
    assert choice.candidates(Settings(method="graph-abmil", k=24, members=5))["k=8, conv=sage"].members == 5


def test_the_default_is_tried_though_it_was_not_offered() -> None:
    assert list(Choice(options={"k": [8]}).candidates(Settings(method="graph-mil", k=24))) == ["k=24", "k=8"]


def test_a_setting_that_a_method_does_not_use_makes_no_candidate() -> None:
    choice = Choice(options={"k": [8, 50], "lambda": ["em", 0.5]})
    assert len(choice.candidates(Settings(method="abmil"))) == 1
    assert list(choice.candidates(Settings(method="abmil+jigsaw"))) == ["lambda=em", "lambda=0.5"]
    made = with_choices({name: Settings(method=name) for name in ("abmil", "graph-abmil")},
                        dict.fromkeys(["abmil", "graph-abmil"], choice))  # fmt: skip
    assert list(made["variants"]) == ["abmil", "graph-abmil", "graph-abmil, chosen"]
    assert list(made["choices"]) == ["graph-abmil, chosen"]
    with pytest.raises(ConfigError, match="none of abmil can choose k, lambda"):
        with_choices({"abmil": Settings(method="abmil")}, {"abmil": choice})


def test_a_committee_has_nothing_to_choose() -> None:
    assert len(Choice(options={"lr": [1e-3, 1e-5]}).candidates(Settings(method="committee"))) == 1
    with pytest.raises(ConfigError, match="choose: method: found 'committee'"):
        Choice(options={"method": ["abmil", "committee"]}).candidates(Settings(method="abmil"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kk": [8, 24]}, "choose: setting: found 'kk'.*Did you mean 'k'"),
        ({"conv": ["gat", "saga"]}, "choose: conv: found 'saga'.*Did you mean 'sage'"),
        ({"k": [8, "many"]}, "choose: k: found 'many', expected a whole number"),
        ({"method": ["abmil", "amil"]}, "choose: method: found 'amil'"),
        ({"members": [1, 5]}, "choose: setting: found 'members'"),
        ({"k": 8}, "choose: k: found 8, expected a list"),
        ({"k": [8, 8]}, "choose: k: found .*distinct"),
        ({}, "choose: found {}"),
        ({"k": list(range(1, 30))}, "choose: found '30 candidates', expected at most 24.*choose_most"),
    ],
)
def test_what_cannot_be_chosen_is_refused_by_name(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Choice(options=options).candidates(Settings(method="graph-abmil"))


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    made = make_phantom("composition", slides=36, dim=16, patches=30, two_slides=0.2, seed=3, noise=0.3)
    return Cohort.from_bags(made.bags, made.labels, made.patients)


def test_inner_folds_split_the_training_patients(cohort: Cohort) -> None:
    ids, patients = list(map(str, cohort.slide_ids)), list(map(str, cohort.patients))
    outer = make_folds(ids, patients, list(cohort.stratum_names), folds=2, seed=0)[0]
    choice = Choice(options={"k": [8]}, folds=3, repeats=2)
    parts = inner_folds(cohort, outer, choice, seed=0, fold=0)
    assert list(parts) == [(repeat, number) for repeat in range(2) for number in range(3)]
    patient_of = dict(zip(ids, patients, strict=True))
    for repeat in range(2):
        tested = [slide for number in range(3) for slide in parts[repeat, number].test]
        assert sorted(tested) == sorted(outer.train)
    for part in parts.values():
        assert not {patient_of[slide] for slide in part.train} & {patient_of[slide] for slide in part.test}
        assert not set(outer.test) & {*part.train, *part.test, *part.val}
    assert parts[0, 0] != parts[1, 0]  # another repeat splits otherwise
    assert parts != inner_folds(cohort, outer, choice, seed=0, fold=1)
    with pytest.raises(SplitError, match="choose_folds"):
        inner_folds(cohort, outer, Choice(options={"k": [8]}, folds=20), seed=0, fold=0)


def test_validation_slides_that_are_given_score_no_candidate(cohort: Cohort) -> None:
    ids = list(map(str, cohort.slide_ids))
    outer = Fold(train=tuple(ids[4:18]), val=tuple(ids[18:]), test=tuple(ids[:4]))
    for part in inner_folds(cohort, outer, Choice(options={"k": [8]}, folds=2), seed=0, fold=0).values():
        assert part.val == outer.val
        assert not set(part.test) & set(outer.val)


def test_all_candidates_draw_the_same_randomness() -> None:
    assert Inner("a", 0, 1).draws(3, 2) == Inner("b", 0, 1).draws(3, 2)
    draws = {Inner("a", r, n).draws(s, f) for r in range(3) for n in range(3) for s in range(3) for f in range(3)}
    assert len(draws) == 81


CHOICE = Choice(options={"lr": [1e-9, 0.01]}, folds=2, repeats=1)


def test_train_chooses_first_and_the_model_says_so(cohort: Cohort, tmp_path: Path) -> None:
    decided: list[Any] = []
    settings = Settings(**{**SMALL, "lr": 1e-9, "epochs": 10})
    train_model(cohort, tmp_path / "m", settings, choice=CHOICE, on_choice=decided.append)
    training = json.loads((tmp_path / "m" / "model.json").read_text())["training"]
    assert decided[0].chosen == "lr=0.01"
    assert training["settings"]["lr"] == 0.01
    assert training["choice"] == json.loads(json.dumps(decided[0].record()))
    assert not list((tmp_path / "m").glob(".*"))  # what it would have resumed from
    train_model(cohort, tmp_path / "same", settings.replace(lr=0.01))
    same, own = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("same", "m"))
    assert same == own


def test_a_choice_that_was_interrupted_resumes(cohort: Cohort, tmp_path: Path) -> None:
    settings, whole = Settings(lr=1e-9, **SMALL), Fold(train=tuple(map(str, cohort.slide_ids)), test=())
    passes: list[int] = []

    def cut(epoch: Any) -> None:
        passes.append(epoch.epoch)
        if len(passes) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_model(cohort, tmp_path / "m", settings, choice=CHOICE, on_epoch=cut)
    found: list[Any] = []
    train_model(cohort, tmp_path / "m", settings, choice=CHOICE, on_epoch=found.append, on_choice=found.append)
    epochs = found.index(next(each for each in found if hasattr(each, "chosen")))
    assert epochs == 8 - 4  # of four trainings of two epochs, two had ended
    decision = found[epochs]
    assert decision == choose_settings(cohort, whole, settings, CHOICE, 0, memory_gb=1.0)
