"""One model on one split of a cohort: fitted to its training slides, with the card that says what it is."""

from collections.abc import Callable
from pathlib import Path

from ..cohort.covariates import columns_text
from ..cohort.inner_splits import inner_split
from ..cohort.splits import Fold
from ..errors import SplitError
from ..nn.model import Model, seeded_model
from ..nn.options import METHODS
from ..nn.regression import PooledRegression
from .checkpoint import ModelCard
from .config import AUTO
from .covariates import begin_with_covariates
from .decision import Decision
from .devices import pick_device, pick_precision
from .feed import Feed
from .fit import fit
from .origin import origin
from .progress import Epoch, Progress
from .regression import fit_regression
from .seeds import fold_seed
from .settings import Settings
from .sharing import ALONE, Sharing


def fit_split(
    feed: Feed,
    split: Fold,
    settings: Settings,
    seed: int,
    fold: int,
    on_epoch: Callable[[Epoch], None] | None = None,
    state: Path | None = None,
    sharing: Sharing = ALONE,
    *,
    member: int | None = None,
) -> tuple[Model, Progress]:
    """A model fitted to a fold's training slides. The validation slides come out of them, never out of the test.

    member: its number in an ensemble, which gives it a seed of its own."""
    cohort, config = feed.cohort, settings.train
    train, val = list(split.train), list(split.val)
    own = fold_seed(seed, fold, member)
    columns = columns_text(cohort.covariates)
    if METHODS[settings.method].regression:  # a member of an ensemble is judged by what it holds out
        model = seeded_model(settings.model_config(cohort.dim, cohort.task, len(cohort.classes), columns), own)
        assert isinstance(model, PooledRegression)
        slides = train if member is not None else train + val
        return model, fit_regression(model, feed, slides, config, seed=own, on_epoch=on_epoch)
    if config.patience and not val:
        try:
            parts = inner_split(train, **cohort.for_split(train), fraction=config.validation, seed=seed)
        except SplitError as error:
            raise SplitError(f"{error} (patience = 0 does that.)") from error
        train, val = map(list, parts)
    if not config.patience:
        train, val = train + val, []
    shape = settings.model_config(cohort.dim, cohort.task, len(cohort.classes), columns)
    model = seeded_model(shape, own)
    if model.covariates is not None:
        begin_with_covariates(model, feed, train, config, seed=own)
    progress = fit(
        model,
        feed,
        feed.bags_of(train),
        feed.bags_of(val),
        config,
        seed=own,
        on_epoch=on_epoch,
        state=state,
        sharing=sharing,
        keep_state=member is not None,
    )
    return model, progress


def make_card(
    feed: Feed,
    model: Model,
    split: Fold,
    settings: Settings,
    seed: int,
    progress: Progress,
    choice: Decision | None = None,
) -> ModelCard:
    """The card of a model that was fitted to a split. choice: how its settings were chosen."""
    cohort = feed.cohort
    training = {"settings": settings.flat(), "seed": seed, "slides": len(cohort), "best_epoch": progress.best}
    if settings.train.precision == AUTO:  # another machine is to give the same answers
        training["precision"] = pick_precision(AUTO, pick_device(settings.train.device))
    if cohort.label_columns:
        training["columns"] = dict(cohort.label_columns)
    if choice is not None:
        training["choice"] = choice.record()
    if cohort.guessed:
        training["guessed"] = True  # nobody named the positive class
    return ModelCard(
        model=model.config,
        graph=settings.graph,
        classes=cohort.classes,
        encoder=cohort.encoder,
        patch_um=cohort.patch_um,
        tiles=cohort.tiles,
        encoding=cohort.encoding,
        level=settings.level,
        training=training,
        origin=origin(),
        trained_on=feed.trained_on([*split.train, *split.val]),
    )
