"""What a verb asks on a terminal: which of two classes is the positive one, if nobody said it."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from ..errors import JigsawmilError

if TYPE_CHECKING:
    from ..study.study import CohortSpec, Study


def can_ask(yes: bool) -> bool:
    """Whether somebody sits at a terminal and will answer: no --yes, and no continuous integration."""
    return not yes and not os.environ.get("CI") and sys.stdin.isatty() and sys.stdout.isatty()


def with_positives(study: "Study", screen: Console, *, yes: bool) -> "Study":
    """The study, in which the positive class of every cohort with two classes was asked for, unless it is stated."""
    several = len(study.cohorts) > 1
    cohorts: Mapping[str, CohortSpec] = {
        name: with_positive(source, screen, yes=yes, of=f" of {name}" if several else "", file=study.file)
        for name, source in study.cohorts.items()
    }
    return replace(study, cohorts=cohorts)


def with_positive(
    source: "CohortSpec", screen: Console, *, yes: bool, of: str = "", file: str | None = None
) -> "CohortSpec":
    """The same for one cohort. of: names it in the question. file: the study file it comes from."""
    if source.options.positive is not None or not can_ask(yes) or not (classes := _guessed(source)):
        return source
    positive = ask_class(classes, screen, of)
    how = f"positive = {positive!r} in {file}" if file else f"--positive {shlex.quote(positive)}"
    screen.print(f"To state it: {how}", markup=False, highlight=False, soft_wrap=True)
    return replace(source, options=replace(source.options, positive=positive))


def ask_class(classes: Sequence[str], screen: Console, of: str = "") -> str:
    """The class that is typed; the last of them for Enter, or if the input ends."""
    names = " or ".join(classes)
    question = f"Which class{of} is positive, {names}? Its probability is reported. [Enter: {classes[-1]}] "
    while True:
        screen.print(question, end="", markup=False, highlight=False, soft_wrap=True)
        try:
            typed = input().strip()
        except EOFError:
            screen.print()
            typed = ""
        if not typed:
            return classes[-1]
        if typed in classes:
            return typed
        screen.print(f"Found {typed!r}, expected {names}.", markup=False, highlight=False, soft_wrap=True)


def _guessed(source: "CohortSpec") -> tuple[str, ...]:
    """The two classes of a label table whose positive class would be a guess. What is wrong with the table is not said
    here: it is read again."""
    from ..cohort.cohort import Columns
    from ..cohort.labels import read_labels
    from ..cohort.positive import guessed_classes

    options = source.options.given()
    columns = {name: options[name] for name in options.keys() & Columns.__annotations__.keys()}
    try:
        table = read_labels(source.labels, task=source.options.task, **columns)
        return guessed_classes(table, source.options.task, source.options.ordinal)
    except JigsawmilError:
        return ()
