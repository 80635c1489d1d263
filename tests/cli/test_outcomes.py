"""Survival, measured values and several targets at the command line: what cannot be is refused before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jigsawmil import METHODS, SlideRegressor, register_method
from jigsawmil.errors import ConfigError
from jigsawmil.study.run import open_run

from ..nn.test_foreign import Own, Weighted

Given = Callable[[str], list[object]]
REFUSED = [
    ("survival", ["--loss", "huber"], "loss: found 'huber', expected nll, cox"),
    ("regression", ["--loss", "cox"], "loss: found 'cox', expected huber, squared"),
    ("multilabel", ["--loss", "cox"], "loss: found 'cox', expected none, for multilabel"),
    ("survival", ["--class-weights"], "class_weights: found True, expected false: survival predicts no class"),
    ("regression", ["--class-weights"], "class_weights: found True, expected false: regression predicts no class"),
    ("survival", ["torchmil:ABMIL"], "torchmil's models give one logit; survival asks for 4"),
    ("multilabel", ["torchmil:ABMIL"], "torchmil's models give one logit; multilabel(2,3) asks for 5"),
    ("regression", ["torchmil:DSMIL"], "made for two classes; the task is regression"),
    ("regression", ["own", "--loss", "squared"], "loss: found 'squared', but own has a loss of its own"),
]


@pytest.fixture(autouse=True)
def registered():
    register_method("own", Own)
    register_method("weighted", Weighted)
    yield
    for name in ("own", "weighted"):
        del METHODS[name]


@pytest.mark.parametrize(("task", "typed", "told"), REFUSED, ids=[" ".join([one[0], *one[1]]) for one in REFUSED])
def test_what_a_task_cannot_use_is_refused_before_anything_is_written(
    jigsawmil: Any, outcome_given: Given, tmp_path: Path, task: str, typed: list[str], told: str
) -> None:
    method, options = ("abmil", typed) if typed[0].startswith("--") else (typed[0], typed[1:])
    for verb, named in (("compare", "--methods"), ("train", "--method")):
        out = tmp_path / verb
        ran = jigsawmil(verb, *outcome_given(task), named, method, *options, "--epochs", "1", "--out", out)
        assert ran.code == 1
        assert told in " ".join(ran.err.split())
        assert not out.exists()


def test_a_value_that_is_offered_to_choose_from_is_refused_too(
    jigsawmil: Any, outcome_given: Given, tmp_path: Path
) -> None:
    offered = ["--methods", "abmil", "--choose", "loss=huber,cox", "--out", tmp_path / "run"]
    ran = jigsawmil("compare", *outcome_given("regression"), *offered)
    assert "loss: found 'cox', expected huber, squared" in ran.err
    assert not (tmp_path / "run").exists()


def test_an_estimator_refuses_it_before_it_learns(outcome_options: Callable[[str], dict[str, Any]]) -> None:
    source = outcome_options("regression")
    labels = pd.read_csv(source["labels"])
    bags = [Path(source["features"]) / f"{name:04}.h5" for name in labels["slide_id"]]
    with pytest.raises(ConfigError, match="expected huber, squared"):
        SlideRegressor("abmil", loss="cox").fit(bags, labels["value"])


def test_one_loss_for_all_methods_of_a_comparison(
    jigsawmil: Any, outcome_given: Given, quick: list[object], tmp_path: Path
) -> None:
    """Ours and other people's; a model with a loss of its own is named."""
    out = tmp_path / "run"
    methods = ["--methods", "abmil,weighted,own,torchmil:ABMIL", "--loss", "squared", "--folds", "2"]
    ran = jigsawmil("compare", *outcome_given("regression"), *methods, *quick, "--out", out)
    assert ran.code == 0, ran.err
    told = "own is trained with its own loss; the setting loss is for the other methods."
    assert told in " ".join(ran.out.split())
    run = open_run(out)
    assert {name: settings["loss"] for name, settings in run.settings.items()} == dict.fromkeys(
        ["abmil", "weighted", "own", "torchmil ABMIL"], "squared"
    )
    assert told in run.notes[run.cohorts[0]]
