"""Settings as frozen dataclasses. Every impossible value is refused here, with its name and what is possible."""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import ConfigError

T = TypeVar("T")


def choose(name: str, value: Any, options: Iterable[str]) -> None:
    """Refuse a value that is not among the options, naming the nearest one."""
    options = list(options)
    if value in options:
        return
    near = difflib.get_close_matches(str(value), options, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"{name}: found {value!r}, expected one of {', '.join(options)}.{hint}")


def require(name: str, value: Any, holds: bool, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{name}: found {value!r}, expected {expected}.")


def from_mapping(cls: type[T], values: Mapping[str, Any], where: str = "settings") -> T:
    """A dataclass from a TOML or JSON table; an unknown key is an error that names the nearest known one."""
    known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in values:
        choose(f"{where}: key", key, known)
    return cls(**values)


@dataclass(frozen=True, kw_only=True)
class GraphConfig:
    """How patches are joined.

    kind: `knn` (the paper's) or `radius` (in microns, so that 20x and 40x slides agree).
    k: nearest neighbours of a patch; either of two patches may name the other.
    radius: microns; for `radius` graphs.
    sigma: scale of the Gaussian weight: `max-knn` (the largest distance in the graph; the paper's text),
        `max-nearest` (sigma^2 = the largest nearest-neighbour distance; the paper's appendix),
        or a number in units of the slide's longer side. A radius graph takes `radius` as its sigma.
    """

    kind: str = "knn"
    k: int = 50
    radius: float = 500.0
    sigma: str | float = "max-knn"

    def __post_init__(self) -> None:
        choose("graph kind", self.kind, ("knn", "radius"))
        require("k", self.k, isinstance(self.k, int) and self.k >= 1, "a whole number of at least 1")
        require("radius", self.radius, self.radius > 0, "microns above 0")
        if isinstance(self.sigma, str):
            choose("sigma", self.sigma, ("max-knn", "max-nearest"))
        else:
            require("sigma", self.sigma, self.sigma > 0, "a number above 0, or max-knn or max-nearest")
