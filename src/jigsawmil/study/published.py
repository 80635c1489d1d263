"""A paper's table, typed into a study file with its source, and printed as the paper prints it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config import check_type, choose, require
from ..errors import ConfigError
from .study_text import read_values

FIGURE = re.compile(r"(\d*\.?\d+)(?:\s*(?:±|\+-|\+/-)\s*(\d*\.?\d+))?")
EXPECTED = 'an AUROC such as 0.93, or "0.93 ± 0.02"'
PATCH_ROWS = ("slides", "dim", "mean", "fewest", "most")  # of `[published_patches]`: a cohort's patches per slide


@dataclass(frozen=True)
class Published:
    """A table of published figures, to print beside those of a study.

    source: paper and table. figures: cohort -> variant -> figure, digits as printed, in the paper's order.

    rows, columns: labels as printed, of the variants and cohorts that the paper calls otherwise. corner: what the paper
    prints above its rows. folds: of the paper's cross-validation.
    """

    source: str
    figures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rows: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    corner: str = ""
    folds: int | None = None

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(variant for own in self.figures.values() for variant in own))


def published_figures(path: str | Path) -> Published:
    """The paper's table in the study file, without the rest of the study: reads no data and starts nothing.

    Example: `published_figures("studies/table1-cancers.toml").figures["BRCA"]["abmil"]  # "0.884"`
    """
    return _alone(Path(path), "published", figures_in)


def published_patches(path: str | Path) -> Published:
    """The paper's statistics of patches in the study file: `dim`, `mean`, `fewest`, `most` per cohort.

    Example: `published_patches("studies/table2-encoders.toml").figures["UNI"]["mean"]  # "3278.1"`
    """
    return _alone(Path(path), "published_patches", patches_in)


def figures_in(values: Mapping[str, Any], file: str) -> Published | None:
    """From the table `[published]` of a study file, if it is there."""
    if "published" not in values:
        return None
    cohorts, variants = values.get("cohorts", {}), values.get("variants", {})
    return read_published(values["published"], cohorts, variants, f"{file}: published")


def patches_in(values: Mapping[str, Any], file: str) -> Published | None:
    """From the table `[published_patches]` of a study file, if it is there."""
    if "published_patches" not in values:
        return None
    where = f"{file}: published_patches"
    return read_published(values["published_patches"], values.get("cohorts", {}), PATCH_ROWS, where, number_text)


def figure_text(value: Any, where: str) -> str:
    """`0.93` or `0.93 ± 0.02`; refuses what is no AUROC."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    found = FIGURE.fullmatch(str(value).strip()) if number or isinstance(value, str) else None
    if found is None or float(found[1]) > 1 or float(found[2] or 0) > 1:
        raise ConfigError(f"{where}: found {value!r}, expected {EXPECTED}.")
    return found[1] if found[2] is None else f"{found[1]} ± {found[2]}"


def number_text(value: Any, where: str) -> str:
    """`3278.1`, digits as given."""
    plain = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    text = str(value).strip()
    require(where, value, plain and re.fullmatch(r"\d+(\.\d+)?", text) is not None, "a number such as 3278.1")
    return text


def read_published(
    table: Any,
    cohorts: Iterable[str],
    variants: Iterable[str],
    where: str,
    figure: Callable[[Any, str], str] = figure_text,
) -> Published:
    """A figure or label of a cohort or variant that is not in the study is an error. figure: reads one of them."""
    require(where, table, isinstance(table, dict), "a table")
    rest = dict(table)
    source = rest.pop("source", None)
    if not isinstance(source, str) or not source.strip():
        raise ConfigError(
            f'{where}: found source = {source!r}, expected the paper and table, such as "Smith 2020, Table 3".'
        )
    folds, corner = rest.pop("folds", None), rest.pop("corner", "")
    if folds is not None:
        check_type(f"{where}: folds", folds, int)
    check_type(f"{where}: corner", corner, str)
    cohorts, variants = list(cohorts), list(variants)
    labels = {}
    for key, names in (("rows", variants), ("columns", cohorts)):
        labels[key] = _entries(rest.pop(key, {}), names, f"{where}.{key}", "a table of labels, one per name")
        for name, label in labels[key].items():
            check_type(f"{where}.{key}.{name}", label, str)
    figures = {}
    for cohort, own in rest.items():
        choose(f"{where}: cohort", cohort, cohorts)
        own = _entries(own, variants, f"{where}.{cohort}", "a table of figures, one per variant")
        figures[cohort] = {name: figure(own[name], f"{where}.{cohort}.{name}") for name in own}
    return Published(source.strip(), figures, **labels, corner=corner, folds=folds)


def _entries(table: Any, names: list[str], where: str, expected: str) -> dict[str, Any]:
    require(where, table, isinstance(table, dict), expected)
    for name in table:
        choose(f"{where}: variant" if "variant" in expected else f"{where}: name", name, names)
    return dict(table)


def _alone(path: Path, key: str, read: Callable[[Mapping[str, Any], str], Published | None]) -> Published:
    values = read_values(path)
    for name in ("cohorts", "variants"):
        require(f"{path.name}: {name}", values.get(name, {}), isinstance(values.get(name, {}), dict), "a table")
    found = read(values, path.name)
    if found is None or not found.figures:
        raise ConfigError(
            f"{path}: found no figures of a paper, expected a table [{key}] with a source and figures. "
            "The paper gives figures for its tables only (studies/README.md); type in those that you have."
        )
    return found
