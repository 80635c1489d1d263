"""Models that the package does not have, as methods: the factory behind a name, and the options that it takes.

A factory is called as `factory(in_dim=..., logits=..., **options)` and returns an `nn.Module` (see `nn/foreign.py`). If
it has an argument `task`, it is given the task's name.
"""

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from ..config import did_you_mean
from ..errors import ConfigError, StudyError, summarize_error

GROUP = "jigsawmil.methods"  # of entry points: name -> package.module:factory
TRUSTED = "JIGSAWMIL_METHODS"  # environment variable: modules that a model's folder may name, comma separated
ADAPTERS = {"torchmil": f"{__package__}.torchmil_models"}  # first part of a name -> our module that makes its models
GIVEN = ("in_dim", "logits")  # what every factory is given
TASK = "task"  # given to those that have an argument of this name: the name of the task


@dataclass(frozen=True)
class Factory:
    """make: the factory. path: `package.module:factory`, by which another process finds it. graph: its models need
    the graph of the patches. positions: they look at coordinates or graph."""

    make: Callable[..., Any]
    path: str
    graph: bool
    positions: bool

    @property
    def options(self) -> tuple[list[str], bool]:
        """Names of its options, and whether it takes others, too."""
        parameters = _parameters(self.make, self.path)
        names = [name for name, p in parameters.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return [n for n in names if n not in (*GIVEN, TASK)], any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def asked(self, task: str) -> dict[str, str]:
        """What it is given because it asks for it."""
        return {TASK: task} if TASK in _parameters(self.make, self.path) else {}

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse options that it does not take, naming the nearest, and the lack of one that it needs."""
        names, more = self.options
        for name in options:
            if name not in names and not more:
                known = ", ".join(names) or "none"
                raise ConfigError(
                    f"options of {self.path}: found {name!r}, expected of {known}.{did_you_mean(name, names)}"
                )
        parameters = _parameters(self.make, self.path)
        if missing := [n for n in names if n not in options and parameters[n].default is inspect.Parameter.empty]:
            raise ConfigError(f"options of {self.path}: found no {' and no '.join(missing)}, which it needs. Give it.")


def make_factory(make: Any, path: str = "", *, graph: bool | None = None, positions: bool | None = None) -> Factory:
    """graph, positions: None: as the attributes of these names of the factory say; without one, it needs no graph, and
    may look at coordinates."""
    path = path or f"{getattr(make, '__module__', '')}:{getattr(make, '__qualname__', '')}"
    if not callable(make):
        raise ConfigError(f"{path}: found {type(make).__name__}, expected a function or class that makes a model.")
    takes = _parameters(make, path)
    if not any(p.kind is p.VAR_KEYWORD for p in takes.values()) and (no := [n for n in GIVEN if n not in takes]):
        raise ConfigError(
            f"{path}: takes no {' and no '.join(no)}; expected a factory such as def build(in_dim, logits, heads=4)."
        )
    needs = bool(getattr(make, "graph", False)) if graph is None else graph
    sees = bool(getattr(make, "positions", True)) if positions is None else positions
    return Factory(make, path, needs, needs or sees)


def _parameters(make: Callable[..., Any], path: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(make).parameters
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: its arguments cannot be read ({error}); expected a Python function.") from error


def import_factory(path: str) -> Factory:
    """The factory of `package.module:factory`. The current directory is searched last."""
    module_name, _, name = path.partition(":")
    module_name = ADAPTERS.get(module_name, module_name)
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())  # as `python -m` does, but behind what is installed
    try:
        module = import_module(module_name)
    except ConfigError:
        raise  # of an adapter, whose package is missing
    except Exception as error:
        what = summarize_error(error)
        raise ConfigError(
            f"method {path}: the module {module_name} cannot be imported ({type(error).__name__}: {what}). Expected a "
            "module that is installed, or in the current directory."
        ) from error
    try:
        make = reduce(getattr, name.split("."), module)
    except AttributeError as error:
        names = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise ConfigError(
            f"method {path}: {module_name} has no {name!r}; expected a factory in it.{did_you_mean(name, names)}"
        ) from error
    return make_factory(make, path)


@cache
def entry_point_paths() -> dict[str, str]:
    """Methods that installed packages bring: name -> package.module:factory."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


def is_path(name: str) -> bool:
    """Whether a method's name is of the form `package.module:factory`."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")])


def check_trusted(name: str, where: str) -> None:
    """Refuse to import code that only a file names: whoever wrote the file would run code of their choice here.

    Methods of installed packages (entry points, and those of our adapters) are trusted. where: the file.
    """
    module = name.partition(":")[0]
    trusted = [each.strip() for each in os.environ.get(TRUSTED, "").split(",")]
    if is_path(name) and module not in ADAPTERS and not {name, module}.intersection(trusted):
        raise StudyError(
            f"{where}: the model is made by the code {name}, which is not imported because a file names it. If you "
            f"trust that code, say so: {TRUSTED}={module} in the environment, or in Python "
            f"register_method({name!r}, {name.partition(':')[2]})."
        )


def options_text(value: Any) -> str:
    """Options as a setting holds them: JSON in one form, or nothing. value: a table, or its JSON."""
    expected = "expected a table such as {heads = 4}"
    if isinstance(value, str):
        try:
            value = json.loads(value) if value else {}
        except ValueError as error:
            raise ConfigError(f"options: found {value!r}, {expected} ({error}).") from error
    if not isinstance(value, Mapping):
        raise ConfigError(f"options: found {value!r}, {expected}.")
    try:
        return json.dumps(dict(value), sort_keys=True) if value else ""
    except TypeError as error:
        raise ConfigError(f"options: found {value!r}, expected numbers, text, true or false, and lists.") from error


def options_of(text: str) -> dict[str, Any]:
    return dict(json.loads(text)) if text else {}
