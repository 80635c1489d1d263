"""A model from elsewhere, behind the interface that training, prediction and maps use.

What a factory returns is an `nn.Module` with

- `forward(batch)`: logits (bag, logit); or logits and attention (patch,), weights of at least 0; or an `Output`.
- `loss(batch, labels)`, if it has a loss of its own: (bag,), used in training in place of the task's, whatever the
  setting `loss` says.
- `contributions(batch)`, if it can state them: what each patch adds to the logits, (patch, logit).
"""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from ..tasks import get_task
from .batch import Batch, pieces
from .factories import options_of
from .model import Model, ModelConfig, Output
from .options import METHODS


class ForeignModel(Model):
    """The module of a factory. The task gives loss and probabilities of its logits."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        factory, options = METHODS[config.method].factory, options_of(config.options)
        if factory is None:
            raise ConfigError(f"method {config.method!r} is not known in this process. Add it with register_method.")
        factory.check(options)
        self.config, self.jigsaw, self.covariates = config, None, None
        head = get_task(config.task).head_for(1, config.classes, config.loss)
        object.__setattr__(self, "head", head)  # for what it computes: its weights are not the model's
        self.memory = head.memory  # but what it knows of the targets is
        with torch.no_grad():
            self.logits = head(torch.zeros(1, 1)).shape[1]
        module = factory.make(in_dim=config.in_dim, logits=self.logits, **factory.asked(config.task), **options)
        if not isinstance(module, nn.Module):
            raise ConfigError(f"{factory.path}: returned {type(module).__name__}, expected a torch.nn.Module.")
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise ConfigError(f"{factory.path}: the model has no weights to train; expected some parameters.")
        if odd := [name for name, value in module.state_dict().items() if not isinstance(value, Tensor)]:
            raise ConfigError(
                f"{factory.path}: {', '.join(odd)} of its state are not tensors; model files hold tensors only."
            )
        self.module: Any = module
        self.own_loss = hasattr(module, "loss")

    def forward(self, batch: Batch) -> Output:
        found = self.module(batch)
        if isinstance(found, Output):
            self._check("logits", found.logits, (len(batch), self.logits))
            logits = self.head.in_units(found.logits)
            return found._replace(logits=logits, attention=self._weights(found.attention, batch))
        logits, attention = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        if isinstance(logits, Tensor) and logits.shape == (len(batch),) and self.logits == 1:
            logits = logits[:, None]
        self._check("logits", logits, (len(batch), self.logits))
        hidden, embedding = (logits.new_zeros(rows, 0) for rows in (len(batch.features), len(batch)))
        return Output(self.head.in_units(logits), self._weights(attention, batch), hidden, None, embedding)

    def losses(self, batch: Batch, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        if not self.own_loss:
            return super().losses(batch, labels, generator)
        loss = self.module.loss(batch, labels)
        self._check("loss", loss, (len(batch),))
        return loss, loss.new_zeros(len(batch.slides))

    def contributions(self, batch: Batch, output: Output) -> tuple[Tensor | None, Tensor]:
        if not hasattr(self.module, "contributions"):
            return super().contributions(batch, output)
        share = self.module.contributions(batch).double() * self.head.unit
        self._check("contributions", share, (len(batch.features), self.logits))
        sums = torch.stack([part.sum(dim=0) for part in pieces(share, batch.bags)])
        return share, output.logits - sums

    def _weights(self, attention: Tensor | None, batch: Batch) -> Tensor:
        """Scaled to sum to 1 within a bag; the same for all patches of a bag if the model gives none."""
        if attention is None:
            attention = torch.ones(len(batch.features), device=batch.features.device)
        else:
            attention = attention.detach().float()
            self._check("attention", attention, (len(batch.features),))
            if not self.training and bool((attention < 0).any()):
                raise ConfigError(
                    f"{self.config.method}: forward returned attention below 0; expected weights, such as those after "
                    "a softmax over the patches of a bag."
                )
        sizes = [end - start for start, end in pairwise(batch.bag_ptr)]
        return torch.cat([part / part.sum().clamp_min(1e-30) for part in attention.split(sizes)])

    def _check(self, name: str, value: Any, shape: tuple[int, ...]) -> None:
        found = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        if found != shape:
            raise ConfigError(
                f"{self.config.method}: found {name} of shape {found}, expected {shape}: (bag, logit) for logits, "
                "(patch,) for attention, (patch, logit) for contributions, (bag,) for a loss."
            )
