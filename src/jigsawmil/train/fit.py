"""One readable loop: fit a model to some bags, watch others, keep the best."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from ..cohort.labels import listed
from ..errors import ConfigError, NotANumberError
from ..nn.model import Model
from ..tasks import get_task
from .config import TrainConfig
from .feed import Feed
from .infer import held_out_loss, run_model
from .progress import Epoch, Progress
from .seeds import epoch_draws
from .sharing import ALONE, Sharing
from .state import load_state, save_state
from .training import Training

SAVE_SECONDS = 30.0  # between two saves of a running training


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
    sharing: Sharing = ALONE,
    keep_state: bool = False,
) -> Progress:
    """Train in place on bags of the feed; the weights of the best epoch stay, or the last without validation bags.

    All randomness comes from (seed, epoch). state: a file from which an interrupted training resumes, to the bits of an
    uninterrupted one. sharing: the processes that share every batch; only the first of them saves. keep_state: save the
    end, too, for other trainings follow that may be interrupted.
    """
    model.head.learn_targets(feed.labels[[*train, *validation]], feed.cohort.classes)
    weights = model.head.weigh_classes(feed.labels[list(train)], model.config.classes) if config.class_weights else None
    training = Training(model, config, weights)
    if state is not None and state.exists():
        training.load(load_state(state))
    progress, saved = training.progress, time.monotonic()

    while not progress.stop(config):
        start, number = time.perf_counter(), len(progress.epochs) + 1
        if model.head.recalls:
            recall(model, feed, train, config, sharing)
        with epoch_draws(seed, number, training.device, sharing.rank) as generator:
            mil, jigsaw = one_pass(training, feed, train, generator, sharing)
        training.refuse_diverged()
        lam = training.lam.mean
        training.lam.end_epoch()
        loss, auc = evaluate(model, feed, validation, config, sharing) if validation else (math.nan, math.nan)
        epoch = Epoch(number, mil, jigsaw, lam, loss, auc, time.perf_counter() - start)
        training.end_epoch(epoch, keep=not validation or loss < progress.best_loss - config.margin)
        if on_epoch:
            on_epoch(epoch)
        if state is not None and sharing.rank == 0 and time.monotonic() - saved > SAVE_SECONDS:
            save_state(state, *training.state())
            saved = time.monotonic()

    if keep_state and state is not None and sharing.rank == 0:
        save_state(state, *training.state())
    if not progress.best:
        lost = listed(lost_bags(model, feed, sharing.share(validation), config), 3)
        of = f" of {lost}" if lost else ""
        raise ConfigError(
            f"the training diverged: the validation loss{of} was never a number. Lower lr, and check the features{of}."
        )
    model.load_state_dict(progress.kept)
    model.eval()
    return progress


def one_pass(
    training: Training, feed: Feed, train: Sequence[int], generator: torch.Generator, sharing: Sharing = ALONE
) -> tuple[float, float]:
    """Over the training bags in random order; the mean losses."""
    training.model.train()
    order = [train[i] for i in torch.randperm(len(train), generator=generator).tolist()]
    size = training.config.batch_size
    steps = [order[i : i + size] for i in range(0, len(order), size)]
    shares = [sharing.share(bags) for bags in steps]
    batches = feed.stream([share for share in shares if share], training.device)
    mils: list[float] = []
    jigsaws: list[float] = []
    for bags, share in zip(steps, shares, strict=True):
        mil, jigsaw = sharing.step(training, feed, bags, next(batches) if share else None, generator)
        mils += mil
        jigsaws += jigsaw
    return float(np.mean(mils)), float(np.mean(jigsaws))


def evaluate(
    model: Model, feed: Feed, bags: Sequence[int], config: TrainConfig, sharing: Sharing = ALONE
) -> tuple[float, float]:
    """Loss and score (of classes: log loss and AUROC) on some bags, in evaluation mode."""
    mine = sharing.share(bags)
    found = run_model(model, feed.prepared(mine, config.device), device=config.device, precision=config.precision)
    try:
        own = [
            np.append(seen.probabilities, held_out_loss(model, seen, feed.labels[bag : bag + 1]))
            for bag, seen in zip(mine, found, strict=True)
        ]
    except NotANumberError:
        if sharing is not ALONE:  # the other processes wait for this one's answers
            raise
        return math.nan, math.nan  # an epoch that is never kept
    rows = torch.from_numpy(np.stack(own)) if own else torch.zeros(0, model.config.classes + 1, dtype=torch.float64)
    answers = sharing.gather(rows, len(bags)).numpy()
    labels, task = feed.labels[list(bags)].numpy(), get_task(model.config.task).of(feed.cohort.classes)
    return task.validation(labels, answers[:, :-1], answers[:, -1])


def lost_bags(model: Model, feed: Feed, bags: Sequence[int], config: TrainConfig) -> list[str]:
    """Those for which the model has no finite loss."""
    lost = []
    for bag, item in zip(bags, feed.prepared(bags, config.device), strict=True):
        try:
            [seen] = run_model(model, [item], device=config.device, precision=config.precision)
            loss = held_out_loss(model, seen, feed.labels[bag : bag + 1])
        except NotANumberError:
            loss = math.nan
        if not math.isfinite(loss):
            lost.append(item.name)
    return lost


def recall(model: Model, feed: Feed, train: Sequence[int], config: TrainConfig, sharing: Sharing = ALONE) -> None:
    """Show the head the logits of all training bags, in evaluation mode."""
    mine = sharing.share(train)
    found = run_model(model, feed.prepared(mine, config.device), device=config.device, precision=config.precision)
    own = [seen.output.logits[0].double().cpu() for seen in found]
    rows = torch.stack(own) if own else torch.zeros(0, model.head.linear.out_features, dtype=torch.float64)
    model.head.recall(sharing.gather(rows, len(train)), feed.labels[list(train)])
