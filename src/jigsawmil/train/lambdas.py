"""Policies for lambda, the weight of the jigsaw: Loss = MIL + lambda * jigsaw.

`fixed`         a number.
`em`            the paper's rule: the posterior mean of a Gamma(a, b) prior under the pseudo-likelihood exp(-lambda L),
                lambda = a / (b + L), L averaged since the last update, updated every `every` epochs.
`em-per-slide`  the same, one lambda for each slide.
`balanced`      ours: lambda = mean MIL loss / mean jigsaw loss, so that both terms weigh the same; no constants.

What each rule implies, and what was measured, is in docs/paper.md and docs/results.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..config import choose, require

POLICIES = ("fixed", "em", "em-per-slide", "balanced")


@dataclass(frozen=True, kw_only=True)
class LambdaConfig:
    """policy: one of four. value: for `fixed`. a, b: of the Gamma prior. every: epochs between updates (n_lambda)."""

    policy: str = "em"
    value: float = 0.5
    a: float = 1.0
    b: float = 1.0
    every: int = 1

    def __post_init__(self) -> None:
        choose("lambda policy", self.policy, POLICIES)
        require("lambda value", self.value, 0 <= self.value < math.inf, "a number of at least 0")
        require("lambda a", self.a, 0 < self.a < math.inf, "a number above 0")
        require("lambda b", self.b, 0 <= self.b < math.inf, "a number of at least 0")
        require("lambda every", self.every, isinstance(self.every, int) and self.every >= 1, "at least 1 epoch")


def parse_lambda(text: str | float) -> LambdaConfig:
    """`0.5`, `em`, `em-per-slide` or `balanced`, as the command line and study files write it."""
    try:
        return LambdaConfig(policy="fixed", value=float(text))
    except ValueError:
        choose("lambda", text, ("a number", *POLICIES[1:]))
        return LambdaConfig(policy=str(text))


class Lambda:
    """Lambda of every slide, from the losses seen so far.

    Losses of the current period are summed; at its end they make the next lambda. Until the first period has ended,
    the losses of the very first step stand in: those of a model that knows nothing.
    """

    def __init__(self, config: LambdaConfig) -> None:
        self.config = config
        self._start: float | None = None
        self._lambda: dict[str, float] = {}
        self._sums: dict[str, list[float]] = {}  # slide (or "" for all) -> [mil, jigsaw, count]
        self._epochs = 0

    def __call__(self, slide_ids: Sequence[str], mil: Sequence[float], jigsaw: Sequence[float]) -> Tensor:
        """(slide,): the weights for a step, whose losses are noted; `mil` is that of each slide's bag."""
        if self._start is None:
            self._start = self._rule(sum(mil) / len(mil), sum(jigsaw) / len(jigsaw))
        weights = [self._lambda.get(self._key(slide), self._start) for slide in slide_ids]
        for slide, m, j in zip(slide_ids, mil, jigsaw, strict=True):
            sums = self._sums.setdefault(self._key(slide), [0.0, 0.0, 0.0])
            sums[0] += m
            sums[1] += j
            sums[2] += 1
        return torch.tensor(weights)

    @property
    def mean(self) -> float:
        values = list(self._lambda.values()) or [self._start or 0.0]
        return sum(values) / len(values)

    def end_epoch(self) -> None:
        self._epochs += 1
        if self._epochs % self.config.every == 0:
            self._lambda.update({key: self._rule(m / n, j / n) for key, (m, j, n) in self._sums.items()})
            self._sums = {}

    def state(self) -> dict[str, Any]:
        return {"start": self._start, "lambda": self._lambda, "sums": self._sums, "epochs": self._epochs}

    def load(self, state: dict[str, Any]) -> None:
        self._start, self._lambda = state["start"], state["lambda"]
        self._sums, self._epochs = state["sums"], state["epochs"]

    def _key(self, slide: str) -> str:
        return slide if self.config.policy == "em-per-slide" else ""

    def _rule(self, mil: float, jigsaw: float) -> float:
        if self.config.policy == "fixed":
            return self.config.value
        if self.config.policy == "balanced":
            return mil / max(jigsaw, 1e-6)
        return self.config.a / max(self.config.b + jigsaw, 1e-6)
