"""Regression on pooled features: the baseline without a network."""

import torch
from torch import Tensor

from ..cohort.covariates import columns_of
from ..tasks import get_task
from .batch import Batch, pieces
from .covariates import CovariateCode
from .model import Model, ModelConfig, Output
from .options import COVARIATES, METHODS


class PooledRegression(Model):
    """logits = f((z - centre) / scale), f the linear head of the task; z is the mean of a bag's features, or the
    largest value of each column, with the clinical covariates beside it, or these alone. `train/regression.py` fits
    it."""

    centre: Tensor
    scale: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, self.jigsaw = config, None
        self.largest = METHODS[config.method].pooling == "max"
        self.columns = 0 if config.method == COVARIATES else config.in_dim  # of z that are features
        uses = config.uses_covariates
        self.covariates = CovariateCode(columns_of(config.covariate_columns)) if uses else None
        width = self.columns + (self.covariates.width if self.covariates else 0)
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.head = get_task(config.task).head_for(width, config.classes, config.loss)

    def forward(self, batch: Batch) -> Output:
        z = (self.pool(batch) - self.centre) / self.scale
        attention = torch.cat([self._counts(part) for part in pieces(batch.features, batch.bags)])
        return Output(self.head(z), attention, z.new_zeros(len(batch.features), 0), None, z)

    def pool(self, batch: Batch) -> Tensor:
        """(bag, column)"""
        parts = pieces(batch.features[:, : self.columns].float(), batch.bags)
        z = torch.stack([part.amax(dim=0) if self.largest else part.mean(dim=0) for part in parts])
        return z if self.covariates is None else torch.cat([z, self.covariates(batch).to(z.device)], dim=1)

    def _counts(self, features: Tensor) -> Tensor:
        """How much of a bag's vector comes from each patch: the share of the columns whose largest value it has."""
        patches, columns = features.shape
        if not self.largest:
            return features.new_full((patches,), 1 / patches, dtype=torch.float32)
        return torch.bincount(features.argmax(dim=0), minlength=patches) / columns

    def contributions(self, batch: Batch, output: Output) -> tuple[Tensor | None, Tensor]:
        if not self.columns:
            return super().contributions(batch, output)
        weight = self.head.weight[:, : self.columns]  # (row, column)
        share = torch.cat([self._shares(part, weight) for part in pieces(batch.features.float(), batch.bags)])
        rest = output.embedding.float().clone()
        rest[:, : self.columns] = 0  # of a bag at the centre, with its covariates
        return share.expand(-1, output.logits.shape[1]), self.head(rest)

    def _shares(self, features: Tensor, weight: Tensor) -> Tensor:
        """(patch, row of the head)"""
        centre, scale = self.centre[: self.columns], self.scale[: self.columns]
        if not self.largest:
            return (features - centre) / scale @ weight.T / len(features)
        value, patch = features.max(dim=0)
        each = ((value - centre) / scale * weight).T  # (column, row)
        return torch.zeros(len(features), len(weight), device=each.device).index_add(0, patch, each)
