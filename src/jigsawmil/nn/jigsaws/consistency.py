"""Are the features of a patch its own, given its neighbours?"""

import dataclasses
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..batch import Batch, pieces
from ..options import ModelOptions
from ..parts import Encode, Jigsaw, permutation
from . import JIGSAWS


@JIGSAWS.register("consistency")
class Consistency(Jigsaw):
    """The paper's alternative task: the same encoder on permuted features over the fixed graph; a discriminator tells
    real from imposter (binary cross-entropy).

    imposters: which features of an imposter are permuted. `all`: the whole matrix, its own and its neighbours'.
    `centre`: its own; `neighbours`: theirs. In the last two, at every layer, a patch receives messages from neighbours
    of the one kind and keeps its own state of the other.
    """

    encodes_twice = True

    def __init__(self, hidden: int, imposters: str = "all", loss: str = "mean") -> None:
        super().__init__()
        self.head = nn.Linear(hidden, 1)
        self.imposters, self.parts = imposters, 2 if loss == "mean" else 1

    @classmethod
    def of(cls, options: ModelOptions) -> Self:
        return cls(options.hidden, options.imposters, options.imposter_loss)

    @classmethod
    def describe(cls, options: ModelOptions) -> str:
        whose = {"all": "", "centre": "own ", "neighbours": "neighbours' "}[options.imposters]
        return (
            f"a discriminator separates patches with their own features from those whose {whose}features were permuted"
        )

    def forward(
        self, encode: Encode, batch: Batch, hidden: Tensor, logits: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        real, fake = (self.head(h).squeeze(1) for h in (hidden, self._imposters(encode, batch, generator)))
        loss = (F.softplus(-real) + F.softplus(fake)) / self.parts  # BCE of 1 and 0
        return torch.stack([part.mean() for part in pieces(loss, batch.slides)])

    def _imposters(self, encode: Encode, batch: Batch, generator: torch.Generator) -> Tensor:
        own, permuted = batch.features, batch.features[permutation(batch, generator)]
        if self.imposters == "all":
            return encode(permuted, batch)
        around, centre = (own, permuted) if self.imposters == "centre" else (permuted, own)
        graph = batch.graph and batch.graph.with_second_copy
        both = dataclasses.replace(batch, features=torch.cat([around, centre]), graph=graph)
        return encode(both.features, both)[len(own) :]
