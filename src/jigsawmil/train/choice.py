"""What may be chosen inside the training patients: settings, their values, and the candidates that these make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ..config import choose, require, settings_of
from ..errors import ConfigError
from ..nn.options import METHODS, check_method, peek_method
from .settings import Settings, unused

MOST = 24  # candidates
# a study has one level; single models choose; a device changes no result; options are a table of their own
NEVER = ("level", "members", "device", "options")
PARTS = {setting.name.rstrip("_"): setting.part for setting in settings_of(Settings)}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Settings chosen within the training patients of a fold. options: values of each setting, by its flat name; the
    candidates are all combinations, and the default. folds, repeats: of the inner cross-validation. most: candidates.

    Example: `Choice(options={"k": [8, 24, 50], "conv": ["gat", "sage"]})`
    """

    options: Mapping[str, Sequence[Any]]
    folds: int = 3
    repeats: int = 2
    most: int = MOST

    def __post_init__(self) -> None:
        known = [s.name.rstrip("_") for s in settings_of(Settings) if s.name not in NEVER]
        plain = {("lambda" if name == "lambda_" else name): values for name, values in self.options.items()}
        require("choose", dict(plain), len(plain) > 0, "at least one setting, such as k = [8, 24, 50]")
        for name, values in plain.items():
            choose("choose: setting", name, known)
            distinct = isinstance(values, list | tuple) and len(set(values)) == len(values) > 0
            require(f"choose: {name}", values, distinct, "a list of distinct values, such as [8, 24, 50]")
        require("choose_folds", self.folds, self.folds >= 2, "a whole number of at least 2")
        require("choose_repeats", self.repeats, self.repeats >= 1, "a whole number of at least 1")
        require("choose_most", self.most, self.most >= 2, "a whole number of at least 2")
        object.__setattr__(self, "options", {name: tuple(values) for name, values in plain.items()})

    @property
    def trainings(self) -> int:
        """Of one candidate in one fold."""
        return self.folds * self.repeats

    def candidates(self, settings: Settings) -> dict[str, Settings]:
        """Name -> settings, the default first. A setting that the method does not use makes no candidate of its own."""
        found = {_name(settings, self.options): settings}
        if not _alike(settings):  # members that differ by design have nothing to choose
            return found
        for values in product(*self.options.values()):
            given = dict(zip(self.options, values, strict=True))
            method = given.get("method", settings.method)
            check_method(method, "choose: method")
            used = {name: value for name, value in given.items() if _matters(name, method)}
            start = _plain(settings.flat())
            if method != settings.method:
                start = {key: value for key, value in start.items() if key not in unused(method)}
                start |= _plain(peek_method(method).settings)
            try:
                candidate = Settings.from_flat({**start, **used}, "choose")
            except ConfigError as error:
                raise ConfigError(f"{error} Leave that value out of choose.") from error
            require("choose: method", method, _alike(candidate), "a method whose members do not differ by design")
            if candidate != settings:
                found.setdefault(_name(candidate, self.options), candidate)
        require(
            "choose",
            f"{len(found)} candidates",
            len(found) <= self.most,
            f"at most {self.most}: each is trained {self.trainings} times in every fold. Offer fewer values, or raise "
            "choose_most",
        )
        return found


def _matters(name: str, method: str) -> bool:
    """Whether a setting can change what a method learns."""
    return name not in unused(method) and METHODS[method].uses(name, PARTS[name])


def _name(settings: Settings, options: Mapping[str, Any]) -> str:
    """`k=8, conv=sage`: the values of what is chosen, as far as the method uses it. Also the name of a folder."""
    flat = _plain(settings.flat())
    shown = {name: flat[name] for name in options if _matters(name, settings.method)}
    return ", ".join(f"{name}={_text(value)}" for name, value in shown.items()) or settings.method


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _plain(flat: Mapping[str, Any]) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in flat.items()}


def _alike(settings: Settings) -> bool:
    """Whether all members of an ensemble have the same settings."""
    return len({repr(own) for own in settings.each_member()}) == 1
