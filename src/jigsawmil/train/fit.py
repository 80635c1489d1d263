"""One readable loop: fit a model to some bags, watch others, keep the best."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from ..config import choose, require
from ..nn.model import Model
from .feed import Feed
from .lambdas import Lambda, LambdaConfig


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is fitted. lr and weight_decay are the paper's; it is silent on the rest.

    epochs: the most passes over the training bags; all of them where `patience` is 0.
    patience: epochs without a better validation loss before stopping; the best epoch's weights are kept.
    validation: share of the training patients held back for that; they are never test patients.
    batch_size: bags a step. clip: largest norm of the gradient. class_weights: weigh classes by their rarity.
    device: auto, cpu, cuda, cuda:1, mps. precision: float32, or bfloat16 / float16 autocast where the device has it.
    """

    epochs: int = 100
    patience: int = 20
    validation: float = 0.2
    lr: float = 1e-4
    weight_decay: float = 1e-5
    batch_size: int = 1
    clip: float = 5.0
    class_weights: bool = False
    device: str = "auto"
    precision: str = "float32"
    lambda_: LambdaConfig = field(default_factory=LambdaConfig)

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("patience", 0), ("batch_size", 1)):
            value = getattr(self, name)
            require(name, value, isinstance(value, int) and value >= least, f"a whole number of at least {least}")
        require("validation", self.validation, 0 < self.validation < 1, "a share between 0 and 1")
        require("lr", self.lr, self.lr > 0, "a number above 0")
        require("weight_decay", self.weight_decay, self.weight_decay >= 0, "a number of at least 0")
        require("clip", self.clip, self.clip > 0, "a number above 0")
        choose("precision", self.precision, ("float32", "bfloat16", "float16"))


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


@dataclass(frozen=True)
class History:
    epochs: list[Epoch]
    best: int  # the epoch whose weights were kept

    def rows(self) -> list[dict[str, float]]:
        return [asdict(epoch) for epoch in self.epochs]


def fit(
    model: Model,
    feed: Feed,
    train: Sequence[int],
    validation: Sequence[int],
    config: TrainConfig,
    *,
    seed: int,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> History:
    """Train in place on bags of the feed. All randomness comes from (seed, epoch)."""
    device = pick_device(config.device)
    model.to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), config.lr, weight_decay=config.weight_decay, fused=True)
    labels = feed.labels
    weights = class_weights(labels[list(train)], model.config.classes) if config.class_weights else None
    ignorant = {"ignorant_mil": math.log(model.config.classes), "ignorant_jigsaw": 2 * math.log(model.config.grid)}
    lam = Lambda(config.lambda_, **ignorant)
    epochs: list[Epoch] = []
    best, kept = math.inf, None

    for number in range(1, config.epochs + 1):
        start = time.perf_counter()
        generator = torch.Generator().manual_seed(_mix(seed, number))
        with _seeded(_mix(seed, number)):
            mil, jigsaw = _epoch(model, feed, train, labels, weights, optimiser, lam, config, generator, device)
        weight = lam.mean
        lam.end_epoch()
        val_loss, val_auc = evaluate(model, feed, validation, config) if validation else (math.nan, math.nan)
        epochs.append(Epoch(number, mil, jigsaw, weight, val_loss, val_auc, time.perf_counter() - start))
        if on_epoch:
            on_epoch(epochs[-1])
        if val_loss < best:
            best, best_epoch = val_loss, number
            kept = {name: value.detach().clone() for name, value in model.state_dict().items()}
        if validation and config.patience and number - best_epoch >= config.patience:
            break

    if kept is not None:
        model.load_state_dict(kept)
    model.eval()
    return History(epochs, best_epoch if kept is not None else len(epochs))


def _epoch(
    model: Model,
    feed: Feed,
    train: Sequence[int],
    labels: Tensor,
    weights: Tensor | None,
    optimiser: torch.optim.Optimizer,
    lam: Lambda,
    config: TrainConfig,
    generator: torch.Generator,
    device: torch.device,
) -> tuple[float, float]:
    """One pass over the training bags in random order; the mean losses."""
    order = [train[i] for i in torch.randperm(len(train), generator=generator).tolist()]
    steps = [order[i : i + config.batch_size] for i in range(0, len(order), config.batch_size)]
    sums = np.zeros(2)
    slides = 0
    for bags, batch in zip(steps, feed.stream(steps), strict=True):
        batch = batch.to(device)
        target = labels[bags].to(device)
        with autocast(device, config.precision):
            output = model(batch)
            mil = model.head.loss(output.logits, target)  # (bag,)
            jigsaw = model.jigsaw_loss(batch, output, generator)  # (slide,)
        weighted = mil if weights is None else mil * weights.to(device)[target]
        total = weighted.mean() + (lam(batch.slide_ids).to(device) * jigsaw).mean()
        optimiser.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimiser.step()
        mils, jigsaws = mil.tolist(), jigsaw.tolist()
        lam.observe(batch.slide_ids, [mils[bag] for bag in batch.bag_of_slide], jigsaws)
        sums += sum(mils), sum(jigsaws)
        slides += len(jigsaws)
    return float(sums[0] / len(order)), float(sums[1] / slides)


def predict(
    model: Model, feed: Feed, bags: Sequence[int], config: TrainConfig
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """For each bag: class probabilities (class,), and its slides' attention in the order of their files."""
    device = pick_device(config.device)
    model.to(device).eval()
    with torch.inference_mode():
        for batch in feed.stream([[bag] for bag in bags]):
            batch = batch.to(device)
            with autocast(device, config.precision):
                output = model(batch)
            attention = [part.float().cpu().numpy() for part in batch.in_file_order(output.attention)]
            yield model.probabilities(output)[0].double().cpu().numpy(), attention


def evaluate(model: Model, feed: Feed, bags: Sequence[int], config: TrainConfig) -> tuple[float, float]:
    """Log loss and macro AUC on some bags, in evaluation mode; nan where a class is absent."""
    probabilities = np.stack([p for p, _ in predict(model, feed, bags, config)])
    model.train()
    labels = feed.labels[list(bags)].numpy()
    loss = -np.log(np.clip(probabilities[np.arange(len(labels)), labels], 1e-7, None)).mean()
    return float(loss), macro_auc(labels, probabilities)


def macro_auc(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """One-versus-rest AUC averaged over the classes present; nan where there is only one."""
    columns = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    scores = [
        roc_auc_score(labels == c, probabilities[:, c]) for c in columns if 0 < (labels == c).sum() < len(labels)
    ]
    return float(np.mean(scores)) if scores else math.nan


def pick_device(name: str) -> torch.device:
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")


def class_weights(labels: Tensor, classes: int) -> Tensor:
    """Inverse frequency, 1 on average over the training bags."""
    counts = torch.bincount(labels, minlength=classes).clamp(min=1)
    return len(labels) / (classes * counts)


def autocast(device: torch.device, precision: str) -> Any:
    return torch.autocast(device.type, getattr(torch, precision), enabled=precision != "float32")


def _mix(seed: int, epoch: int) -> int:
    """One seed for each epoch, so that a run can go on at any epoch with the bits it would have had."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Dropout draws from the global generator: seed it, and leave it as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
