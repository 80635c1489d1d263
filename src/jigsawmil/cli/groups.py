"""A verb takes a group of options as one argument: a dataclass whose fields become options."""

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_args, get_type_hints


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Let a verb take a group of options as one argument: its fields become the verb's, in a panel of --help."""
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(verb, include_extras=True)
    for name, parameter in inspect.signature(verb).parameters.items():
        group = hints[name]
        if not (isinstance(group, type) and is_dataclass(group)):
            parameters.append(parameter.replace(annotation=group))
            continue
        groups[name] = group
        inner = get_type_hints(group, include_extras=True)
        for field in fields(group):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            shown = _in_panel(inner[field.name], (group.__doc__ or "").rstrip("."))
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(field.name, keyword, default=default, annotation=shown))

    @functools.wraps(verb)
    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        verb(**given)

    ordered = sorted(parameters, key=lambda p: p.kind is inspect.Parameter.KEYWORD_ONLY)
    call.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in ordered}
    return call


def _in_panel(annotation: Any, title: str) -> Any:
    """The same option, shown under a title; a copy, for verbs share options."""
    kind, option = get_args(annotation)
    option = copy.copy(option)
    option.rich_help_panel = title
    return Annotated[kind, option]
