"""Clinical covariates on their way into a head: imputed and standardised."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..cohort.covariates import Covariate, cells_of, coded
from .batch import Batch


class CovariateCode(nn.Module):
    """Covariates of bags as the head sees them, (bag, width): numbers, and categories as one column each, all
    standardised by the training fold. What is not known is 0, the mean of training; so is the whole covariate of a
    category that training did not have, and a number that was constant there.
    """

    def __init__(self, columns: Sequence[Covariate]) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self.sizes = [max(1, len(column.levels)) for column in columns]
        self.width = sum(self.sizes)
        self.register_buffer("mean", torch.zeros(self.width, dtype=torch.float64))
        self.register_buffer("sd", torch.ones(self.width, dtype=torch.float64))
        self.register_buffer("seen", torch.ones(self.width, dtype=torch.bool))

    def values(self, batch: Batch) -> Tensor:
        """(bag, column): a number, or the index of a category; nan for what is not known. A bag of several slides has
        those of its first."""
        rows = []
        for start, _ in batch.bags:
            slide = batch.slide_ptr.index(start)
            known = batch.covariates[slide] if batch.covariates else None
            rows.append(coded(self.columns, cells_of(self.columns, known, batch.slide_ids[slide])))
        return torch.tensor(rows, dtype=torch.float64)

    def learn(self, values: Tensor) -> None:
        """From the training bags alone."""
        wide = self._wide(values)
        known = ~wide.isnan()
        count = known.sum(0).clamp(min=1)
        mean = wide.nan_to_num(0).sum(0) / count
        variance = ((wide - mean).nan_to_num(0) ** 2).sum(0) / count
        self.get_buffer("mean").copy_(mean)
        self.get_buffer("sd").copy_(torch.where(variance > 1e-18, variance, 1.0).sqrt())
        self.get_buffer("seen").copy_(variance > 1e-18)

    def forward(self, batch: Batch) -> Tensor:
        return self.encode(self.values(batch))

    def encode(self, values: Tensor) -> Tensor:
        """values: (bag, column)"""
        mean, sd, seen = (self.get_buffer(name) for name in ("mean", "sd", "seen"))
        wide = self._wide(values.to(mean.device))
        known, start = ~wide.isnan() & seen, 0
        for column, size in zip(self.columns, self.sizes, strict=True):
            own = slice(start, start + size)
            if column.levels:  # a category that training did not have says nothing about the others either
                new = ((wide[:, own] == 1) & ~seen[own]).any(1)
                known[:, own] &= ~new[:, None]
            start = own.stop
        return torch.where(known, (wide - mean) / sd, 0.0).float()

    def terms(self, batch: Batch, weight: Tensor) -> Tensor:
        """(bag, column, logit): what each covariate adds to the logits. weight: (logit, z) of the head"""
        added = self(batch)[:, :, None] * weight[:, -self.width :].T  # (bag, width, logit)
        return torch.stack([part.sum(1) for part in added.split(self.sizes, dim=1)], dim=1)

    def _wide(self, values: Tensor) -> Tensor:
        """(bag, width): numbers as they are, categories as 0 and 1; nan for what is not known."""
        parts = []
        for value, column in zip(values.double().T, self.columns, strict=True):
            if not column.levels:
                parts.append(value[:, None])
                continue
            one = (value[:, None] == torch.arange(len(column.levels), device=value.device)).double()
            parts.append(torch.where(value.isnan()[:, None], torch.nan, one))
        return torch.cat(parts, dim=1)
