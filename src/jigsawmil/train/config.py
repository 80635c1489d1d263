"""How a model is trained."""

import math
from dataclasses import dataclass, field

from ..config import JIGSAW, choose, one_of, require, setting
from .policies import POLICIES, Policy, find_policy

UNITS = ("epochs", "steps")
AUTO = "auto"
PRECISIONS = ("float32", "bfloat16", "float16", AUTO)


@dataclass(frozen=True, kw_only=True)
class LambdaConfig:
    """The weight of the jigsaw. a, b: of the paper's Gamma prior. every: the paper's n_lambda."""

    policy: str | float = setting(
        "em",
        f"Weight of the jigsaw: {one_of(['a number', *POLICIES])}.",
        name="lambda_",
        option=True,
        part=JIGSAW,
    )
    a: float = setting(1.0, "Shape a of the Gamma prior, for em and em-per-slide.", name="lambda_a", part=JIGSAW)
    b: float = setting(1.0, "Rate b of the Gamma prior, for em and em-per-slide.", name="lambda_b", part=JIGSAW)
    every: int = setting(
        1, "Epochs (or steps, see lambda_unit) between two updates of lambda.", name="lambda_every", part=JIGSAW
    )
    unit: str = setting("epochs", "What lambda_every counts: epochs or steps.", name="lambda_unit", part=JIGSAW)

    def __post_init__(self) -> None:
        self.rule()
        require("lambda a", self.a, 0 < self.a < math.inf, "a number above 0")
        require("lambda b", self.b, 0 <= self.b < math.inf, "a number of at least 0")
        whole = isinstance(self.every, int) and self.every >= 1
        require("lambda every", self.every, whole, "a whole number of at least 1")
        choose("lambda unit", self.unit, UNITS)

    def rule(self) -> Policy:
        return find_policy(self.policy)(self)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained."""

    lambda_: LambdaConfig = field(default_factory=LambdaConfig)
    epochs: int = setting(50, "Maximum number of epochs (passes over the training slides).", option=True)
    patience: int = setting(
        10,
        "Epochs without a better validation loss before training stops; 0: no validation, all epochs, the last "
        "weights are kept.",
        option=True,
    )
    validation: float = setting(0.2, "Share of the training patients held back for validation.")
    margin: float = setting(
        0.01,
        "Smallest decrease of the validation loss (nats) that counts as better; smaller gains on a dozen slides "
        "are noise.",
    )
    lr: float = setting(1e-4, "Learning rate.", option=True)
    weight_decay: float = setting(1e-5, "Weight decay.")
    batch_size: int = setting(1, "Slides (or patients) per step.", option=True)
    patch_dropout: float = setting(
        0.0, "Share of a slide's patches left out at each training step, with their edges; drawn again at each step."
    )
    clip: float = setting(5.0, "Gradients are clipped to this norm; 0: no clipping.")
    class_weights: bool = setting(False, "Weight classes by the inverse of their frequency.", option=True)
    device: str = setting("auto", "auto, cpu, cuda, cuda:1.", option=True)
    precision: str = setting(
        "float32",
        "float32; bfloat16 or float16 autocast if the device has it; auto: bfloat16 if the device computes in it "
        "natively, else float32.",
        option=True,
    )

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("patience", 0), ("batch_size", 1)):
            value = getattr(self, name)
            require(name, value, isinstance(value, int) and value >= least, f"a whole number of at least {least}")
        require("validation", self.validation, 0 < self.validation < 1, "a share between 0 and 1")
        require("margin", self.margin, self.margin >= 0, "a number of at least 0")
        require("lr", self.lr, self.lr > 0, "a number above 0")
        require("weight_decay", self.weight_decay, self.weight_decay >= 0, "a number of at least 0")
        require("patch_dropout", self.patch_dropout, 0 <= self.patch_dropout < 1, "a number in [0, 1)")
        require("clip", self.clip, self.clip >= 0, "a number of at least 0")
        choose("precision", self.precision, PRECISIONS)
