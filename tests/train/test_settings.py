"""One flat table of settings: the defaults of all configs, and a word for every mistake."""

import dataclasses
import pickle
from typing import Any

import pytest

from jigsawmil.config import Setting, settings_of
from jigsawmil.errors import ConfigError
from jigsawmil.graph import GraphConfig
from jigsawmil.nn.model import ModelConfig
from jigsawmil.nn.options import DEFAULT_METHOD, PAPER_METHODS, ModelOptions
from jigsawmil.train.config import LambdaConfig, TrainConfig
from jigsawmil.train.presets import PAPER
from jigsawmil.train.settings import Settings

METHOD = "graph-abmil+jigsaw"


def single(**own: Any) -> Settings:
    """Of one model: the members of the default have some values of their own."""
    return Settings(**{"method": METHOD, **own})


def test_the_defaults_are_those_of_the_configs() -> None:
    settings = single()
    assert settings.model_config(8, "multiclass", 5) == ModelConfig(
        method=METHOD, in_dim=8, task="multiclass", classes=5
    )
    assert settings.graph == GraphConfig()
    assert settings.train == TrainConfig()
    assert settings.train.lambda_ == LambdaConfig()
    assert (Settings().method, Settings().members, single().members) == (DEFAULT_METHOD, 3, 1)


SKIPPED = {"in_dim", "task", "classes", "covariate_columns"}  # the cohort's
ORDER = """method level members graph k radius sigma normalise ties conv hidden layers heads attention_dim
attention_bias gated dropout input_dropout edge_dropout jigsaw grid bins share jigsaw_head imposters imposter_loss kinds
covariates loss options lambda_ lambda_a lambda_b lambda_every lambda_unit epochs patience validation margin lr
weight_decay batch_size patch_dropout clip class_weights device precision"""


def test_every_field_of_the_configs_can_be_set_and_no_other() -> None:
    """Each has its help, under a name that no other has."""
    of_configs = [
        field.metadata["name"] or field.name
        for config in (GraphConfig, ModelOptions, LambdaConfig, TrainConfig)
        for field in dataclasses.fields(config)
        if field.name != "lambda_"
    ]
    assert (
        ["method", "level", "members", *of_configs]
        == list(Settings().flat())
        == [s.name for s in settings_of(Settings)]
    )
    assert len(set(of_configs)) == len(of_configs)
    assert all(s.help.endswith(".") for s in settings_of(Settings))
    own = {field.name for field in dataclasses.fields(ModelConfig)}
    assert own - {field.name for field in dataclasses.fields(ModelOptions)} == {"method", *SKIPPED}


def test_names_and_their_order_are_those_of_the_files_that_exist() -> None:
    """job.json, model.json and study files hold them; a new setting is added here too."""
    assert list(Settings().flat()) == ORDER.split()
    assert list(dataclasses.asdict(single().model_config(8, "binary", 2)))[:6] == [
        *("method", "in_dim", "task", "classes", "covariate_columns", "conv")
    ]


def other(setting: Setting) -> Any:
    """Another value than the default that is possible, too; `options` belong to methods from elsewhere."""
    words = {
        "method": "graph-mil", "level": "patient", "graph": "radius", "sigma": 0.2, "conv": "gcn",
        "jigsaw": "consistency", "lambda_": "balanced", "device": "cpu", "precision": "bfloat16",
        "normalise": "per-axis", "ties": "exact", "bins": "aspect", "jigsaw_head": "mlp", "imposters": "centre",
        "imposter_loss": "sum", "lambda_unit": "steps",
    }  # fmt: skip
    if setting.name in words:
        return words[setting.name]
    return not setting.default if setting.kind is bool else setting.kind((setting.default or 1) / 2) or 2


OWN = [setting for setting in settings_of(Settings) if setting.name != "options"]  # tests/nn/test_foreign.py


