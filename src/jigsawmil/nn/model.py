"""The model: an encoder, a pooling, a head and perhaps a jigsaw task, chosen by a row of `METHODS`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..cohort.covariates import columns_of
from ..config import from_mapping, require
from ..errors import ConfigError, FeatureError
from ..tasks import get_task
from ..tasks.heads import Head
from .batch import Batch
from .covariates import CovariateCode
from .encoder import MLP, GraphEncoder
from .jigsaws import JIGSAWS
from .kinds import Enrichment
from .options import COVARIATES, METHODS, ModelOptions, check_method, peek_method
from .parts import Jigsaw
from .poolings import POOLINGS


@dataclass(frozen=True, kw_only=True)
class _Purpose:
    method: str
    in_dim: int
    task: str = "binary"
    classes: int = 2
    covariate_columns: str = ""  # what `covariates` are, see `cohort/covariates.py`


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ModelOptions, _Purpose):
    """A method for features of `in_dim` columns and a task (one of `jigsawmil.tasks.TASKS`) over `classes`
    classes, with the options of its parts.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_method(self.method)
        if members := peek_method(self.method).members:
            raise ConfigError(
                f"{self.method} consists of several models. Train it, or build one of its kinds: {members}."
            )
        require("in_dim", self.in_dim, isinstance(self.in_dim, int) and self.in_dim > 0, "a whole number of at least 1")
        if self.uses_covariates and not self.covariate_columns:
            raise ConfigError(f"{self.method}: no covariate_columns; expected those of the covariates that it uses.")
        get_task(self.task).check_classes(self.classes)
        get_task(self.task).check_loss(self.loss)

    @property
    def uses_covariates(self) -> bool:
        return self.covariates or self.method == COVARIATES


class Output(NamedTuple):
    """The output of a model for a batch; a bag is a slide, or all slides of a patient."""

    logits: Tensor  # (bag, logit): what the head of the task makes
    attention: Tensor  # (patch,), sums to 1 within a bag
    hidden: Tensor  # (patch, hidden)
    jigsaw_logits: Tensor | None  # (patch, grid^2); None without a position task
    embedding: Tensor  # (bag, hidden), and beside it kinds^2 columns with kinds, and those of covariates


