"""Everything a person may set about a method: what a study file, the command line and Python share."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..config import check_type, choose, flatten, one_of, require, setting, settings_of, unflatten
from ..errors import ConfigError
from ..graph_config import GraphConfig
from ..nn.options import DEFAULT_METHOD, METHODS, ModelOptions, check_method
from .config import TrainConfig
from .presets import DEFAULT_PRESET, PRESETS, preset_values

if TYPE_CHECKING:
    from ..nn.model import ModelConfig

LEVELS = ("slide", "patient")


@dataclass(frozen=True, kw_only=True, init=False)
class Settings:
    """One method with its options, made from flat names: `Settings(method="abmil", epochs=20)`.

    The options stand in the configs of the parts: `settings.model.hidden`, `settings.graph.k`, `settings.train.lr`,
    `settings.train.lambda_.a`. `flat()` gives all of them in one table; docs/settings.md lists them.
    """

    method: str = setting(DEFAULT_METHOD, f"The method (encoder, pooling, jigsaw): {one_of(METHODS)}.")
    level: str = setting(LEVELS[0], "What is pooled into one prediction: a slide or a patient.", option=True)
    members: int = setting(
        1,
        "Models of an ensemble (of each kind in a committee): each has its own seed and holds out its own part of the "
        "training patients to stop by, and their logits are averaged; 1: a single model.",
        option=True,
    )
    graph: GraphConfig
    model: ModelOptions
    train: TrainConfig

    def __init__(self, **flat: Any) -> None:
        settings = {setting.name: setting for setting in settings_of(Settings)}
        for name, value in flat.items():
            choose("settings: key", name, settings)
            check_type(name.rstrip("_"), value, settings[name].kind)
        values = {name: flat.get(name, settings[name].default) for name in ("method", "level", "members")}
        check_method(values["method"])
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
        flat = preset_values(flat.pop("preset", DEFAULT_PRESET), f"{where}: preset") | flat
        if isinstance(flat.get("lambda_"), str):
            with suppress(ValueError):  # the command line's "0.5" is a study file's 0.5
                flat["lambda_"] = float(flat["lambda_"])
        try:
            return cls(**flat)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error

    @classmethod
    def preset(cls, name: str, **flat: Any) -> "Settings":
        """The settings of a preset, but for these.

        Example: `Settings.preset("paper", k=8)`
        """
        return cls(**(preset_values(name) | flat))

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
        kinds = METHODS[self.method].members or ({},)
        each = [self.replace(members=1, **kind) for kind in kinds]
        return tuple(own for own in each for _ in range(self.members))

    def model_config(self, in_dim: int, task: str, classes: int) -> "ModelConfig":
        from ..nn.model import ModelConfig  # imports torch, which settings do not need

        return ModelConfig(method=self.method, in_dim=in_dim, task=task, classes=classes, **asdict(self.model))

    @property
    def needs_graph(self) -> bool:
        return METHODS[self.method].graph


def check_names(values: Mapping[str, Any], where: str) -> None:
    """Refuse a name that is no setting's, naming the nearest."""
    known = ["preset", *(setting.name.rstrip("_") for setting in settings_of(Settings))]
    for name in values:
        choose(f"{where}: key", "lambda" if name == "lambda_" else name, known)
