"""Lambda, the weight of the jigsaw, as training goes: Loss = MIL + lambda * jigsaw. Its rules are in `policies`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .config import LambdaConfig


class Lambda:
    """Lambda of every slide, from the losses seen so far.

    Losses of the current period are summed; at its end they make the next lambda. Until the first period has ended,
    the losses of the very first step stand in: those of a model that knows nothing.
    """

    def __init__(self, config: LambdaConfig) -> None:
        self.config, self.policy = config, config.rule()
        self._start: float | None = None
        self._lambda: dict[str, float] = {}
        self._sums: dict[str, list[float]] = {}  # slide (or "" for all) -> [mil, jigsaw, count]
        self._ended = 0  # epochs or steps

    def __call__(self, slide_ids: Sequence[str], mil: Sequence[float], jigsaw: Sequence[float]) -> Tensor:
        """(slide,): the weights for a step, whose losses are noted; `mil` is that of each slide's bag."""
        if self._start is None:
            self._start = self.policy.rule(sum(mil) / len(mil), sum(jigsaw) / len(jigsaw))
        weights = [self._lambda.get(self._key(slide), self._start) for slide in slide_ids]
        for slide, m, j in zip(slide_ids, mil, jigsaw, strict=True):
            sums = self._sums.setdefault(self._key(slide), [0.0, 0.0, 0.0])
            sums[0] += m
            sums[1] += j
            sums[2] += 1
        self._end("steps")
        return torch.tensor(weights)

    @property
    def mean(self) -> float:
        values = list(self._lambda.values()) or [self._start or 0.0]
        return sum(values) / len(values)

    def end_epoch(self) -> None:
        self._end("epochs")

    def _end(self, unit: str) -> None:
        """One more step or epoch has ended; renew lambda if it is time."""
        if unit != self.config.unit:
            return
        self._ended += 1
        if self._ended % self.config.every == 0:
            self._lambda.update({key: self.policy.rule(m / n, j / n) for key, (m, j, n) in self._sums.items()})
            self._sums = {}

    def state(self) -> dict[str, Any]:
        return {"start": self._start, "lambda": self._lambda, "sums": self._sums, "epochs": self._ended}

    def load(self, state: dict[str, Any]) -> None:
        self._start, self._lambda = state["start"], state["lambda"]
        self._sums, self._ended = state["sums"], state["epochs"]

    def _key(self, slide: str) -> str:
        return slide if self.policy.per_slide else ""
