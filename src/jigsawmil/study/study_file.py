"""A study read from a TOML file."""

import tomllib
from pathlib import Path
from typing import Any

from ..cohort.options import PATH_OPTIONS, CohortOptions
from ..config import check_type, choose, plain_kind, require, settings_of
from ..errors import ConfigError
from ..synthetic.standins import read_standin
from ..train.settings import Settings, check_names
from .published import read_published
from .study import Study, cohort_spec

STUDY_KEYS = ("folds", "seeds", "by_site", "shuffle_control", "attention", "memory_gb")
PATHS = ("labels", "features", "splits")
COHORT_KEYS = dict.fromkeys(PATHS, str) | {s.name: plain_kind(s.kind) for s in settings_of(CohortOptions)}


def read_study(path: str | Path) -> Study:
    """A study from TOML; paths in it are relative to the file. An unknown key is an error that names it.

    Example: `read_study("studies/table5-k.toml").variants`
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); expected a study file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file ({error}).") from error
    cohort_tables, variant_tables, defaults = (
        _table(values.pop(key, {}), f"{path.name}: {key}") for key in ("cohorts", "variants", "defaults")
    )
    published = values.pop("published", None)
    for key in values:
        choose(f"{path.name}: key", key, ("cohorts", "variants", "defaults", "published", *STUDY_KEYS))
    cohorts, splits, standins = {}, {}, {}
    for name, table in cohort_tables.items():
        where = f"{path.name}: cohorts.{name}"
        table = dict(_table(table, where))
        if "standin" in table:
            standins[name] = read_standin(table.pop("standin"), f"{where}.standin")
        for key, value in table.items():
            choose(f"{where}: key", key, (*COHORT_KEYS, "standin"))
            check_type(f"{where}: {key}", value, COHORT_KEYS[key])
        table = {
            key: str(path.parent / value) if key in (*PATHS, *PATH_OPTIONS) else value for key, value in table.items()
        }
        if "splits" in table:
            splits[name] = table.pop("splits")
        cohorts[name] = cohort_spec(table, where)
    check_names(defaults, f"{path.name}: defaults")  # a mistake in them is theirs, not the first variant's
    variants = {}
    for name, table in variant_tables.items():
        where = f"{path.name}: variants.{name}"
        variants[name] = Settings.from_flat({"method": name, **defaults, **_table(table, where)}, where)
    if "seeds" in values:
        require(f"{path.name}: seeds", values["seeds"], isinstance(values["seeds"], list), "a list such as [0, 1]")
        values["seeds"] = tuple(values["seeds"])
    figures = None
    if published is not None:
        figures = read_published(published, cohorts, variants, f"{path.name}: published")
    try:
        return Study(
            cohorts=cohorts,
            variants=variants,
            splits=splits,
            standins=standins,
            published=figures,
            file=str(path),
            **values,
        )
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from error


def _table(value: Any, where: str) -> dict[str, Any]:
    require(where, value, isinstance(value, dict), "a table")
    return value
