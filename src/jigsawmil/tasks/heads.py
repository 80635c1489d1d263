"""Heads f: a bag's vector to logits, and what they mean as probability and as loss."""

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Head(nn.Module, ABC):
    """Linear in z up to constants: the share of a patch in a logit is its share of z times `linear.weight`."""

    def __init__(self, width: int, logits: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, logits)

    def forward(self, z: Tensor) -> Tensor:
        """(bag, width) to (bag, logit)."""
        return self.linear(z)

    @abstractmethod
    def probabilities(self, logits: Tensor) -> Tensor:
        """(bag, class)."""

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(bag,). labels: the target values of the task."""


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
