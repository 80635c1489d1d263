"""Numbers in label tables, and groups of them that folds spread evenly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .terms import Floats, Integers


def not_numbers(texts: Sequence[str]) -> list[str]:
    """Those that are no finite number, each once."""
    return list(dict.fromkeys(text for text in texts if not _is_number(text)))


def numbers(texts: Sequence[str]) -> Floats:
    return np.array([float(text) for text in texts], dtype=np.float64)


def quantile_groups(values: Floats, groups: int) -> Integers:
    """(value,): 0 for the lowest, groups - 1 for the highest; groups of equal size, however many values are equal."""
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(values, kind="stable")] = np.arange(len(values))
    return rank * groups // max(1, len(values))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False
