"""Regression on pooled features: the baseline without a network."""

import torch
from torch import Tensor

from ..tasks import get_task
from .batch import Batch, pieces
from .model import Model, ModelConfig, Output
from .options import METHODS


class PooledRegression(Model):
    """logits = f((z - centre) / scale), f the linear head of the task; z is the mean of a bag's features, or the
    largest value of each column. `train/regression.py` fits it."""

    centre: Tensor
    scale: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, self.jigsaw = config, None
        self.largest = METHODS[config.method].pooling == "max"
        self.register_buffer("centre", torch.zeros(config.in_dim))
        self.register_buffer("scale", torch.ones(config.in_dim))
        self.head = get_task(config.task).head_for(config.in_dim, config.classes, config.loss)

    def forward(self, batch: Batch) -> Output:
        z = (self.pool(batch) - self.centre) / self.scale
        attention = torch.cat([self._counts(part) for part in pieces(batch.features, batch.bags)])
        return Output(self.head(z), attention, z.new_zeros(len(batch.features), 0), None, z)

    def pool(self, batch: Batch) -> Tensor:
        """(bag, column)"""
        parts = pieces(batch.features.float(), batch.bags)
        return torch.stack([part.amax(dim=0) if self.largest else part.mean(dim=0) for part in parts])

    def _counts(self, features: Tensor) -> Tensor:
        """How much of a bag's vector comes from each patch: the share of the columns whose largest value it has."""
        patches, columns = features.shape
        if not self.largest:
            return features.new_full((patches,), 1 / patches, dtype=torch.float32)
        return torch.bincount(features.argmax(dim=0), minlength=patches) / columns

    def contributions(self, batch: Batch, output: Output) -> tuple[Tensor | None, Tensor]:
        weight = self.head.weight  # (row, column)
        share = torch.cat([self._shares(part, weight) for part in pieces(batch.features.float(), batch.bags)])
        rest = self.head(torch.zeros_like(output.embedding.float()))  # of a bag at the centre
        return share.expand(-1, output.logits.shape[1]), rest

    def _shares(self, features: Tensor, weight: Tensor) -> Tensor:
        """(patch, row of the head)"""
        if not self.largest:
            return (features - self.centre) / self.scale @ weight.T / len(features)
        value, patch = features.max(dim=0)
        each = ((value - self.centre) / self.scale * weight).T  # (column, row)
        return torch.zeros(len(features), len(weight), device=each.device).index_add(0, patch, each)
