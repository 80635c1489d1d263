"""One flat table of settings: the defaults of all configs, and a word for every mistake."""

import dataclasses
from typing import Any

import pytest

from jigsawmil.config import from_mapping
from jigsawmil.errors import ConfigError
from jigsawmil.graph import GraphConfig
from jigsawmil.nn.model import METHODS, ModelConfig
from jigsawmil.train.config import TrainConfig
from jigsawmil.train.lambdas import LambdaConfig
from jigsawmil.train.settings import Settings

METHOD = "graph-abmil+jigsaw"


def test_the_defaults_are_those_of_the_configs() -> None:
    settings = Settings()
    assert settings.model_config(8, "multiclass", 5) == ModelConfig(
        method=METHOD, in_dim=8, task="multiclass", classes=5
    )
    assert settings.graph_config() == GraphConfig()
    assert settings.train_config() == TrainConfig()
    assert settings.train_config().lambda_ == LambdaConfig()


HOME = {
    "kind": "graph", "policy": "lambda_", "value": "lambda_", "a": "lambda_a", "b": "lambda_b", "every": "lambda_every",
}  # fmt: skip
SKIPPED = {"in_dim", "task", "classes"}  # the cohort's


def test_every_field_of_the_configs_can_be_set_and_no_other() -> None:
    configs = (ModelConfig, GraphConfig, TrainConfig, LambdaConfig)
    names = {field.name for config in configs for field in dataclasses.fields(config)} - SKIPPED
    mine = {field.name for field in dataclasses.fields(Settings)}
    assert {HOME.get(name, name) for name in names} | {"level"} == mine


CHANGED: dict[str, Any] = {
    "method": "graph-mil", "graph": "radius", "k": 7, "radius": 90.0, "sigma": 0.2, "conv": "gcn", "hidden": 24,
    "layers": 3, "heads": 2, "attention_dim": 9, "gated": True, "dropout": 0.1, "jigsaw": "consistency", "grid": 4,
    "share": 0.5, "lambda_": "balanced", "lambda_a": 3.0, "lambda_b": 4.0, "lambda_every": 5, "epochs": 6,
    "patience": 2, "validation": 0.3, "margin": 0.5, "lr": 0.1, "weight_decay": 0.2, "batch_size": 3, "clip": 0.7,
    "class_weights": True, "device": "cpu", "precision": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_set_arrives_in_its_config_and_nowhere_else(name: str) -> None:
    def flat(settings: Settings) -> dict[str, Any]:
        parts = (settings.model_config(8, "binary", 2), settings.graph_config(), settings.train_config())
        values = {k: v for part in parts for k, v in dataclasses.asdict(part).items()}
        return values | {f"lambda.{k}": v for k, v in values.pop("lambda_").items()}

    before, after = flat(Settings()), flat(Settings(**{name: CHANGED[name]}))
    target = {"graph": "kind", "lambda_": "lambda.policy"}.get(name, name.replace("lambda_", "lambda."))
    assert {key for key in after if after[key] != before[key]} == {target}
    assert after[target] == CHANGED[name]


def test_a_number_for_lambda_is_a_fixed_one() -> None:
    assert Settings(lambda_=0.25).train_config().lambda_ == LambdaConfig(policy="fixed", value=0.25)


@pytest.mark.parametrize("method", METHODS)
def test_a_graph_is_needed_where_the_method_has_one(method: str) -> None:
    assert Settings(method=method).needs_graph == ("graph" in method)


@pytest.mark.parametrize(
    ("key", "nearest"), [("epoch", "epochs"), ("learn_rate", ""), ("hiden", "hidden"), ("lamda_", "lambda_")]
)
def test_an_unknown_key_names_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"key: found {key!r}.*{f'Did you mean {nearest!r}' if nearest else ''}"):
        from_mapping(Settings, {key: 1})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("k", "5", "a whole number"), ("k", 5.0, "a whole number"), ("k", True, "a whole number"),
        ("epochs", [3], "a whole number"), ("lr", "small", "a number"), ("lr", False, "a number"),
        ("gated", 1, "true or false"), ("class_weights", "yes", "true or false"), ("method", 3, "text"),
        ("lambda_", True, "text or a number"), ("lambda_", None, "text or a number"),
        ("sigma", [1], "text or a number"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_refused(name: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        Settings(**{name: value})
    assert str(error.value) == f"{name.rstrip('_')}: found {value!r}, expected {expected}."


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("method", "graph-abmill", "Did you mean 'graph-abmil'"), ("conv", "gatt", "Did you mean 'gat'"),
        ("jigsaw", "positions", "Did you mean 'position'"), ("level", "patients", "Did you mean 'patient'"),
        ("graph", "kn", "Did you mean 'knn'"), ("sigma", "max-kn", "Did you mean 'max-knn'"), ("sigma", -1, "above 0"),
        ("heads", 3, "a divisor of hidden = 256"), ("dropout", 1.0, r"a number in \[0, 1\)"), ("k", 0, "at least 1"),
        ("epochs", 0, "at least 1"), ("lambda_", "emm", "Did you mean 'em'"), ("radius", 0, "microns above 0"),
        ("precision", "float8", "expected one of float32"),
    ],
)  # fmt: skip
def test_what_is_impossible_is_refused_before_anything_runs(name: str, value: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Settings(**{name: value})


def test_whole_numbers_are_numbers() -> None:
    assert Settings(lr=1, sigma=2, lambda_=1).train_config().lambda_.value == 1.0
