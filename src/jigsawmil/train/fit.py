"""One readable loop: fit a model to some bags, watch others, keep the best."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError
from ..nn.batch import Batch
from ..nn.model import Model
from ..tasks import get_task
from .checkpoint import load_state, save_state
from .config import LambdaConfig, TrainConfig
from .devices import autocast, pick_device
from .feed import Feed
from .infer import run_model
from .lambdas import Lambda
from .team import ALONE, Team, skip_draws

SAVE_SECONDS = 30.0  # between two saves of a running training
_DIVERGED = "Lower lr, and look at the features."  # what to do


@dataclass(frozen=True)
class Epoch:
    """What one pass did. lambda_ is the mean over slides; val_* are nan without validation."""

    epoch: int
    mil: float
    jigsaw: float
    lambda_: float
    val_loss: float
    val_auc: float
    seconds: float


@dataclass
class Progress:
    """Where a training stands: all of it that is not in the model or the optimiser."""

    epochs: list[Epoch]
    best: int  # the epoch whose weights are kept; 0 before there is one
    kept: dict[str, Tensor]

    @property
    def best_loss(self) -> float:
        return self.epochs[self.best - 1].val_loss if self.best else math.inf

    def stop(self, config: TrainConfig) -> bool:
        done = len(self.epochs)
        return done >= config.epochs or (bool(config.patience) and done - self.best >= config.patience)


def fit(
    model: Model,
    feed: Feed,
    train: Sequence[int],
    validation: Sequence[int],
    config: TrainConfig,
    *,
    seed: int,
    on_epoch: Callable[[Epoch], None] | None = None,
    state: Path | None = None,
    team: Team = ALONE,
) -> Progress:
    """Train in place on bags of the feed; the weights of the best epoch stay, or the last without validation bags.

    All randomness comes from (seed, epoch). With `state`, a training that was cut short goes on where it last saved,
    to the bits it would have had. team: the processes that share every batch; only the first of them saves.
    """
    device = pick_device(config.device)
    model.to(device)
    optimiser = torch.optim.Adam(model.parameters(), config.lr, weight_decay=config.weight_decay, fused=True)
    lam = Lambda(config.lambda_ if model.jigsaw is not None else LambdaConfig(policy=0.0))
    weights = class_weights(feed.labels[list(train)], model.config.classes) if config.class_weights else None
    scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "float16")  # small gradients would be 0
    progress = Progress([], 0, {})
    if state is not None and state.exists():
        _resume(state, model, optimiser, scaler, lam, progress)
    saved = time.monotonic()

    while not progress.stop(config):
        start, number = time.perf_counter(), len(progress.epochs) + 1
        with _seeded(seed, number, device, team.rank) as generator:
            mil, jigsaw = _pass(model, feed, train, optimiser, scaler, lam, weights, config, generator, team)
        if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
            raise ConfigError(f"the training diverged in epoch {number}: weights are no numbers any more. {_DIVERGED}")
        weight = lam.mean
        lam.end_epoch()
        loss, auc = evaluate(model, feed, validation, config, team) if validation else (math.nan, math.nan)
        progress.epochs.append(Epoch(number, mil, jigsaw, weight, loss, auc, time.perf_counter() - start))
        if not validation or loss < progress.best_loss - config.margin:
            progress.best = number
            progress.kept = {name: value.detach().clone() for name, value in model.state_dict().items()}
        if on_epoch:
            on_epoch(progress.epochs[-1])
        if state is not None and team.rank == 0 and time.monotonic() - saved > SAVE_SECONDS:
            _save(state, model, optimiser, scaler, lam, progress)
            saved = time.monotonic()

    if not progress.best:
        raise ConfigError(f"the training diverged: the validation loss was never a number. {_DIVERGED}")
    model.load_state_dict(progress.kept)
    model.eval()
    return progress


def _pass(
    model: Model,
    feed: Feed,
    train: Sequence[int],
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    lam: Lambda,
    weights: Tensor | None,
    config: TrainConfig,
    generator: torch.Generator,
    team: Team = ALONE,
) -> tuple[float, float]:
    """One pass over the training bags in random order; the mean losses."""
    device = next(model.parameters()).device
    model.train()
    order = [train[i] for i in torch.randperm(len(train), generator=generator).tolist()]
    steps = [order[i : i + config.batch_size] for i in range(0, len(order), config.batch_size)]
    labels = feed.labels
    mils: list[float] = []
    jigsaws: list[float] = []
    for bags, batch in zip(steps, _stream(feed, [team.share(step) for step in steps]), strict=True):
        start, end = team.span(len(bags))
        slides = [feed.cohort.slides[index] for bag in bags for index in feed.members[bag]]
        first, last = (sum(len(feed.members[bag]) for bag in bags[:bound]) for bound in (start, end))
        skip_draws([slide.patches for slide in slides[:first]], generator)
        if batch is None:  # fewer bags than processes
            mil = jigsaw = torch.zeros(0, device=device)
        else:
            batch = batch.to(device)
            target = labels[bags[start:end]].to(device)
            with autocast(device, config.precision):
                output = model(batch)
                mil = model.head.loss(output.logits, target)  # (bag,)
                jigsaw = model.jigsaw_loss(batch, output, generator)  # (slide,)
        skip_draws([slide.patches for slide in slides[last:]], generator)
        mils += (bag_losses := team.gather(mil.detach(), start, len(bags)).tolist())
        jigsaws += (slide_losses := team.gather(jigsaw.detach(), first, len(slides)).tolist())
        of_slides = [loss for loss, bag in zip(bag_losses, bags, strict=True) for _ in feed.members[bag]]
        lam_ = lam([slide.slide_id for slide in slides], of_slides, slide_losses)[first:last].to(device)
        optimiser.zero_grad(set_to_none=True)
        if batch is not None:
            weighted = mil if weights is None else mil * weights.to(device)[target]
            total = weighted.sum() / len(bags) + (lam_ * jigsaw).sum() / len(slides)
            scaler.scale(total).backward()
        team.sum_gradients(model)
        scaler.unscale_(optimiser)
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        scaler.step(optimiser)
        scaler.update()
    return float(np.mean(mils)), float(np.mean(jigsaws))


def _stream(feed: Feed, steps: Sequence[Sequence[int]]) -> Iterator[Batch | None]:
    """Batches in order; None for a step of which this process has no bag."""
    batches = feed.stream([step for step in steps if step])
    return (next(batches) if step else None for step in steps)


def evaluate(
    model: Model, feed: Feed, bags: Sequence[int], config: TrainConfig, team: Team = ALONE
) -> tuple[float, float]:
    """Loss and score (of classes: log loss and AUC) on some bags, in evaluation mode."""
    items = feed.prepared(team.share(bags))
    own = [seen.probabilities for seen in run_model(model, items, device=config.device, precision=config.precision)]
    rows = torch.from_numpy(np.stack(own)) if own else torch.zeros(0, model.config.classes, dtype=torch.float64)
    probabilities = team.gather(rows.to(pick_device(config.device)), team.span(len(bags))[0], len(bags)).cpu().numpy()
    labels = feed.labels[list(bags)].numpy()
    return get_task(model.config.task).validation(labels, probabilities)


def class_weights(labels: Tensor, classes: int) -> Tensor:
    """Inverse frequency, 1 on average over the training bags."""
    counts = torch.bincount(labels, minlength=classes).clamp(min=1)
    return len(labels) / (classes * counts)


@contextmanager
def _seeded(seed: int, epoch: int, device: torch.device, rank: int = 0) -> Iterator[torch.Generator]:
    """Randomness of one epoch, common to a team. Dropout draws from the device's global generator, of which each
    process has its own: seed it, and leave it as it was.

    Other GPUs are not touched, which torch.manual_seed and a fork without devices would do.
    """
    common = _mixed(seed, epoch)
    own = _mixed(seed, epoch, rank) if rank else common
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(own)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(own)
        elif device.type == "mps":
            torch.mps.manual_seed(own)
        yield torch.Generator().manual_seed(common)


def _mixed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _save(
    path: Path,
    model: Model,
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    lam: Lambda,
    progress: Progress,
) -> None:
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"kept/{name}": value for name, value in progress.kept.items()}
    for index, moments in optimiser.state_dict()["state"].items():
        tensors |= {f"adam/{index}/{name}": value for name, value in moments.items()}
    values = {"epochs": [asdict(epoch) for epoch in progress.epochs], "best": progress.best}
    save_state(path, tensors, {**values, "lambda": lam.state(), "scaler": scaler.state_dict()})


def _resume(
    path: Path,
    model: Model,
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    lam: Lambda,
    progress: Progress,
) -> None:
    tensors, values = load_state(path)

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

    model.load_state_dict(part("model/"))
    count = len(list(model.parameters()))
    adam = optimiser.state_dict()
    adam["state"] = {index: part(f"adam/{index}/") for index in range(count)}
    optimiser.load_state_dict(adam)
    scaler.load_state_dict(values["scaler"])
    lam.load(values["lambda"])
    progress.epochs = [Epoch(**epoch) for epoch in values["epochs"]]
    progress.best, progress.kept = values["best"], part("kept/")
