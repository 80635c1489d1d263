"""Another cohort, read for a model that was trained before."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..cohort.cohort import Cohort
from ..cohort.options import TARGET, CohortOptions
from ..cohort.tables import read_table
from ..errors import ConfigError
from ..tasks import get_task
from ..train.apply import covariates_of_card
from ..train.checkpoint import ModelCard


def read_external(labels: str, features: str, options: CohortOptions, card: ModelCard) -> tuple[Cohort, list[str]]:
    """A cohort whose labels mean what they mean to a model, and notes. Labels are read from the columns of training if
    the table has them and `options` names no other."""
    if given := [name for name in TARGET if name in options.given()]:
        raise ConfigError(f"{', '.join(given)}: the model defines its classes. Leave it out.")
    task = get_task(card.model.task)
    if options.covariates:
        raise ConfigError("covariates: the model defines its covariates. Leave it out.")
    covariates = ",".join(column.name for column in covariates_of_card(card)) or None
    columns: dict[str, str] = (card.training or {}).get("columns") or {}
    unnamed = [option for option in columns if getattr(options, option) is None]  # those that the user does not name
    there = read_table(Path(labels), options.sheet).columns
    ours: dict[str, Any] = {option: columns[option] for option in unnamed if columns[option] in there}
    targets = ",".join(target.name for target in task.split(card.classes)) or None
    options = replace(options, covariates=covariates, label_columns=options.label_columns or targets)
    cohort = Cohort.read(labels, features, **replace(options, **ours).given(), task=task.reads_as())
    others = {option: cohort.label_columns[option] for option in unnamed}
    notes = [
        f"Labels are read from {name!r}; in training they were in {columns[option]!r}, which the table does not have."
        for option, name in others.items()
        if name != columns[option]
    ]
    return replace(cohort.for_model(task.name, card.classes), guessed=card.guessed), notes
