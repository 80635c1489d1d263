"""The model: an encoder, a pooling, a head and perhaps a jigsaw task, chosen by one of five rows."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..config import choose, from_mapping, require
from ..tasks import get_task
from .batch import Batch
from .convs import CONVS
from .encoder import MLP, GraphEncoder
from .jigsaw import JIGSAWS
from .pooling import AttentionPool, Enrichment, MeanPool


class Method(NamedTuple):
    graph: bool
    attention: bool
    jigsaw: bool


METHODS = {
    "abmil": Method(graph=False, attention=True, jigsaw=False),
    "abmil+jigsaw": Method(graph=False, attention=True, jigsaw=True),
    "graph-mil": Method(graph=True, attention=False, jigsaw=False),
    "graph-abmil": Method(graph=True, attention=True, jigsaw=False),
    "graph-abmil+jigsaw": Method(graph=True, attention=True, jigsaw=True),
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What a model is made of. The defaults are the paper's.

    task: one of `jigsawmil.tasks.TASKS`, over `classes` classes. conv: gat, gcn, gin or sage, for graph methods.
    heads: of the graph attention; they share `hidden`. attention_dim: rows of V in the pooling; gated: with a gate.
    jigsaw: position, consistency or equivariance, for `+jigsaw` methods. grid: bins a side. share: of the patches
    asked at each step.
    kinds: ours, for graph methods: this many kinds of patches, whose co-occurrence (`pooling.Enrichment`) the head sees
    beside the pooled state; 0: none, as in the paper.
    """

    method: str
    in_dim: int
    task: str = "binary"
    classes: int = 2
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

    def __post_init__(self) -> None:
        choose("method", self.method, METHODS)
        choose("conv", self.conv, CONVS)
        choose("jigsaw", self.jigsaw, JIGSAWS)
        for name in ("in_dim", "hidden", "layers", "heads", "attention_dim", "grid"):
            value = getattr(self, name)
            require(name, value, isinstance(value, int) and value >= 1, "a whole number of at least 1")
        require("heads", self.heads, self.hidden % self.heads == 0, f"a divisor of hidden = {self.hidden}")
        require("dropout", self.dropout, 0 <= self.dropout < 1, "a number in [0, 1)")
        require("share", self.share, 0 < self.share <= 1, "a number in (0, 1]")
        require("kinds", self.kinds, isinstance(self.kinds, int) and self.kinds >= 0, "a whole number of at least 0")
        get_task(self.task).check_classes(self.classes)


class Output(NamedTuple):
    logits: Tensor  # (bag, logit): what the head of the task makes
    attention: Tensor  # (patch,), sums to 1 within a bag
    hidden: Tensor  # (patch, hidden)
    jigsaw_logits: Tensor | None  # (patch, grid^2); None without a position task
    embedding: Tensor  # (bag, hidden), with kinds (bag, hidden + kinds^2)


class Model(nn.Module):
    """One of the five methods."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, method = config, METHODS[config.method]
        width, dropout = config.hidden, config.dropout
        self.encoder: MLP | GraphEncoder
        if method.graph:
            self.encoder = GraphEncoder(config.in_dim, width, config.layers, dropout, config.conv, config.heads)
        else:
            self.encoder = MLP(config.in_dim, width, config.layers, dropout)
        attention = AttentionPool(width, config.attention_dim, config.gated) if method.attention else None
        self.pooling = attention or MeanPool()
        kinds = config.kinds if method.graph else 0
        self.head = get_task(config.task).head(width + kinds**2, config.classes)
        self.jigsaw = JIGSAWS[config.jigsaw](width, config.grid, config.share) if method.jigsaw else None
        self.enrichment = Enrichment(config.in_dim, kinds) if kinds else None

    def forward(self, batch: Batch) -> Output:
        hidden = self.encoder(batch.features, batch)
        z, attention = self.pooling(hidden, batch.bags)
        if self.enrichment is not None:
            z = torch.cat([z, self.enrichment(batch.features, batch)], dim=1)
        jigsaw_logits = self.jigsaw.logits(hidden) if self.jigsaw is not None else None
        return Output(self.head(z), attention, hidden, jigsaw_logits, z)

    def jigsaw_loss(self, batch: Batch, output: Output, generator: torch.Generator) -> Tensor:
        """(slide,): zero for methods without a jigsaw."""
        if self.jigsaw is None:
            return output.hidden.new_zeros(len(batch.slides))
        hidden, logits = output.hidden, output.jigsaw_logits
        return self.jigsaw(lambda features: self.encoder(features, batch), batch, hidden, logits, generator)

    def probabilities(self, output: Output) -> Tensor:
        """(bag, class)"""
        return self.head.probabilities(output.logits)


def build_model(method: str, in_dim: int, *, seed: int = 0, **options: Any) -> Model:
    """A model of one of the five methods, its weights drawn from `seed`. Options are those of `ModelConfig`."""
    config = from_mapping(ModelConfig, {"method": method, "in_dim": in_dim, **options}, "build_model")
    with torch.random.fork_rng(devices=[]):  # nn.Module draws from the global generator: leave it as it was
        torch.manual_seed(seed)
        return Model(config)
