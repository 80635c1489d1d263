"""What was taken from a table and its features: columns, the positive class, and what the features are."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from ..bags.formats import BagInfo
from ..bags.magnification import magnification
from .positive import positive_words


class Slide(Protocol):
    @property
    def info(self) -> BagInfo: ...


@dataclass(frozen=True, kw_only=True)
class Overview:
    """columns: role -> name in the table. positive: of two classes. guessed: nobody named it. Counters:
    value -> number of slides, "unknown" for what files do not say. patches: fewest, median and most per slide; empty
    without slides."""

    columns: Mapping[str, str] = field(default_factory=dict)
    positive: str | None = None
    guessed: bool = False
    formats: Mapping[str, int] = field(default_factory=dict)
    encoders: Mapping[str, int] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, int] = field(default_factory=dict)
    mpp: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    patches: tuple[int, ...] = ()

    def lines(self) -> list[str]:
        """For people."""
        found = []
        if {"slide", "patient"} & self.columns.keys():
            found.append("Columns: " + ", ".join(f"{role} {name!r}" for role, name in self.columns.items()) + ".")
        if self.positive is not None:
            found.append(f"Positive class: {positive_words(self.positive, self.guessed)}.")
        if self.patches:
            low, middle, high = self.patches
            numbers = f"{low} patches per slide"
            if low < high:
                numbers = f"{low} to {high} patches per slide, median {middle}"
            found.append(
                f"Features: format {_counted(self.formats)}; encoder {_counted(self.encoders)}; {_counted(self.dims)} "
                f"numbers per patch, stored as {_counted(self.dtypes)}; {numbers}; "
                f"{_counted(self.sizes)}; microns per level-0 pixel: {_counted(self.mpp)}."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "patches": dict(zip(("fewest", "median", "most"), self.patches, strict=False))}


def overview(columns: Mapping[str, str], slides: Sequence[Slide], positive: str | None, guessed: bool) -> Overview:
    infos = [slide.info for slide in slides]
    counts = [info.n for info in infos]
    return Overview(
        columns=dict(columns),
        positive=positive,
        guessed=guessed,
        formats=_count(info.format for info in infos),
        encoders=_count(info.encoder for info in infos),
        dims=_count(info.dim for info in infos),
        dtypes=_count(info.dtype for info in infos),
        mpp=_count(None if info.mpp is None else f"{info.mpp:.4g}" for info in infos),
        sizes=_count(magnification(info, info.tiles).words for info in infos),
        patches=(min(counts), int(median(counts)), max(counts)) if counts else (),
    )


def _count(values: Iterable[object]) -> dict[str, int]:
    """The commonest first."""
    return dict(Counter("unknown" if value is None else str(value) for value in values).most_common())


def _counted(counts: Mapping[str, int]) -> str:
    """A value that all have, or the commonest with their numbers."""
    if len(counts) == 1:
        return next(iter(counts))
    shown = [f"{value} ({number})" for value, number in list(counts.items())[:3]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
