"""Clinical covariates: numbers and categories that a label table says about a patient, such as age, sex and stage."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..bags.bag import Bag
from ..errors import LabelError
from ..tasks.numeric import not_numbers
from .tables import is_unknown

MANY = 20  # categories, above which a column is rather an identifier
OPTION = "--covariates"


class Covariate(NamedTuple):
    """A column of the label table. levels: its categories; none for a number."""

    name: str
    levels: tuple[str, ...] = ()


def covariate_names(text: str | None) -> list[str]:
    """`age, sex` as names."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if double := sorted({name for name in names if names.count(name) > 1}):
        raise LabelError(f"{OPTION}: {', '.join(double)} is named twice. Name each column once.")
    return names


def recognise(name: str, cells: Iterable[str]) -> Covariate:
    """What a column holds: numbers if all known cells are numbers, categories if none is."""
    known = list(dict.fromkeys(cell for cell in cells if not is_unknown(cell)))
    words = not_numbers(known)
    if not known:
        raise LabelError(f"{OPTION}: the column {name!r} is empty. Leave it out.")
    if len(known) == 1:
        raise LabelError(
            f"{OPTION}: the column {name!r} is {known[0]!r} in every row, which carries no information. Leave it out."
        )
    if not words:
        return Covariate(name)
    if len(words) < len(known):
        raise LabelError(
            f"{OPTION}: the column {name!r} holds numbers and also {_some(words)}; expected numbers only, or "
            "categories only. Correct these cells or leave them empty; write categories as words (such as G1, G2)."
        )
    if len(known) > MANY:
        raise LabelError(
            f"{OPTION}: the column {name!r} has {len(known)} categories ({_some(known)}); expected at most {MANY}. "
            "Name another column, or join categories."
        )
    return Covariate(name, tuple(sorted(known)))


def check_patients(name: str, cells: Iterable[tuple[str, str]]) -> None:
    """Refuse patients whose slides say different things. cells: patient and cell of each slide."""
    first: dict[str, str] = {}
    for patient, cell in cells:
        if (one := first.setdefault(patient, cell)) != cell:
            raise LabelError(
                f"{OPTION}: slides of patient {patient} have {name} {one!r} and {cell!r}; expected one value per "
                "patient. Correct the table."
            )


def coded(columns: Sequence[Covariate], cells: Sequence[str]) -> tuple[float, ...]:
    """Numbers of the cells of one slide: a value, or the index of a category; nan for what is not known.

    A category that the columns lack is not known: `unknown_categories` names it.
    """
    values = []
    for column, cell in zip(columns, cells, strict=True):
        if is_unknown(cell):
            values.append(math.nan)
        elif column.levels:
            values.append(float(column.levels.index(cell)) if cell in column.levels else math.nan)
        elif not_numbers([cell]):
            raise LabelError(f"{OPTION}: {column.name} is {cell!r}; expected a number, or an empty cell.")
        else:
            values.append(float(cell))
    return tuple(values)


def unknown_categories(columns: Sequence[Covariate], rows: Iterable[Sequence[str]]) -> list[str]:
    """What a model does not know, in words, one line per column."""
    found: dict[str, dict[str, int]] = {}
    for cells in rows:
        for column, cell in zip(columns, cells, strict=True):
            if column.levels and cell not in column.levels and not is_unknown(cell):
                counts = found.setdefault(column.name, {})
                counts[cell] = counts.get(cell, 0) + 1
    return [
        f"{name}: the model does not know {', '.join(f'{cell!r} ({n} slides)' for cell, n in cells.items())}; it takes "
        "them as missing."
        for name, cells in found.items()
    ]


def covariates_of_bags(bags: Iterable[Bag]) -> list[str]:
    """Names of what is known of the patients of some bags."""
    return list(dict.fromkeys(name for bag in bags for name in bag.covariates or {}))


def cell_text(value: Any) -> str:
    """A covariate given in Python, as a cell."""
    text = "" if value is None else str(value).strip()
    return "" if is_unknown(text) else text


def columns_text(columns: Sequence[Covariate]) -> str:
    """As a model's configuration holds them; empty without any."""
    return json.dumps([[column.name, list(column.levels)] for column in columns]) if columns else ""


def columns_of(text: str) -> tuple[Covariate, ...]:
    return tuple(Covariate(name, tuple(levels)) for name, levels in json.loads(text)) if text else ()


def cells_of(columns: Sequence[Covariate], known: Mapping[str, Any] | None, slide_id: str) -> list[str]:
    """The cells of a slide for a model; "" for None, as for an empty cell."""
    if known is None or any(column.name not in known for column in columns):
        lacking = [column.name for column in columns if known is None or column.name not in known]
        raise LabelError(
            f"{slide_id}: the model uses {', '.join(lacking)}, which the slide comes without. Give the table that "
            "has it (--labels), or Bag(covariates={...}) in Python; a cell may be empty."
        )
    return [cell_text(known[column.name]) for column in columns]


def _some(values: Sequence[str]) -> str:
    return ", ".join(map(repr, values[:5])) + (f" and {len(values) - 5} more" if len(values) > 5 else "")
