"""How many patches the slides of a cohort have: what a paper says of its features."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FeatureError
from .formats import find_bags, peek_bag


@dataclass(frozen=True)
class PatchStatistics:
    """How many slides and patches a folder of features holds. dim: of a patch's features. mean, fewest, most: patches
    per slide, empty slides included.

    Example: `PatchStatistics.of([50, 70], dim=1024).mean  # 60.0`
    """

    slides: int
    dim: int
    mean: float
    fewest: int
    most: int

    @classmethod
    def of(cls, counts: Sequence[int], dim: int) -> "PatchStatistics":
        return cls(len(counts), dim, sum(counts) / len(counts), min(counts), max(counts))


def patch_statistics(folder: str | Path, *, features_key: str | None = None, **reading: Any) -> PatchStatistics:
    """Of all feature files in a folder, from their headers; the options are those of `read_bag`.

    Example: `patch_statistics("features/").most  # patches of the largest slide`
    """
    found = find_bags(folder, features_key=features_key)
    bags = [peek_bag(path, features_key=features_key, **reading) for path in found.values()]
    dims = {bag.dim: bag.path.name for bag in bags}
    if len(dims) > 1:
        several = ", ".join(f"{dim} ({name})" for dim, name in sorted(dims.items()))
        raise FeatureError(
            f"{folder}: found features with {several} columns, expected one dimension. Use one folder per encoder."
        )
    return PatchStatistics.of([bag.n for bag in bags], bags[0].dim)
