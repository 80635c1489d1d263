"""Everything a person may set about a method, flat: what a study file, the command line and Python share."""

import dataclasses
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..config import choose, require
from ..graph import GraphConfig
from ..nn.model import METHODS, ModelConfig
from .config import TrainConfig
from .lambdas import parse_lambda

KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    str | float: "text or a number",
}


def check_type(name: str, value: Any, kind: Any) -> None:
    """Refuse a value of another kind, as study files may hold it; a whole number is a number too."""
    whole = isinstance(value, int) and isinstance(1.0, kind)
    fits = kind is bool if isinstance(value, bool) else whole or isinstance(value, kind)
    require(name, value, fits, KINDS[kind])


def check_types(config: Any) -> None:
    """The same for every field of a config that holds one plain value."""
    for field in fields(config):
        if field.type in KINDS:
            check_type(field.name.rstrip("_"), getattr(config, field.name), field.type)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One method with its options; see `ModelConfig`, `GraphConfig`, `TrainConfig` and `LambdaConfig` for each.

    lambda_: a number, `em`, `em-per-slide` or `balanced`; lambda_a, lambda_b, lambda_every for the EM rule.
    graph: knn or radius. level: what is pooled into one prediction, a slide or all slides of a patient.
    """

    method: str = "graph-abmil+jigsaw"
    level: str = "slide"
    graph: str = "knn"
    k: int = 50
    radius: float = 500.0
    sigma: str | float = "max-knn"
    conv: str = "gat"
    hidden: int = 256
    layers: int = 2
    heads: int = 1
    attention_dim: int = 128
    gated: bool = False
    dropout: float = 0.0
    jigsaw: str = "position"
    grid: int = 10
    share: float = 0.9
    kinds: int = 0
    lambda_: str | float = "em"
    lambda_a: float = 1.0
    lambda_b: float = 1.0
    lambda_every: int = 1
    epochs: int = 50
    patience: int = 10
    validation: float = 0.2
    margin: float = 0.01
    lr: float = 1e-4
    weight_decay: float = 1e-5
    batch_size: int = 1
    clip: float = 5.0
    class_weights: bool = False
    device: str = "auto"
    precision: str = "float32"

    def __post_init__(self) -> None:
        check_types(self)
        choose("level", self.level, ("slide", "patient"))
        self.model_config(in_dim=1, task="binary", classes=2)  # refuse what is impossible before anything runs
        self.graph_config()
        self.train_config()

    def model_config(self, in_dim: int, task: str, classes: int) -> ModelConfig:
        return ModelConfig(in_dim=in_dim, task=task, classes=classes, **self._shared(ModelConfig))

    def graph_config(self) -> GraphConfig:
        return GraphConfig(kind=self.graph, k=self.k, radius=self.radius, sigma=self.sigma)

    def train_config(self) -> TrainConfig:
        lambda_ = dataclasses.replace(
            parse_lambda(self.lambda_), a=self.lambda_a, b=self.lambda_b, every=self.lambda_every
        )
        return TrainConfig(**{**self._shared(TrainConfig), "lambda_": lambda_})

    @property
    def needs_graph(self) -> bool:
        return METHODS[self.method].graph

    def _shared(self, config: type) -> dict[str, Any]:
        """Own values of the fields that another config has too."""
        names = {field.name for field in fields(config)}
        return {name: value for name, value in asdict(self).items() if name in names}
