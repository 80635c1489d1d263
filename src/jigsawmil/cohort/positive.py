"""Which of two classes is the positive one, whether anybody said so, and the line of it that results begin with."""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from ..errors import LabelError
from ..tasks import choose_task, get_task
from .labels import LabelTable


class Classified(Protocol):
    """A cohort, or the record of one. guessed: nobody named the positive class."""

    @property
    def task(self) -> str: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def guessed(self) -> bool: ...


def is_guess(classes: Sequence[str]) -> bool:
    """Whether the last of two classes would be positive only by its name; 0 and 1 speak for themselves."""
    return not all(re.fullmatch(r"[+-]?[\d.]+", name) for name in classes)


def positive_words(positive: str, guessed: bool, *, file: str | None = None, trained: bool = False) -> str:
    """file: the study file, in which a guess would be replaced. trained: the class is that of a model."""
    if not guessed:
        return positive
    if trained:
        return f"{positive} (guessed in training: last in sorted order; state it there with --positive NAME)"
    how = f'positive = "NAME" in {file}' if file else "--positive NAME"
    return f"{positive} (guessed: last in sorted order; state it with {how})"


def positive_lines(
    cohorts: Mapping[str, Classified], *, file: str | None = None, trained: bool = False
) -> tuple[str, ...]:
    """The first line of a result, or one for each cohort if they differ; none for tasks without a positive class.
    file, trained: as for `positive_words`."""
    found = {
        name: positive_words(positive, cohort.guessed, file=file, trained=trained)
        for name, cohort in cohorts.items()
        if (positive := get_task(cohort.task).positive(cohort.classes)) is not None
    }
    if len(found) == len(cohorts) and len(set(found.values())) == 1:
        return (f"Positive class: {next(iter(found.values()))}.",)
    return tuple(f"Positive class of {name}: {words}." for name, words in found.items())


def guessed_classes(table: LabelTable, task: str | None, ordinal: bool = False) -> tuple[str, ...]:
    """The two classes of a label table, the guessed positive one last; none if there is nothing to guess."""
    labels = [label for label in table.rows["label"] if label]
    try:
        chosen = choose_task(labels, task, ordinal)
        classes = chosen.targets(labels).classes if labels else ()
    except LabelError:  # which reading the cohort will report
        return ()
    return tuple(classes) if classes and chosen.positive(classes) is not None and is_guess(classes) else ()
