"""A model while it is fitted: one step, and the state from which it can be resumed."""

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import NamedTuple

import torch
from torch import Tensor

from ..cohort.labels import listed
from ..errors import ConfigError
from ..nn.batch import Batch
from ..nn.model import Model
from .config import LambdaConfig, TrainConfig
from .devices import autocast, pick_device
from .lambdas import Lambda
from .progress import Epoch, Progress
from .state import State


class Losses(NamedTuple):
    """Of one step."""

    mil: list[float]  # per bag
    jigsaw: list[float]  # per slide


class Training:
    """Model, optimiser, loss scale, lambda and progress. class_weights: (class,), or None to count all bags alike."""

    def __init__(self, model: Model, config: TrainConfig, class_weights: Tensor | None = None) -> None:
        self.device = pick_device(config.device)
        self.model, self.config = model.to(self.device), config
        self.class_weights = None if class_weights is None else class_weights.to(self.device)
        self.optimiser: torch.optim.Optimizer = torch.optim.Adam(
            model.parameters(), config.lr, weight_decay=config.weight_decay, fused=True
        )
        half = config.precision == "float16"  # small gradients would be 0
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=half)
        self.lam = Lambda(config.lambda_ if model.jigsaw is not None else LambdaConfig(policy=0.0))
        self.progress = Progress()
        self.last: tuple[str, ...] = ()  # slides of the last step

    def step(self, batch: Batch, labels: Tensor, generator: torch.Generator) -> Losses:
        """One update of the weights by one batch. labels: (bag,)"""
        mil, jigsaw = self.losses(batch, labels, generator)
        seen = Losses(mil.tolist(), jigsaw.tolist())
        if not self.scaler.is_enabled():  # else float16 overflowed, and the scaler leaves the step out
            self.refuse_lost(batch, seen)
        lam = self.lam(batch.slide_ids, [seen.mil[bag] for bag in batch.bag_of_slide], seen.jigsaw)
        self.update(self.total(mil, labels, lam, jigsaw, bags=len(mil), slides=len(jigsaw)))
        self.last = batch.slide_ids
        return seen

    def losses(self, batch: Batch, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """MIL (bag,) and jigsaw (slide,)."""
        if self.config.patch_dropout:
            batch = drop_patches(batch, self.config.patch_dropout)
        batch = batch.to(self.device)
        with autocast(self.device, self.config.precision):
            return self.model.losses(batch, labels.to(self.device), generator)

    def total(self, mil: Tensor, labels: Tensor, lam: Tensor, jigsaw: Tensor, *, bags: int, slides: int) -> Tensor:
        """Loss = MIL + lambda * jigsaw, means over the `bags` and `slides` of the whole batch. lam: (slide,)"""
        if self.class_weights is not None:
            mil = mil * self.class_weights[labels.to(self.device)]
        return mil.sum() / bags + (lam.to(self.device) * jigsaw).sum() / slides

    def update(self, total: Tensor | None, share: Callable[[Model], None] | None = None) -> None:
        """One step of the optimiser. share: adds up the gradients of several processes, of which one that has no bag
        of this batch has no `total`."""
        self.optimiser.zero_grad(set_to_none=True)
        if total is not None:
            self.scaler.scale(total).backward()
        if share is not None:
            share(self.model)
        self.scaler.unscale_(self.optimiser)
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()

    def refuse_diverged(self) -> None:
        """Weights are numbers; an error names the slides after which they are not."""
        if not all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
            raise _diverged(self, f"weights contain NaN or Inf after the step on {listed(self.last, 3)}")

    def refuse_lost(self, batch: Batch, losses: Losses) -> None:
        """Losses of a batch are numbers; an error names the slides whose are not, or those of the step before, if its
        weights are none."""
        lost = {
            slide: loss
            for slide, bag, jigsaw in zip(batch.slide_ids, batch.bag_of_slide, losses.jigsaw, strict=True)
            for loss in (losses.mil[bag], jigsaw)
            if not math.isfinite(loss)
        }
        if lost:
            self.refuse_diverged()
            loss = next(iter(lost.values()))
            raise _diverged(self, f"the loss of {listed(list(lost), 3)} is {loss}, expected a number")

    def end_epoch(self, epoch: Epoch, keep: bool) -> None:
        """keep: the weights are the best so far."""
        self.progress.epochs.append(epoch)
        if keep:
            self.progress.best = epoch.epoch
            self.progress.kept = {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def state(self) -> State:
        """Everything that `load` needs to continue to the bits of an uninterrupted training."""
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"kept/{name}": value for name, value in self.progress.kept.items()}
        for index, moments in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam/{index}/{name}": value for name, value in moments.items()}
        values = {"epochs": [asdict(epoch) for epoch in self.progress.epochs], "best": self.progress.best}
        return tensors, {**values, "lambda": self.lam.state(), "scaler": self.scaler.state_dict()}

    def load(self, state: State) -> None:
        tensors, values = state

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

        self.model.load_state_dict(part("model/"))
        adam = self.optimiser.state_dict()
        adam["state"] = {index: part(f"adam/{index}/") for index in range(len(list(self.model.parameters())))}
        self.optimiser.load_state_dict(adam)
        self.scaler.load_state_dict(values["scaler"])
        self.lam.load(values["lambda"])
        epochs = [Epoch(**epoch) for epoch in values["epochs"]]
        self.progress = Progress(epochs, values["best"], part("kept/"))


def _diverged(training: Training, found: str) -> ConfigError:
    epoch = len(training.progress.epochs) + 1
    return ConfigError(
        f"the training diverged in epoch {epoch}: {found}. Lower lr, and check the features of these slides."
    )


def drop_patches(batch: Batch, share: float) -> Batch:
    """Each slide without this share of its patches, but with one at least. Draws as dropout does."""
    keep = torch.ones(len(batch.features), dtype=torch.bool)
    for start, end in batch.slides:
        dropped = torch.randperm(end - start)[max(1, round((1 - share) * (end - start))) :]
        keep[start + dropped] = False
    return batch.keep_patches(keep)
