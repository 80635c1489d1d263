"""Settings as frozen dataclasses. Every impossible value is refused here, with its name and what is possible."""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
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
