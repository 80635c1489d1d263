"""A study: cohorts x variants x folds x seeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..bags.join import one_folder
from ..cohort.cohort import Cohort
from ..cohort.options import FOLDS, TARGET, CohortOptions
from ..config import check_types, choose, from_mapping, require
from ..errors import ConfigError, JigsawmilError
from ..nn.options import COVARIATES, peek_method
from ..synthetic.standins import StandIn
from ..train.choice import Choice
from ..train.settings import Settings
from .published import Published

CHOSEN = "chosen"  # ends the name of a variant that chooses, beside the one with default settings


@dataclass(frozen=True)
class CohortSpec:
    """Where a cohort comes from, and how it is read."""

    labels: str
    features: str
    options: CohortOptions = field(default_factory=CohortOptions)

    def read(self) -> Cohort:
        return Cohort.read(self.labels, self.features, **self.options.given())


@dataclass(frozen=True, kw_only=True)
class Study:
    """What to run: cohorts, variants, folds and seeds. `splits`: a cohort's own folds from a file. by_site: folds
    keep the slides of a site together.

    standins: numbers of a cohort that a phantom may have in its place. phantom: the cohorts are such stand-ins.
    references: of a cohort, class -> an image of its known morphology, for the attention figure.
    published: figures to print beside those of the study. file: where the study was read from.
    choices: of a variant, the settings that are chosen inside the training patients of each fold; see `with_choices`.
    """

    cohorts: Mapping[str, CohortSpec]
    variants: Mapping[str, Settings]
    choices: Mapping[str, Choice] = field(default_factory=dict)
    folds: int = FOLDS
    seeds: tuple[int, ...] = (0,)
    splits: Mapping[str, str] = field(default_factory=dict)
    by_site: bool = False
    shuffle_control: bool = False
    attention: bool = False
    memory_gb: float = 4.0
    standins: Mapping[str, StandIn] = field(default_factory=dict)
    phantom: bool = False
    references: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    published: Published | None = None
    file: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_types(self)
        require("cohorts", list(self.cohorts), len(self.cohorts) > 0, "at least one")
        require("variants", list(self.variants), len(self.variants) > 0, "at least one")
        require("folds", self.folds, self.folds >= 2, "a whole number of at least 2")
        whole = all(type(seed) is int and seed >= 0 for seed in self.seeds)
        distinct = whole and len(set(self.seeds)) == len(self.seeds) > 0
        require("seeds", list(self.seeds), distinct, "distinct whole numbers of at least 0")
        levels = {name: settings.level for name, settings in self.variants.items()}
        require("level", levels, len(set(levels.values())) == 1, "one level for all variants, or two studies")
        require("memory_gb", self.memory_gb, self.memory_gb >= 0, "a number of at least 0")
        for name, choice in self.choices.items():
            choose("choices: variant", name, self.variants)
            choice.candidates(self.variants[name])  # refuses what is impossible
        for name in [*self.cohorts, *self.variants]:
            fine = name and name == name.strip(". ") and name.isprintable() and not set(name) & set('/\\:*?"<>|')
            require("name", name, bool(fine), "one that can be a folder's")


def with_choices(
    variants: Mapping[str, Settings], choices: Mapping[str, Choice], *, default: bool = True
) -> dict[str, Any]:
    """`variants` and `choices` of a study in which these variants choose settings: `NAME, chosen` beside `NAME`, which
    has the default settings. A method that uses none of the settings has nothing to choose, and stays as it is.

    default: run the variant with default settings, too. Without it, `NAME` itself is the one that chooses.

    Example: `Study(cohorts=..., **with_choices(variants, {"graph-abmil": Choice(options={"k": [8, 50]})}))`
    """
    own: dict[str, Settings] = {}
    chosen: dict[str, Choice] = {}
    for name, settings in variants.items():
        choosing = name in choices and len(choices[name].candidates(settings)) > 1
        if not choosing or default:
            own[name] = settings
        if choosing:
            own[title := f"{name}, {CHOSEN}" if default else name] = settings
            chosen[title] = choices[name]
    if choices and not chosen:
        options = list(next(iter(choices.values())).options)
        raise ConfigError(
            f"choose: none of {', '.join(variants)} can choose {', '.join(options)}: it does not use them, or is a "
            "committee, whose members have their own values. Add a method that can, or leave choose out."
        )
    return {"variants": own, "choices": chosen}


def with_covariates(variants: Mapping[str, Settings]) -> dict[str, Settings]:
    """The covariates alone, then each variant without and with them: NAME and NAME+covariates. So what a slide adds to
    the covariates, and they to it, are differences between variants. Models from elsewhere cannot be joined to them.

    Example: `Study(cohorts=..., variants=with_covariates({"abmil": Settings(method="abmil")}))`
    """
    own = [settings for settings in variants.values() if not peek_method(settings.method).foreign]
    if not own:
        raise ConfigError(
            f"covariates: {', '.join(variants)}: models from elsewhere cannot use them. Add a method such as abmil."
        )
    shared = {name: own[0].flat()[name] for name in ("level", "loss", "class_weights", "device")}
    found = {COVARIATES: Settings(method=COVARIATES, **shared)}
    for name, settings in variants.items():
        if settings.method == COVARIATES:
            continue
        found[name] = settings
        if settings in own:
            found[f"{name}+{COVARIATES}"] = settings.replace(covariates=True)
    return found


def default_of(variant: str) -> str | None:
    """The variant with default settings beside one that chooses; None if the name is not that of such a variant."""
    ending = f", {CHOSEN}"
    return variant.removesuffix(ending) if variant.endswith(ending) else None


def on_standins(study: Study, folder: Path) -> Study:
    """The same study on phantoms under `folder`, one per cohort; their names say what they are, in every table.

    What belongs to the real cohorts stays with them: columns and units of their files, their folds, reference images.
    Published figures stay under the names of the real cohorts: a table of their own.
    """
    missing = [name for name in study.cohorts if name not in study.standins]
    if missing:
        tables = ", ".join(f"[cohorts.{name}.standin]" for name in missing)
        raise ConfigError(
            f"No stand-in for {', '.join(missing)}; expected {tables} with n, patches, dim, classes, balance."
        )
    if study.by_site:
        raise ConfigError("by_site: synthetic stand-ins have no sites. Leave it out, or run on the real cohorts.")
    cohorts = {}
    for name, spec in study.cohorts.items():
        labels, features = folder / name / "labels.csv", folder / name / "features"
        cohorts[f"phantom {name}"] = CohortSpec(str(labels), str(features), spec.options.only(TARGET))
    return replace(study, cohorts=cohorts, splits={}, references={}, phantom=True)


def cohort_spec(values: Mapping[str, Any], where: str = "cohort") -> CohortSpec:
    """The cohort of a study: `labels`, `features` (a folder, or a list of them, which are joined), and the options of
    `Cohort.read`. where: names it in errors.

    Example: `cohort_spec({"labels": "labels.csv", "features": "features/", "positive": "tumour"})`
    """
    options = dict(values)
    missing = [key for key in ("labels", "features") if not options.get(key)]
    if missing:
        raise ConfigError(f"{where}: no {' and no '.join(missing)}; expected a label table and a folder of features.")
    labels = str(options.pop("labels"))
    try:
        features = str(one_folder(options.pop("features")))
    except JigsawmilError as error:
        raise ConfigError(f"{where}: features: {error}") from error
    return CohortSpec(labels, features, from_mapping(CohortOptions, options, where))
