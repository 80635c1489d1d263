"""How the regression on pooled features is fitted: at once, with the ridge chosen within the training patients."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..cohort.splits import make_folds
from ..errors import SplitError
from ..nn.regression import PooledRegression
from ..tasks import get_task
from ..tasks.heads import Head
from .config import TrainConfig
from .feed import Feed
from .infer import run_model
from .progress import Epoch, Progress

RIDGES = (1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3)  # the larger one of two that are as good
FOLDS = 5  # of the inner cross-validation; fewer if a class has fewer patients


def fit_regression(
    model: PooledRegression,
    feed: Feed,
    slides: Sequence[str],
    config: TrainConfig,
    *,
    seed: int,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Progress:
    """Fit in place to the bags of the slides: mean loss + ridge / 2 * |weights|^2, on standardised columns.

    The ridge is the one with the least loss in a cross-validation over the patients of these slides, which is what the
    one epoch of the progress states as validation.
    """
    start, bags = time.perf_counter(), feed.bags_of(slides)
    if model.covariates is not None:
        values = feed.covariates(bags, model.covariates.columns)
        model.covariates.learn(values)
    if model.columns:
        seen = run_model(model, feed.prepared(bags, config.device), device=config.device, precision="float32")
        z = torch.stack([model.pool(one.batch)[0] for one in seen]).double().cpu()
    else:
        assert model.covariates is not None
        z = model.covariates.encode(values).double().cpu()
    labels, classes = feed.labels[bags], feed.cohort.classes
    weighed = labels if config.class_weights else None
    inner = _inner_folds(feed, slides, bags, seed)
    task, found = get_task(model.config.task).of(classes), {}
    for ridge in RIDGES:
        rows, losses = torch.zeros(len(bags), len(classes), dtype=torch.float64), torch.zeros(len(bags))
        for train, test in inner:
            own = Regression.fit(model, z[train], labels[train], classes, ridge, weighed)
            logits = own.logits(z[test])
            rows[test] = own.head.probabilities(logits).double()
            losses[test] = own.head.held_out(logits, labels[test]).detach().float()
        found[ridge] = task.validation(labels.numpy(), rows.numpy(), losses.numpy())
    best = min(RIDGES, key=lambda ridge: found[ridge][0])
    fitted = Regression.fit(model, z, labels, classes, best, weighed)
    model.centre.copy_(fitted.centre)
    model.scale.copy_(fitted.scale)
    model.head.load_state_dict(fitted.head.state_dict())
    mil = float(fitted.head.loss(fitted.logits(z), labels).mean())
    epoch = Epoch(1, mil, 0.0, 0.0, *found[best], time.perf_counter() - start)
    if on_epoch:
        on_epoch(epoch)
    return Progress([epoch], 1, {name: value.detach().clone() for name, value in model.state_dict().items()})


class Regression(NamedTuple):
    """A head in double precision, and how its columns are standardised."""

    head: Head
    centre: Tensor
    scale: Tensor

    @classmethod
    def fit(
        cls,
        model: PooledRegression,
        z: Tensor,
        labels: Tensor,
        classes: Sequence[str],
        ridge: float,
        weighed: Tensor | None,
    ) -> "Regression":
        """z: (bag, column). weighed: labels by which classes are weighted"""
        centre, spread = z.mean(dim=0), z.std(dim=0, correction=0)
        scale = torch.where(spread > 1e-8 * (1 + centre.abs()), spread, 1.0)  # a column that never changes says nothing
        config = model.config
        head = get_task(config.task).head_for(z.shape[1], config.classes, config.loss).double()
        head.learn_targets(labels, classes)
        weights = None if weighed is None else head.weigh_classes(weighed, config.classes)
        for parameter in head.parameters():
            torch.nn.init.zeros_(parameter)
        own, x = cls(head, centre, scale), (z - centre) / scale
        each = torch.ones(len(z), dtype=z.dtype) if weights is None else weights[labels].to(z.dtype)
        optimiser = torch.optim.LBFGS(
            head.parameters(), max_iter=500, tolerance_grad=1e-7, tolerance_change=1e-12, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimiser.zero_grad()
            if head.recalls:
                head.recall(head(x).detach(), labels)
            total = (each * head.loss(head(x), labels)).mean() + ridge / 2 * head.linear.weight.square().sum()
            total.backward()
            return total

        with torch.enable_grad():
            optimiser.step(loss)
        return own

    @torch.no_grad()
    def logits(self, z: Tensor) -> Tensor:
        logits: Tensor = self.head((z - self.centre) / self.scale)
        return logits


def _inner_folds(feed: Feed, slides: Sequence[str], bags: list[int], seed: int) -> list[tuple[Tensor, Tensor]]:
    """(rows to fit, rows to hold out) among the bags, by patient and stratified."""
    cohort = feed.cohort
    rows = cohort.rows_of(slides)
    patients, strata = [str(name) for name in cohort.patients[rows]], [int(label) for label in cohort.strata[rows]]
    fewest = min(Counter(stratum for _, stratum in set(zip(patients, strata, strict=True))).values())
    if fewest < 2:
        raise SplitError(
            f"{cohort.task}: found a class with one patient among the training patients; the ridge of a regression is "
            "chosen by cross-validation over them, which needs two of each class. Take fewer folds, or leave the class "
            "out."
        )
    ids = [str(cohort.slides[row].slide_id) for row in rows]
    folds = make_folds(ids, patients, strata, folds=min(FOLDS, fewest), seed=seed, allow_similar=True)
    first = [str(cohort.slides[feed.members[bag][0]].slide_id) for bag in bags]
    held = [torch.tensor([slide in set(fold.test) for slide in first]) for fold in folds]
    return [((~test).nonzero()[:, 0], test.nonzero()[:, 0]) for test in held]