@pytest.mark.parametrize("setting", OWN, ids=lambda setting: setting.name)
def test_what_is_set_arrives_in_its_config_and_nowhere_else(setting: Setting) -> None:
    def leaves(values: dict[str, Any], path: str = "") -> dict[str, Any]:
        found = {}
        for key, value in values.items():
            found |= leaves(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
        return found

    value = other(setting)
    assert value != setting.default
    before, after = (leaves(dataclasses.asdict(s)) for s in (single(), single(**{setting.name: value})))
    (changed,) = [key for key in after if after[key] != before[key]]
    assert after[changed] == value
    renamed = {"graph": "kind", "lambda_": "policy"}.get(setting.name, setting.name.removeprefix("lambda_"))
    assert changed.split(".")[-1] == renamed


def test_flat_names_and_back() -> None:
    changed = {setting.name: other(setting) for setting in OWN}
    settings = Settings(**changed)
    assert settings.flat() == {**changed, "options": ""}
    assert Settings.from_flat(settings.flat()) == settings == pickle.loads(pickle.dumps(settings))
    assert hash(settings) == hash(Settings(**changed)) != hash(Settings())
    assert settings.replace(k=3) == Settings(**{**changed, "k": 3})
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.level = "slide"


def test_a_number_for_lambda_is_a_fixed_one() -> None:
    assert Settings(lambda_=0.25).train.lambda_ == LambdaConfig(policy=0.25)


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_a_graph_is_needed_where_the_method_has_one(method: str) -> None:
    assert Settings(method=method).needs_graph == ("graph" in method)


@pytest.mark.parametrize(
    ("key", "nearest"), [("epoch", "epochs"), ("learn_rate", ""), ("hiden", "hidden"), ("lamda_", "lambda_")]
)
def test_an_unknown_key_names_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"key: found {key!r}.*{f'Did you mean {nearest!r}' if nearest else ''}"):
        Settings(**{key: 1})


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
        single(**{name: value})


def test_whole_numbers_are_numbers() -> None:
    assert Settings(lr=1, sigma=2, lambda_=1).train.lambda_.rule().rule(5.0, 5.0) == 1.0


NO_PRESETS_BUSINESS = {"covariates", "loss", "options", "level", "device"}  # what is trained, and where
NO_PRESETS_BUSINESS |= {"radius", "validation", "margin"}  # no effect


def test_the_paper_preset_states_every_setting_that_has_an_effect() -> None:
    """So that no later default can change it."""
    assert set(PAPER) == set(Settings().flat()) - NO_PRESETS_BUSINESS
    paper = Settings.preset("paper")
    assert (paper.graph.kind, paper.train.patience) == ("knn", 0)  # so radius, validation and margin have none


def test_the_paper_preset_is_what_the_paper_prints() -> None:
    paper = Settings.preset("paper")
    graph, model, train = paper.graph, paper.model, paper.train
    assert (graph.k, graph.sigma, graph.normalise, graph.ties) == (50, "max-knn", "per-axis", "exact")
    assert model.bins == graph.normalise  # one normalisation of the centroids
    assert (model.conv, model.heads, model.layers, model.hidden) == ("gat", 1, 2, 256)
    assert (model.attention_bias, model.gated, model.kinds) == (False, False, 0)
    assert (model.jigsaw, model.grid, model.share, model.imposter_loss) == ("position", 10, 0.9, "sum")
    assert (train.lr, train.weight_decay, train.lambda_.policy, train.precision) == (1e-4, 1e-5, "em", "float32")


def test_settings_that_are_given_override_the_preset() -> None:
    flat = Settings.from_flat({"preset": "paper", "k": 8, "lambda": "0.5"}).flat()
    assert flat == {**Settings.preset("paper").flat(), "k": 8, "lambda_": 0.5}
    assert Settings.preset("default") == Settings.from_flat({"preset": "default"}) == Settings()
    with pytest.raises(
        ConfigError, match=r"x: preset: found 'papre', expected one of default, paper. Did you mean 'paper'"
    ):
        Settings.from_flat({"preset": "papre"}, "x")


def test_settings_know_their_preset() -> None:
    assert Settings(method="abmil", device="cpu").nearest_preset == ("default", {})
    assert single(k=8).nearest_preset == ("default", {"k": 8})
    assert Settings.preset("paper", method="abmil", lambda_=0.5).nearest_preset == ("paper", {"lambda_": 0.5})


def test_a_setting_that_every_member_of_a_committee_has_for_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"k: found 8, but the members of committee have values of their own \(8, 24"):
        Settings(method="committee", k=8)
    assert Settings(method="committee", conv="gin").each_member()[1].model.conv == "gin"  # those without their own
