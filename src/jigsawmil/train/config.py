"""How a model is fitted."""

from dataclasses import dataclass, field

from ..config import choose, require
from .lambdas import LambdaConfig

PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is fitted. lr and weight_decay are the paper's; it is silent on the rest.

    epochs: the most passes over the training bags. patience: epochs without a better validation loss before stopping;
    0 = no validation, all epochs, the last weights. validation: share of the training patients held back for that.
    margin: by how much (nats) a loss must fall to be better: a dozen slides cannot tell smaller gains from luck.
    batch_size: bags a step. clip: largest norm of the gradient. class_weights: weigh classes by their rarity.
    device: auto, cpu, cuda, cuda:1. precision: float32, or bfloat16 / float16 autocast where the device has it.
    """

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
    lambda_: LambdaConfig = field(default_factory=LambdaConfig)

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("patience", 0), ("batch_size", 1)):
            value = getattr(self, name)
            require(name, value, isinstance(value, int) and value >= least, f"a whole number of at least {least}")
        require("validation", self.validation, 0 < self.validation < 1, "a share between 0 and 1")
        require("margin", self.margin, self.margin >= 0, "a number of at least 0")
        require("lr", self.lr, self.lr > 0, "a number above 0")
        require("weight_decay", self.weight_decay, self.weight_decay >= 0, "a number of at least 0")
        require("clip", self.clip, self.clip > 0, "a number above 0")
        choose("precision", self.precision, PRECISIONS)