class Model(nn.Module, ABC):
    """The interface of models that training, prediction and maps use: `PartsModel`, or an outside model
    (`nn/foreign.py`)."""

    config: ModelConfig
    head: Head  # its loss and probabilities
    jigsaw: Jigsaw | None
    covariates: CovariateCode | None  # the last columns of the head's weight are theirs
    own_loss: bool = False  # it is trained with a loss that is not the task's

    @abstractmethod
    def forward(self, batch: Batch) -> Output: ...

    def losses(self, batch: Batch, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """MIL (bag,) and jigsaw (slide,). labels: (bag,)"""
        output = self(batch)
        return self.head.loss(output.logits, labels), self.jigsaw_loss(batch, output, generator)

    def jigsaw_loss(self, batch: Batch, output: Output, generator: torch.Generator) -> Tensor:
        """(slide,): zero for methods without a jigsaw."""
        return output.logits.new_zeros(len(batch.slides))

    def probabilities(self, output: Output) -> Tensor:
        """(bag, class)"""
        return self.head.probabilities(output.logits)

    def contributions(self, batch: Batch, output: Output) -> tuple[Tensor | None, Tensor]:
        """What each patch adds to the logits, (patch, logit), and what no patch has a share in, (bag, logit): together
        the logits, exactly. None and all of the logits if the model cannot state shares."""
        return None, output.logits

    def edge_attention(self, batch: Batch) -> list[Tensor] | None:
        """What each patch attends to, one (head, edge) tensor per layer; None of models that do not attend."""
        return None


class PartsModel(Model):
    """A method of ours: encoder, pooling, head and perhaps a jigsaw task."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, method = config, METHODS[config.method]
        encoder = GraphEncoder if method.graph else MLP
        self.encoder: MLP | GraphEncoder = encoder(config.in_dim, config)
        self.pooling = POOLINGS[method.pooling_with(config)].of(config)
        kinds = config.kinds if method.graph else 0
        self.covariates = CovariateCode(columns_of(config.covariate_columns)) if config.covariates else None
        width = config.hidden + kinds**2 + (self.covariates.width if self.covariates else 0)
        self.head = get_task(config.task).head_for(width, config.classes, config.loss)
        self.jigsaw = JIGSAWS[config.jigsaw].of(config) if method.jigsaw else None
        self.enrichment = Enrichment(config.in_dim, kinds) if kinds else None

    def forward(self, batch: Batch) -> Output:
        if batch.features.shape[1] != self.config.in_dim:
            raise FeatureError(
                f"features have {batch.features.shape[1]} columns, the model was built for {self.config.in_dim}. "
                "Build it with the dimension of the bags, `build_model(method, in_dim=bag.dim)`."
            )
        hidden = self.encoder(batch.features, batch)
        z, attention = self.pooling(hidden, batch.bags)
        if self.enrichment is not None:
            z = torch.cat([z, self.enrichment(batch.features, batch)], dim=1)
        if self.covariates is not None:
            z = torch.cat([z, self.covariates(batch)], dim=1)
        jigsaw_logits = self.jigsaw.logits(hidden) if self.jigsaw is not None else None
        return Output(self.head(z), attention, hidden, jigsaw_logits, z)

    def jigsaw_loss(self, batch: Batch, output: Output, generator: torch.Generator) -> Tensor:
        if self.jigsaw is None:
            return super().jigsaw_loss(batch, output, generator)
        hidden, logits = output.hidden, output.jigsaw_logits
        return self.jigsaw(self.encoder, batch, hidden, logits, generator)

    def contributions(self, batch: Batch, output: Output) -> tuple[Tensor | None, Tensor]:
        rest = output.embedding.float().clone()
        weight = self.head.weight[:, : self.config.hidden]
        share = self.pooling.contributions(output.hidden, output.attention, weight)
        if share is not None:
            rest[:, : self.config.hidden] = 0  # what no patch has a share in: covariates; with `kinds`, who lies where
            share = share.expand(-1, output.logits.shape[1])  # ordinal: one direction, a column per threshold
        return share, self.head(rest)  # a head is linear

    def edge_attention(self, batch: Batch) -> list[Tensor] | None:
        encoder = self.encoder
        attends = batch.graph is not None and isinstance(encoder, GraphEncoder) and encoder.attends
        return encoder.edge_attention(batch) if attends and isinstance(encoder, GraphEncoder) else None


def build_model(method: str, in_dim: int, *, seed: int = 0, **options: Any) -> Model:
    """A model of one of the methods, its weights drawn from `seed`. Options are those of `ModelConfig`.

    Example: `build_model("graph-abmil+jigsaw", in_dim=1024, conv="sage")(Batch.of([bag])).logits`
    """
    known = {field.name for field in fields(ModelOptions)}
    own = {name: value for name, value in peek_method(method).settings.items() if name in known}
    config = from_mapping(ModelConfig, {"method": method, "in_dim": in_dim, **own, **options}, "build_model")
    return seeded_model(config, seed)


def seeded_model(config: ModelConfig, seed: int) -> Model:
    """A model whose weights are drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):  # nn.Module draws from the global generator: leave it as it was
        torch.manual_seed(seed)
        return make_model(config)


def make_model(config: ModelConfig) -> Model:
    """A model of our parts, a regression, or what the factory of its method makes."""
    method = METHODS[config.method]
    if method.regression:
        from .regression import PooledRegression

        return PooledRegression(config)
    if method.foreign:
        from .foreign import ForeignModel  # which knows this file

        return ForeignModel(config)
    return PartsModel(config)
