"""Everything a person may set about a method: what a study file, the command line and Python share."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from inspect import cleandoc
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ..config import check_type, choose, flatten, one_of, require, setting, settings_of, unflatten
from ..errors import ConfigError
from ..graph_config import GraphConfig
from ..nn.factories import import_factory, is_path, options_of, options_text
from ..nn.options import (
    COVARIATES,
    DEFAULT_METHOD,
    METHODS,
    ModelOptions,
    check_method,
    foreign_method,
    peek_method,
)
from .config import LambdaConfig, TrainConfig
from .presets import DEFAULT_PRESET, PRESETS, preset_method, preset_values

if TYPE_CHECKING:
    from ..nn.model import ModelConfig

LEVELS = ("slide", "patient")
OPTIONS = "options"
# settings that say nothing to a model from elsewhere; the loss is the task's
OF_PARTS = {s.name.rstrip("_") for part in (ModelOptions, LambdaConfig) for s in settings_of(part)} - {OPTIONS, "loss"}


@dataclass(frozen=True, kw_only=True, init=False)
class Settings:
    """One method with its options, made from flat names: `Settings(method="abmil", epochs=20)`.

    The options stand in the configs of the parts: `settings.model.hidden`, `settings.graph.k`, `settings.train.lr`,
    `settings.train.lambda_.a`. `flat()` gives all of them in one table.
    """

    method: str = setting(
        DEFAULT_METHOD,
        f"The method: {one_of(METHODS)}; or a model from outside this package (`package.module:factory`, "
        "`torchmil:ABMIL`).",
    )
    level: str = setting(
        LEVELS[0], "Unit of prediction: slide or patient (all slides of a patient pooled).", option=True
    )
    members: int = setting(
        1,
        "Models of an ensemble (of each kind in a committee): each has its own seed and holds out its own part of the "
        "training patients for early stopping, and their logits are averaged; 1: a single model. A committee has "
        f"{METHODS[DEFAULT_METHOD].settings['members']} of each kind by default.",
        option=True,
    )
    graph: GraphConfig
    model: ModelOptions
    train: TrainConfig

    def __init__(self, **flat: Any) -> None:
        settings = {setting.name: setting for setting in settings_of(Settings)}
        if OPTIONS in flat:
            flat[OPTIONS] = options_text(flat[OPTIONS])
        for name, value in flat.items():
            choose("settings: key", name, settings)
            check_type(name.rstrip("_"), value, settings[name].kind)
        check_method(flat.get("method", DEFAULT_METHOD))
        flat = dict(peek_method(flat.get("method", DEFAULT_METHOD)).settings) | flat
        values = {name: flat.get(name, settings[name].default) for name in ("method", "level", "members")}
        for name, value in flat.items():
            if name.rstrip("_") in unused(values["method"]) and value != settings[name].default:
                raise ConfigError(_not_used(values["method"], name.rstrip("_"), value))
        choose("level", values["level"], LEVELS)
        require("members", values["members"], values["members"] >= 1, "a whole number of at least 1")
        parts = {"graph": GraphConfig, "model": ModelOptions, "train": TrainConfig}
        values |= {name: unflatten(part, flat) for name, part in parts.items()}  # refuses what is impossible
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_flat(cls, values: Mapping[str, Any], where: str = "settings") -> "Settings":
        """From a table as people write it: `lambda` has no underscore, and may be the text of a number; `preset` names
        the preset whose settings hold where the table states none.

        where: what the table is called in an error.
        """
        check_names(values, where)
        flat = {("lambda_" if name == "lambda" else name): value for name, value in values.items()}
        flat = base_values(flat.pop("preset", DEFAULT_PRESET), flat.get("method"), f"{where}: preset") | flat
        if isinstance(flat.get("lambda_"), str):
            with suppress(ValueError):  # the command line's "0.5" is a study file's 0.5
                flat["lambda_"] = float(flat["lambda_"])
        try:
            settings = cls(**flat)
            settings.check_options()
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        return settings

    @classmethod
    def preset(cls, name: str, **flat: Any) -> "Settings":
        """The settings of a preset, but for these.

        Example: `Settings.preset("paper", k=8)`
        """
        return cls(**(base_values(name, flat.get("method")) | flat))

    @property
    def nearest_preset(self) -> tuple[str, dict[str, Any]]:
        """The preset that these settings differ least from, and the values in which they differ from it; method and
        device belong to no preset."""
        own = self.flat()
        differing = {}
        for name in PRESETS:
            base = Settings.preset(name, method=self.method, device=self.train.device).flat()
            differing[name] = {key: value for key, value in own.items() if value != base[key]}
        name = min(differing, key=lambda name: len(differing[name]))
        return name, differing[name]

    def flat(self) -> dict[str, Any]:
        """All settings by name, as a job and a model write them down."""
        return flatten(self)

    def replace(self, **flat: Any) -> "Settings":
        """The same but for these settings, by their flat names."""
        return Settings(**{**self.flat(), **flat})

    def each_member(self) -> tuple["Settings", ...]:
        """The settings of each model that is trained, kind by kind in a committee: those of a single one."""
        kinds = peek_method(self.method).members or ({},)
        each = [self.replace(members=1, **kind) for kind in kinds]
        return tuple(own for own in each for _ in range(self.members))

    def model_config(self, in_dim: int, task: str, classes: int, covariates: str = "") -> "ModelConfig":
        """covariates: the columns of the cohort, for models that use them."""
        from ..nn.model import ModelConfig  # imports torch, which settings do not need

        columns = covariates if self.uses_covariates else ""
        own: dict[str, Any] = {
            "method": self.method,
            "in_dim": in_dim,
            "task": task,
            "classes": classes,
            "covariate_columns": columns,
        }
        return ModelConfig(**own, **asdict(self.model))

    @property
    def uses_covariates(self) -> bool:
        return self.model.covariates or self.method == COVARIATES

    @property
    def needs_graph(self) -> bool:
        return METHODS[self.method].graph

    def check_options(self) -> None:
        """Refuse options that a method from elsewhere does not take; imports it."""
        if peek_method(self.method).foreign and (factory := METHODS[self.method].factory) is not None:
            factory.check(options_of(self.model.options))

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: they find a model from elsewhere by the path of its factory, looking here, too."""
        factory = peek_method(self.method).factory
        path = None if factory is None or is_path(self.method) else (factory.path, factory.graph, factory.positions)
        return _arrive, (self.flat(), os.getcwd(), path)


