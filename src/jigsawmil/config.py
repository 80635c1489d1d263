"""Settings as frozen dataclasses. Every impossible value is refused here, with its name and what is possible.

A field made by `setting` is one that people may set: its default and its help text stand there and nowhere else. The
command line, study files, `SlideClassifier`, the report and docs/settings.md are made from these fields.
"""

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, get_args

from .errors import ConfigError

T = TypeVar("T")
TYPE_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    str | float: "text or a number",
}
GRAPH, JIGSAW = "graph", "jigsaw"


class Setting(NamedTuple):
    name: str  # in the flat table of all settings; a trailing underscore avoids a word of Python
    kind: Any
    default: Any
    help: str
    option: bool  # has a command-line option of its own; all others are reached by --set
    part: str  # the part of a model that it is about, GRAPH or JIGSAW: others ignore it; empty: every model


def setting(default: Any, help: str, *, name: str = "", option: bool = False, part: str = "") -> Any:
    """A field that people may set. name: in the flat table, if it differs from the field's. part: see `Setting`."""
    return dataclasses.field(default=default, metadata={"help": help, "name": name, "option": option, "part": part})


def settings_of(config: type) -> Iterator[Setting]:
    """The settings of a config and of the configs within it, in order."""
    for field in dataclasses.fields(config):
        if isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
            yield from settings_of(field.type)
        elif "help" in field.metadata:
            name, help, option, part = (field.metadata[key] for key in ("name", "help", "option", "part"))
            yield Setting(name or field.name, field.type, field.default, help, option, part)


def flatten(config: Any) -> dict[str, Any]:
    """The values of all settings by their flat names."""
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            flat |= flatten(value)
        elif "help" in field.metadata:
            flat[field.metadata["name"] or field.name] = value
    return flat


def unflatten(config: type[T], flat: Mapping[str, Any]) -> T:
    """The config with these values, by their flat names; other names are left for other configs."""
    values = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        name = field.metadata.get("name") or field.name
        if isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
            values[field.name] = unflatten(field.type, flat)
        elif "help" in field.metadata and name in flat:
            values[field.name] = flat[name]
    return config(**values)


def choose(name: str, value: Any, options: Iterable[str]) -> None:
    """Refuse a value that is not among the options, naming the nearest one."""
    options = list(options)
    if value in options:
        return
    raise ConfigError(f"{name}: found {value!r}, expected one of {', '.join(options)}.{did_you_mean(value, options)}")


def did_you_mean(value: Any, options: Iterable[str], key: Callable[[str], str] = str) -> str:
    """A question with the nearest option, to end an error; empty if none is near. An option that begins with the value
    is nearer than any other. key: what is compared of each."""
    named, given = {key(option): option for option in options}, key(str(value))
    longer = [name for name in named if len(given) > 1 and name.startswith(given)]
    near = longer or difflib.get_close_matches(given, named, n=1, cutoff=0.4)
    return f" Did you mean {named[near[0]]!r}?" if near else ""


def one_of(names: Iterable[str]) -> str:
    """`a, b or c`"""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def require(name: str, value: Any, holds: bool, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{name}: found {value!r}, expected {expected}.")


def check_type(name: str, value: Any, kind: Any) -> None:
    """Refuse a value of another kind, as study files may hold it; a whole number is a number too."""
    whole = isinstance(value, int) and isinstance(1.0, kind)
    fits = kind is bool if isinstance(value, bool) else whole or isinstance(value, kind)
    require(name, value, fits, TYPE_WORDS[kind])


def plain_kind(kind: Any) -> Any:
    """The kind of a value that may also be None."""
    kinds = [part for part in get_args(kind) if part is not type(None)]
    return kinds[0] if len(kinds) == 1 else kind


def check_types(config: Any) -> None:
    """The same for every field of a config that holds one plain value."""
    for field in dataclasses.fields(config):
        if field.type in TYPE_WORDS:
            check_type(field.name.rstrip("_"), getattr(config, field.name), field.type)


def from_mapping(cls: type[T], values: Mapping[str, Any], where: str = "settings") -> T:
    """A dataclass from a TOML or JSON table; an unknown key is an error that names the nearest known one."""
    known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in values:
        choose(f"{where}: key", key, known)
    return cls(**values)
