"""A study read from a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..cohort.options import PATH_OPTIONS, CohortOptions
from ..config import check_type, choose, plain_kind, require, settings_of
from ..errors import ConfigError
from ..synthetic.standins import read_standin
from ..train.choice import Choice
from ..train.presets import DEFAULT_PRESET, preset_folds
from ..train.settings import Settings, check_names, unused
from .published import figures_in, patches_in
from .study import Study, cohort_spec, with_choices
from .study_text import read_values

STUDY_KEYS = ("folds", "seeds", "by_site", "shuffle_control", "attention", "memory_gb")
CHOOSE_KEYS = {"choose_folds": int, "choose_repeats": int, "choose_most": int, "choose_only": bool}
TABLES = ("cohorts", "variants", "defaults", "published", "published_patches")
PATHS = ("labels", "features", "splits")
COHORT_KEYS = dict.fromkeys(PATHS, str) | {s.name: plain_kind(s.kind) for s in settings_of(CohortOptions)}


def read_study(path: str | Path, settings: Mapping[str, Any] | None = None) -> Study:
    """A study from TOML or YAML; paths in it are relative to the file. An unknown key is an error that names it.

    settings: of all variants that use them, over what the file says.

    Example: `read_study("studies/table5-k.toml").variants`
    """
    path = Path(path)
    values = read_values(path)
    cohort_tables, variant_tables, defaults = (
        dict(_table(values.get(key, {}), f"{path.name}: {key}")) for key in ("cohorts", "variants", "defaults")
    )
    for key in values:
        choose(f"{path.name}: key", key, (*TABLES, *STUDY_KEYS, *CHOOSE_KEYS))
    cohorts, splits, standins, references = {}, {}, {}, {}
    for name, table in cohort_tables.items():
        where = f"{path.name}: cohorts.{name}"
        table = dict(_table(table, where))
        if "standin" in table:
            standins[name] = read_standin(table.pop("standin"), f"{where}.standin")
        if "reference" in table:
            references[name] = _references(table.pop("reference"), path.parent, f"{where}.reference")
        for key, value in table.items():
            choose(f"{where}: key", key, (*COHORT_KEYS, "standin", "reference"))
            for one in value if key == "features" and isinstance(value, list) else [value]:
                check_type(f"{where}: {key}", one, COHORT_KEYS[key])
        table = {
            key: _below(path.parent, value) if key in (*PATHS, *PATH_OPTIONS) else value for key, value in table.items()
        }
        if "splits" in table:
            splits[name] = table.pop("splits")
        cohorts[name] = cohort_spec(table, where)
    offered = defaults.pop("choose", {})
    check_names(defaults, f"{path.name}: defaults")  # a mistake in them is theirs, not the first variant's
    variants, choices = {}, {}
    over = settings or {}
    check_names(over, "--set")
    for name, table in variant_tables.items():
        where = f"{path.name}: variants.{name}"
        own = {"method": defaults.get("method", name), **_table(table, where)}
        others = unused(str(own["method"]))  # defaults that are for other variants
        table = {"choose": offered, **{key: value for key, value in defaults.items() if key not in others}, **own}
        table |= {key: value for key, value in over.items() if key not in others}
        options = _table(table.pop("choose"), f"{where}.choose")
        variants[name] = Settings.from_flat(table, where)
        if options:
            choices[name] = _choice(options, values, where)
    _check_over(over, [own.method for own in variants.values()])
    published = figures_in(values, path.name)
    patches_in(values, path.name)  # `jigsawmil patches` prints them; a mistake in them is an error in any case
    given = {key: values[key] for key in STUDY_KEYS if key in values}
    given.setdefault("folds", preset_folds(defaults.get("preset", DEFAULT_PRESET), f"{path.name}: defaults: preset"))
    if "seeds" in given:
        require(f"{path.name}: seeds", given["seeds"], isinstance(given["seeds"], list), "a list such as [0, 1]")
        given["seeds"] = tuple(given["seeds"])
    try:
        return Study(
            cohorts=cohorts,
            **with_choices(variants, choices, default=not values.get("choose_only", False)),
            splits=splits,
            standins=standins,
            references=references,
            published=published,
            file=str(path),
            **given,
        )
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from error


def _check_over(settings: Mapping[str, Any], methods: Sequence[str]) -> None:
    """Of settings for all variants, one that none of their methods uses, or the method itself, is refused."""
    for key in settings:
        if key in ("method", "preset"):
            raise ConfigError(f"--set {key}: variants differ in this setting. Change the study file.")
        if all(key in unused(method) for method in methods):
            raise ConfigError(f"--set {key}: none of {', '.join(methods)} uses this setting. Leave it out.")


def _choice(options: dict[str, Any], values: dict[str, Any], where: str) -> Choice:
    """What a variant chooses from. values: of the study file, which says how for all variants."""
    given = {key: values[key] for key in CHOOSE_KEYS if key in values}
    for key, value in given.items():
        check_type(f"{where}: {key}", value, CHOOSE_KEYS[key])
    given.pop("choose_only", None)
    try:
        return Choice(options=options, **{key.removeprefix("choose_"): value for key, value in given.items()})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _references(value: Any, folder: Path, where: str) -> dict[str, str]:
    """Class -> image; each is there and can be opened."""
    from PIL import Image

    found = {}
    for name, given in _table(value, where).items():
        check_type(f"{where}: {name}", given, str)
        image = (folder / given).resolve()
        try:
            Image.open(image).close()
        except OSError as error:
            what = "no such file" if isinstance(error, FileNotFoundError) else "not an image that can be read"
            raise ConfigError(
                f"{where}: {name}: {image}: {what}; expected a PNG, JPEG or TIFF of the known morphology of {name}. "
                "Put it there, or leave the line out."
            ) from error
        found[name] = str(image)
    return found


def _table(value: Any, where: str) -> dict[str, Any]:
    require(where, value, isinstance(value, dict), "a table")
    return value


def _below(folder: Path, value: str | list[str]) -> str | list[str]:
    return str(folder / value) if isinstance(value, str) else [str(folder / one) for one in value]
