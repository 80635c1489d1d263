"""One target of a task that may have several, and labels of several targets as text: `er=positive; her2=low`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import LabelError
from .terms import Floats

if TYPE_CHECKING:
    from .task import Task

JOIN, EQUALS = "; ", "="
RESERVED = set('=;/\\:*?"<>|')  # names of targets are also parts of file names


class SingleTarget(NamedTuple):
    """One target of a task: what is predicted, and the classes of it.

    name: "" if the task has one target. outputs: where its own lie among those of the task; None: all of them."""

    name: str
    task: Task
    classes: tuple[str, ...]
    outputs: slice | None = None

    def scores(self, scores: Floats) -> Floats:
        """(..., score) of this target's task, from those of all targets; of two classes the log-odds."""
        if self.outputs is None:
            return scores
        own = scores[..., self.outputs]
        return own[..., 1:] - own[..., :1] if own.shape[-1] == 2 else own

    def probabilities(self, p: Floats) -> Floats:
        """(..., output) from those of all targets."""
        return p if self.outputs is None else p[..., self.outputs]

    def label(self, text: str) -> str:
        """The label of this target in that of all; "" if it is missing."""
        return text if self.outputs is None else split_label(text).get(self.name, "")


def join_label(names: Sequence[str], cells: Sequence[str]) -> str:
    """One label of several targets; "" if all are missing."""
    for name, cell in zip(names, cells, strict=True):
        if not name or name != name.strip() or set(name) & RESERVED or JOIN in cell:
            raise LabelError(
                f"found the target {name!r} with the label {cell!r}; expected a name without any of "
                f"{' '.join(sorted(RESERVED))}, and a label without {JOIN!r}. Rename the column, or write the class in "
                "another way."
            )
    return JOIN.join(f"{n}{EQUALS}{c}" for n, c in zip(names, cells, strict=True)) if any(cells) else ""


def split_label(text: str) -> dict[str, str]:
    """Target -> label, "" if it is missing: the inverse."""
    pairs = (part.partition(EQUALS) for part in text.split(JOIN))
    return {name: label for name, _, label in pairs}


def label_of(given: object) -> str:
    """A label that was given in Python: a mapping from targets to labels, or its text."""
    if isinstance(given, Mapping):
        cells = ["" if value is None or value != value else str(value).strip() for value in given.values()]
        return join_label([str(name) for name in given], cells)
    text = str(given).strip()
    if text and not all(EQUALS in part for part in text.split(JOIN)):
        raise LabelError(f"label {text!r}: expected a mapping from targets to classes, such as {{'er': 'positive'}}.")
    return text
