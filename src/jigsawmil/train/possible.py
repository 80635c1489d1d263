"""What models cannot do is refused before anything runs."""

from collections.abc import Iterable

from ..cohort.cohort import Cohort
from ..cohort.covariates import columns_text
from ..config import require
from ..errors import ConfigError
from ..nn.model import seeded_model
from ..nn.options import peek_method
from ..tasks import get_task
from .settings import Settings


def check_models(cohort: Cohort, settings: Iterable[Settings]) -> list[str]:
    """Refuse a loss that the task does not have, weights of classes that it does not predict, and a model from
    elsewhere that cannot be made for it. Returns notes: models that the setting `loss` says nothing to."""
    every = [own for one in settings for own in one.each_member()]
    ignoring = []
    for own in every:
        weighable = get_task(cohort.task).calls_classes or not own.train.class_weights
        require("class_weights", own.train.class_weights, weighable, f"false: {cohort.task} predicts no class")
        columns = columns_text(cohort.covariates)
        config = own.model_config(cohort.dim, cohort.task, len(cohort.classes), columns)  # refuses what is impossible
        if peek_method(own.method).foreign and seeded_model(config, 0).own_loss and own.model.loss:
            ignoring.append(own)
    if ignoring and len(ignoring) == len(every):
        raise ConfigError(
            f"loss: found {ignoring[0].model.loss!r}, but {ignoring[0].method} has a loss of its own. Leave it out."
        )
    names = dict.fromkeys(own.method for own in ignoring)
    return [f"{name} is trained with its own loss; the setting loss is for the other methods." for name in names]
