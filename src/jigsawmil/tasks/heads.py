"""Heads f: a bag's vector to logits, and what they mean as probability and as loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Head(nn.Module, ABC):
    """Linear in z up to constants: the share of a patch in a logit is its share of z times `weight`."""

    recalls: ClassVar[bool] = False  # whether `recall` is to be called before each epoch

    def __init__(self, width: int, logits: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, logits)
        self.memory = nn.Module()  # its buffers: what is known of the targets of training, see `learn_targets`

    def forward(self, z: Tensor) -> Tensor:
        """(bag, width) to (bag, logit)."""
        return self.linear(z)

    @property
    def weight(self) -> Tensor:
        """(logit, width)"""
        return self.linear.weight * self.unit

    @property
    def unit(self) -> Tensor | float:
        """What one unit of the linear map is in the logits."""
        return 1.0

    def in_units(self, raw: Tensor) -> Tensor:
        """(bag, logit) of a linear map, or of a model from elsewhere, as logits."""
        return raw

    def learn_targets(self, labels: Tensor, classes: Sequence[str]) -> None:
        """Before training: what the head has to know of the targets of the training fold. classes: of the cohort."""

    def recall(self, logits: Tensor, labels: Tensor) -> None:
        """Before each epoch, if `recalls`: the logits of all training bags in evaluation mode."""

    def weigh_classes(self, labels: Tensor, classes: int) -> Tensor | None:
        """Weights of the classes by which the losses of bags are multiplied: inverse frequency, 1 on average over the
        training bags. None: the head weighs within its loss from now on. labels: of the training bags."""
        counts = torch.bincount(labels, minlength=classes).clamp(min=1)
        return len(labels) / (classes * counts)

    @abstractmethod
    def probabilities(self, logits: Tensor) -> Tensor:
        """(bag, output)."""

    def scores(self, logits: Tensor) -> Tensor:
        """(bag, score): what the members of an ensemble average, and `Task.probabilities` reads."""
        return logits

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(bag,). labels: the target values of the task."""

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(bag,): the loss by which bags are judged that were held out."""
        return self.loss(logits, labels)


class BinaryHead(Head):
    """Logistic regression: one logit, the log-odds of class 1."""

    def probabilities(self, logits: Tensor) -> Tensor:
        p = logits.sigmoid()
        return torch.cat([1 - p, p], dim=1)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits[:, 0], labels.to(logits.dtype), reduction="none")


class MulticlassHead(Head):
    """Softmax regression: one logit per class."""

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.softmax(dim=1)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="none")


class OrdinalHead(Head):
    """Proportional odds: logit_c = log-odds of a grade above c, one direction with falling thresholds."""

    def __init__(self, width: int, logits: int) -> None:
        super().__init__(width, 1)
        self.steps = nn.Parameter(torch.zeros(logits - 1))  # softplus of it: the gaps between thresholds

    def forward(self, z: Tensor) -> Tensor:
        drop = F.softplus(self.steps).cumsum(0)
        return self.linear(z) - torch.cat([drop.new_zeros(1), drop])

    def probabilities(self, logits: Tensor) -> Tensor:
        above = logits.sigmoid()  # falling in c, so the differences are never negative
        one, zero = torch.ones_like(above[:, :1]), torch.zeros_like(above[:, :1])
        return torch.cat([one, above], dim=1) - torch.cat([above, zero], dim=1)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum of the binary losses "above c?": the log-likelihood of the cumulative answers."""
        above = labels[:, None] > torch.arange(logits.shape[1], device=logits.device)
        return F.binary_cross_entropy_with_logits(logits, above.to(logits.dtype), reduction="none").sum(dim=1)


class MultilabelHead(Head):
    """A softmax over the classes of each target. labels: (bag, target), -1 where a target is not known.

    loss: the mean over all targets of their cross-entropy, 0 for those that are not known: every label that is known
    counts the same, and a slide with one of two labels half as much as one with both.
    """

    def __init__(self, width: int, sizes: Sequence[int]) -> None:
        super().__init__(width, sum(sizes))
        self.sizes = list(sizes)
        self._weights: list[Tensor] | None = None  # of the classes of each target

    def weigh_classes(self, labels: Tensor, classes: int) -> None:
        """Each target by itself, among the bags of which it is known."""
        columns = [own[own >= 0] for own in labels.T]
        weigh = super().weigh_classes
        self._weights = [weigh(own, size) for own, size in zip(columns, self.sizes, strict=True)]  # type: ignore[misc]

    def probabilities(self, logits: Tensor) -> Tensor:
        return torch.cat([own.softmax(dim=1) for own in logits.split(self.sizes, dim=1)], dim=1)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        each = self._each(logits, labels)
        if self._weights is not None:
            pairs = zip(self._weights, labels.T, each, strict=True)
            each = [loss * weights.to(loss)[label.clamp_min(0)] for weights, label, loss in pairs]
        return torch.stack(each).mean(dim=0)

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        return torch.stack(self._each(logits, labels)).mean(dim=0)

    def _each(self, logits: Tensor, labels: Tensor) -> list[Tensor]:
        """(bag,) of each target."""
        parts = zip(logits.split(self.sizes, dim=1), labels.T, strict=True)
        return [F.cross_entropy(own, label, reduction="none", ignore_index=-1) for own, label in parts]
