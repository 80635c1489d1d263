"""What a model is asked to predict: one file per task, found by its name in `TASKS`.

from jigsawmil.tasks import BinaryTask, register_task

class FocalTask(BinaryTask):
    name = "focal"
    def head(self, width, classes): ...

register_task(FocalTask())      # Cohort.read(..., task="focal"), --task focal, `task = "focal"` in a study file
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import choose, require
from ..errors import ConfigError
from .binary import BinaryTask
from .classes import ClassTask, sort_classes
from .measure import FIGURES, Measure
from .multiclass import MulticlassTask
from .ordinal import OrdinalTask
from .target import SingleTarget
from .task import Task
from .terms import Targets

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FIGURES", "TASKS", "BinaryTask", "ClassTask", "Measure", "MulticlassTask", "OrdinalTask", "SingleTarget",
    "Targets", "Task", "choose_task", "column_task", "figure_headers", "get_task", "measure_of", "reading_options",
    "register_task", "sort_classes", "task_of_table",
]  # fmt: skip

# files that hold no task; every other ends with TASK
SHARED = {"task", "target", "measure", "terms", "classes", "heads", "value_heads", "numeric", "outcome"}
_files = [file.name for file in pkgutil.iter_modules(__path__) if file.name not in SHARED]
TASKS: dict[str, Task] = {task.name: task for task in (import_module(f".{name}", __name__).TASK for name in _files)}
BINARY, MULTICLASS, ORDINAL = (TASKS[kind.name] for kind in (BinaryTask, MulticlassTask, OrdinalTask))
VALUE, OUTCOME, SEVERAL = "regression", "survival", "multilabel"  # the tasks of three of the estimators


def register_task(task: Task) -> None:
    """Register a task under its name in this process; `del TASKS[name]` removes it.

    Example: `register_task(MyTask())`
    """
    require("task", task.name, task.name not in TASKS, f"a name that is not one of {', '.join(TASKS)}")
    TASKS[task.name] = task


def get_task(name: str | Task) -> Task:
    """The task of that name; a ConfigError lists the known ones. A task itself is given back.

    Example: `get_task("ordinal")`
    """
    if isinstance(name, Task):
        return name
    name, opened, form = name.partition("(")
    choose("task", name, TASKS)
    return TASKS[name].of_form(form.removesuffix(")")) if opened else TASKS[name]


def column_task(task: str | Task | None, given: Sequence[str]) -> Task:
    """The task by which columns of a label table are found. given: options that name some of them.

    Example: `column_task("binary", ["label_column"])`
    """
    kind = BINARY if task is None else get_task(task)
    for option in given:
        if option not in kind.column_options:
            fit = [name for name, other in TASKS.items() if option in other.column_options]
            raise ConfigError(
                f"{option} (--{option.replace('_', '-')}) applies to the task {' or '.join(fit)}; the task here is "
                f"{'classification' if task is None else kind.name}. Give task= or --task, or leave it out."
            )
    return kind


def measure_of(table: pd.DataFrame | pd.Series | Mapping[str, Any]) -> Measure:
    """The measure by which a summary or comparisons compare variants (a table, or a row), from the columns; of several
    tasks in one table, the one that has values.

    Example: `measure_of(summary).words  # AUROC`
    """
    known = {measure: [n for n in measure.columns if n in table.keys()] for measure in _measures()}  # noqa: SIM118
    found = [measure for measure, names in known.items() if names]
    if len(found) > 1:
        valued = [measure for measure in found if any(np.any(table[name] == table[name]) for name in known[measure])]
        found = valued or found
    return found[0] if found else BINARY.measure


def _measures() -> list[Measure]:
    return list(dict.fromkeys(task.measure for task in TASKS.values()))


def figure_headers() -> dict[str, str]:
    """Columns of a summary that are figures -> header, in the order in which tables show them.

    Example: `figure_headers()["auprc"]`
    """
    return FIGURES | {name: header for task in TASKS.values() for name, header in task.headers.items()}


def choose_task(labels: Iterable[str], task: str | None = None, ordinal: bool = False) -> Task:
    """The task named, or the one that the labels imply: two classes are binary, more are multiclass.

    ordinal: short for task="ordinal".

    Example: `choose_task(["a", "b", "c"]).name  # multiclass`
    """
    if ordinal and task not in (None, ORDINAL.name):
        raise ConfigError(f"task: found {task!r} and ordinal; expected one of the two. Leave ordinal out.")
    if task is not None:
        return get_task(task)
    if ordinal:
        return ORDINAL
    return BINARY if len(set(labels)) == 2 else MULTICLASS


def reading_options(name: str, classes: Sequence[str]) -> dict[str, Any]:
    """The options of `Cohort.read` that lead to this task and this order of classes.

    Example: `reading_options("binary", ("benign", "tumour"))`
    """
    task, asked = get_task(name), dict[str, Any]()
    if not task.of_classes:
        return {"task": name}
    if task is ORDINAL:
        asked = {"ordinal": True}
    elif task is not choose_task(classes):
        asked = {"task": name}
    return {"positive": None if list(classes) == sort_classes(classes) else classes[-1], **asked}


def task_of_table(columns: Iterable[str], task: str | Task | None = None) -> Task:
    """The task of a table of predictions: by name, or as its columns have it (binary or multiclass).

    Example: `task_of_table(predictions.columns)`
    """
    if task is not None:
        return get_task(task)
    return BINARY if sum(str(name).startswith("probability") for name in columns) <= 2 else MULTICLASS
