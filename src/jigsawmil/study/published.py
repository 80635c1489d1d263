"""Published figures that a study's own stand beside: typed in by whoever has the paper, with their source."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import choose, require
from ..errors import ConfigError

FIGURE = re.compile(r"(\d*\.?\d+)(?:\s*(?:±|\+-|\+/-)\s*(\d*\.?\d+))?")
EXPECTED = 'an AUC such as 0.93, or "0.93 ± 0.02"'


@dataclass(frozen=True)
class Published:
    """source: where the figures stand. figures: cohort -> variant -> `mean ± std` or `mean`, digits as printed."""

    source: str
    figures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read_published(table: Any, cohorts: Iterable[str], variants: Iterable[str], where: str) -> Published:
    """From the table `[published]` of a study file; a figure of a cohort or variant that is not run is an error."""
    require(where, table, isinstance(table, dict), "a table")
    rest = dict(table)
    source = rest.pop("source", None)
    if not isinstance(source, str) or not source.strip():
        raise ConfigError(f"{where}: found source = {source!r}, expected where the figures stand: paper and table.")
    cohorts, variants = list(cohorts), list(variants)
    figures = {}
    for cohort, own in rest.items():
        choose(f"{where}: cohort", cohort, cohorts)
        require(f"{where}.{cohort}", own, isinstance(own, dict), "a table of figures, one a variant")
        for variant in own:
            choose(f"{where}.{cohort}: variant", variant, variants)
        figures[cohort] = {variant: figure_text(value, f"{where}.{cohort}.{variant}") for variant, value in own.items()}
    return Published(source.strip(), figures)


def figure_text(value: Any, where: str) -> str:
    """`0.93` or `0.93 ± 0.02`; refuses what is no AUC."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    found = FIGURE.fullmatch(str(value).strip()) if number or isinstance(value, str) else None
    if found is None or float(found[1]) > 1 or float(found[2] or 0) > 1:
        raise ConfigError(f"{where}: found {value!r}, expected {EXPECTED}.")
    return found[1] if found[2] is None else f"{found[1]} ± {found[2]}"
