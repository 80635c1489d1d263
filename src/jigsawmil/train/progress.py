"""Where a training stands."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from .config import TrainConfig


@dataclass(frozen=True)
class Epoch:
    """What one pass did. lambda_ is the mean over slides; val_* are nan without validation."""

    epoch: int
    mil: float
    jigsaw: float
    lambda_: float
    val_loss: float
    val_auc: float
    seconds: float


@dataclass
class Progress:
    """The epochs so far. best: the one whose weights are in `kept`; 0 before there is one."""

    epochs: list[Epoch] = field(default_factory=list)
    best: int = 0
    kept: "dict[str, Tensor]" = field(default_factory=dict)

    @property
    def best_loss(self) -> float:
        return self.epochs[self.best - 1].val_loss if self.best else math.inf

    def stop(self, config: "TrainConfig") -> bool:
        done = len(self.epochs)
        return done >= config.epochs or (bool(config.patience) and done - self.best >= config.patience)


def kept_words(trained: Sequence[Progress]) -> str:
    """Which epochs were kept, in a line however many models there are."""
    best = [own.best for own in trained]
    if len(best) == 1:
        return f"Kept epoch {best[0]} of {len(trained[0].epochs)}. The model is"
    low, high = min(best), max(best)
    kept = f"epoch {low}" if low == high else f"an epoch of {low} to {high}"
    return f"Kept {kept} of each model. The ensemble of {len(best)} models is"