def settings_doc(*leave: str) -> str:
    """The settings as the `Parameters` of a docstring, but for these."""
    lines = []
    for one in settings_of(Settings):
        if one.name not in leave:
            kind = getattr(one.kind, "__name__", str(one.kind))
            lines += [f"{one.name} : {kind}, default {one.default!r}", *wrap(one.help, 108, **INDENT)]
    return "\n\nParameters\n----------\n" + "\n".join(lines) + "\n"


INDENT: Any = {"initial_indent": "    ", "subsequent_indent": "    "}
Settings.__doc__ = cleandoc(Settings.__doc__ or "") + settings_doc()


def _arrive(flat: dict[str, Any], folder: str, path: tuple[str, bool, bool] | None) -> Settings:
    method = str(flat["method"])
    if (path is not None or is_path(method)) and folder not in sys.path:
        sys.path.append(folder)
    if path is not None and METHODS.peek(method) is None:
        if "<" in path[0]:
            raise ConfigError(
                f"method {method}: its factory {path[0]} cannot be found by other processes. Define it at the top of a "
                "module, or run in one process."
            )
        made = import_factory(path[0])
        METHODS.register(method, foreign_method(replace(made, graph=path[1], positions=path[2])))
    return Settings(**flat)


def unused(method: str) -> set[str]:
    """Settings that a method cannot use, by their plain names (`lambda`): refused if they are given."""
    row = peek_method(method)
    return OF_PARTS if row.foreign else {OPTIONS} | _varied(row.members)


def _varied(kinds: Sequence[Mapping[str, Any]]) -> set[str]:
    """Settings that every kind of model in a committee has a value of its own for, or does not use."""
    if not kinds:
        return set()
    each = [(kind, peek_method(kind["method"])) for kind in kinds]
    return {
        one.name.rstrip("_")
        for one in settings_of(Settings)
        if all(one.name in kind or not row.uses(one.name.rstrip("_"), one.part) for kind, row in each)
        and one.name != "method"
    }


def base_values(preset: str, method: str | None, where: str = "preset") -> dict[str, Any]:
    """What holds where a user states nothing: the preset's values, as far as the method uses them, and over them the
    method's own. method: None: that of the preset."""
    values = preset_values(preset, where)
    method = preset_method(preset, where) if method is None else method
    if not isinstance(method, str):
        return values
    own = {name: value for name, value in values.items() if name.rstrip("_") not in unused(method)}
    return own | dict(peek_method(method).settings)


def _not_used(method: str, name: str, value: Any) -> str:
    if name == OPTIONS:
        return f"options: found {value}, but {method} takes none: its settings are those of docs/settings.md. Leave it."
    if kinds := peek_method(method).members:
        own = ", ".join(f"{kind[name]}" for kind in kinds if name in kind)
        return (
            f"{name}: found {value!r}, but the members of {method} have values of their own ({own}). Leave it out, or "
            f"choose a single method, such as {kinds[-1]['method']}."
        )
    return (
        f"{name}: found {value!r}, but {method} is a model from elsewhere, which does not use this setting. Leave it "
        "out; what its factory takes is given as options (--option NAME=VALUE)."
    )


def check_names(values: Mapping[str, Any], where: str) -> None:
    """Refuse a name that is no setting's, naming the nearest."""
    known = ["preset", *(setting.name.rstrip("_") for setting in settings_of(Settings))]
    for name in values:
        choose(f"{where}: key", "lambda" if name == "lambda_" else name, known)
