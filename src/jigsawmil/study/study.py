"""A study: cohorts x variants x folds x seeds, expanded to jobs and run."""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..cohort.cohort import Cohort
from ..cohort.split_files import read_splits, write_folds
from ..cohort.splits import Fold, check_folds, make_folds
from ..config import check_type, check_types, choose, require
from ..errors import ConfigError, JigsawmilError, StudyError
from ..graph import GraphConfig
from ..synthetic.standins import StandIn, read_standin
from ..train.settings import Settings, check_names
from .executors import Event, Listener, run_local
from .gather import Result, by_reason, gather, whole
from .job import CohortSpec, Job, check_patients, fingerprint
from .lock import alone_in
from .published import Published, read_published

STUDY_KEYS = ("folds", "seeds", "by_site", "shuffle_control", "attention", "memory_gb")
COHORT_KEYS = {
    **dict.fromkeys(("labels", "features", "slide_table", "splits", "slide_column", "patient_column"), str),
    **dict.fromkeys(("label_column", "site_column", "sheet", "positive", "task", "unit"), str),
    **dict.fromkeys(("ordinal", "skip_missing"), bool),
    **dict.fromkeys(("mpp", "patch_size"), float),
}
PATHS = ("labels", "features", "slide_table", "splits")
DEFAULTS = Settings().flat()
Executor = Callable[[Sequence[Job], Mapping[str, Cohort], Path, Listener], None]
Folds = Mapping[tuple[str, int], list[Fold]]  # of a cohort and a seed


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is run. `splits`: a cohort's own folds from a file. by_site: folds keep the slides of a site together.

    standins: numbers of a cohort that a phantom may have in its place. phantom: the cohorts are such stand-ins.
    published: figures that those of the study are to stand beside.
    """

    cohorts: Mapping[str, CohortSpec]
    variants: Mapping[str, Settings]
    folds: int = 3
    seeds: tuple[int, ...] = (0,)
    splits: Mapping[str, str] = field(default_factory=dict)
    by_site: bool = False
    shuffle_control: bool = False
    attention: bool = False
    memory_gb: float = 4.0
    standins: Mapping[str, StandIn] = field(default_factory=dict)
    phantom: bool = False
    published: Published | None = None

    def __post_init__(self) -> None:
        check_types(self)
        require("cohorts", list(self.cohorts), len(self.cohorts) > 0, "at least one")
        require("variants", list(self.variants), len(self.variants) > 0, "at least one")
        require("folds", self.folds, self.folds >= 2, "a whole number of at least 2")
        whole = all(type(seed) is int and seed >= 0 for seed in self.seeds)
        distinct = len(set(self.seeds)) == len(self.seeds) > 0
        require("seeds", list(self.seeds), whole and distinct, "distinct whole numbers of at least 0")
        levels = {name: settings.level for name, settings in self.variants.items()}
        require("level", levels, len(set(levels.values())) == 1, "one level for all variants, or two studies")
        require("memory_gb", self.memory_gb, self.memory_gb >= 0, "a number of at least 0")
        for name in [*self.cohorts, *self.variants]:
            fine = name and name == name.strip(". ") and not set(name) & set('/\\:*?"<>|')
            require("name", name, bool(fine), "one that can be a folder's")


def read_study(path: str | Path) -> Study:
    """A study from TOML; paths in it are relative to the file. An unknown key is an error that names it."""
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
        table = {key: str(path.parent / value) if key in PATHS else value for key, value in table.items()}
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
        return Study(cohorts=cohorts, variants=variants, splits=splits, standins=standins, published=figures, **values)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from error


def on_standins(study: Study, folder: Path) -> Study:
    """The same study on phantoms under `folder`, a folder a cohort; their names say what they are, in every table.

    What belongs to the real cohorts stays with them: columns and units of their files, their folds, published figures.
    """
    missing = [name for name in study.cohorts if name not in study.standins]
    if missing:
        tables = ", ".join(f"[cohorts.{name}.standin]" for name in missing)
        raise ConfigError(
            f"No stand-in for {', '.join(missing)}; expected {tables} with n, patches, dim, classes, balance."
        )
    if study.by_site:
        raise ConfigError("by_site: stand-ins come from no site. Leave it out, or run on the real cohorts.")
    cohorts = {}
    for name, spec in study.cohorts.items():
        options = tuple((key, value) for key, value in spec.options if key in ("positive", "ordinal", "task"))
        cohorts[f"phantom {name}"] = CohortSpec(
            str(folder / name / "labels.csv"), str(folder / name / "features"), options
        )
    published = study.published and replace(study.published, figures={})
    return replace(study, cohorts=cohorts, splits={}, published=published, phantom=True)


def _table(value: Any, where: str) -> dict[str, Any]:
    require(where, value, isinstance(value, dict), "a table")
    return value


def cohort_spec(values: Mapping[str, Any], where: str = "cohort") -> CohortSpec:
    """The cohort of a study: `labels`, `features`, and the options of `Cohort.read`. where: names it in errors.

    Example: `cohort_spec({"labels": "labels.csv", "features": "features/", "positive": "tumour"})`
    """
    options = dict(values)
    missing = [key for key in ("labels", "features") if key not in options]
    if missing:
        raise ConfigError(f"{where}: no {' and no '.join(missing)}; expected a label table and a folder of features.")
    labels, features = str(options.pop("labels")), str(options.pop("features"))
    return CohortSpec(labels, features, tuple(sorted((k, v) for k, v in options.items() if v is not None)))


def run_study(
    study: Study,
    out: str | Path,
    *,
    processes: int = 1,
    listen: Listener = lambda event: None,
    on_plan: Callable[[list[Job], int], None] = lambda jobs, done: None,
    executor: Executor | None = None,
) -> Result:
    """Do what is missing in the folder `out`, then gather its tables. processes: of this machine, which share
    memory_gb. executor: runs the jobs elsewhere, such as `cluster.studies.run_on_ray`; each then has all of memory_gb.
    """
    require("processes", processes, processes == 1 or executor is None, "1 with an executor, which starts its own")
    out = Path(out)
    cohorts, folds = _prepare(study)
    _make_folder(out)  # nothing is written before everything is known to be possible
    with alone_in(out):
        jobs = _expand(study, cohorts, folds, out, processes)
        refuse_other_settings(jobs)
        missing = [job for job in jobs if not job.done]
        on_plan(jobs, len(jobs) - len(missing))
        failed: dict[str, str] = {}

        def note(event: Event) -> None:
            if event.error is not None:
                failed[event.job.name] = event.error
            listen(event)

        if executor is not None:
            executor(missing, cohorts, out, note)
        else:
            run_local(missing, processes, note)
        if failed and not any(whole([job for job in jobs if not job.shuffled], name) for name in cohorts):
            told = "\n".join(f"{', '.join(names)}:\n{why}" for why, names in by_reason(failed).items())
            raise StudyError(f"{len(failed)} of {len(jobs)} jobs failed, and no method is whole.\n{told}")
        published = asdict(study.published) if study.published else None
        about = {"by_site": study.by_site, "phantom": study.phantom, "published": published}
        return gather(out, jobs, cohorts, failed, about)


def plan(study: Study, out: Path, processes: int = 1) -> tuple[list[Job], dict[str, Cohort]]:
    """Read the cohorts, make or reuse the folds, and list every job of the study in the order of running."""
    cohorts, folds = _prepare(study)
    _make_folder(out)
    return _expand(study, cohorts, folds, out, processes), cohorts


def _prepare(study: Study) -> tuple[dict[str, Cohort], Folds]:
    """All that can be known without a run folder."""
    cohorts = {name: spec.read() for name, spec in study.cohorts.items()}
    if any(settings.level == "patient" for settings in study.variants.values()):
        for cohort in cohorts.values():
            check_patients(cohort)
    return cohorts, {
        (name, seed): _folds(study, name, cohort, seed) for name, cohort in cohorts.items() for seed in study.seeds
    }


def _expand(study: Study, cohorts: Mapping[str, Cohort], folds: Folds, out: Path, processes: int) -> list[Job]:
    """Every job in the order of running, on the folds that the run folder has or is given here."""
    _keep_folds(study, cohorts, folds, out)
    jobs = []
    for name, cohort in cohorts.items():
        mark = fingerprint(cohort)
        for shuffled in (False, True) if study.shuffle_control else (False,):
            for variant, settings in study.variants.items():
                for seed in study.seeds:
                    for number, fold in enumerate(folds[name, seed]):
                        jobs.append(
                            Job(
                                cohort=name,
                                source=study.cohorts[name],
                                fingerprint=mark,
                                variant=variant,
                                settings=settings,
                                graph=_graph_for(settings, study.variants.values()),
                                fold=number,
                                split=fold,
                                seed=seed,
                                shuffled=shuffled,
                                attention=study.attention and not shuffled,
                                memory_gb=study.memory_gb / max(1, processes),
                                folder=job_folder(out, name, variant, seed, number, shuffled),
                            )
                        )
    return jobs


def job_folder(out: Path, cohort: str, variant: str, seed: int, fold: int, shuffled: bool) -> Path:
    root = out / "control" / "jobs" if shuffled else out / "jobs"
    return root / cohort / variant / f"seed{seed}-fold{fold}"


def refuse_other_settings(jobs: Sequence[Job]) -> None:
    """Results of other settings, folds or labels are never mixed with these."""
    for job in jobs:
        if not job.done:
            continue
        try:
            found, wanted = dict(json.loads((job.folder / "job.json").read_text())["spec"]), job.spec
        except (ValueError, KeyError, TypeError) as error:
            raise StudyError(f"{job.folder}: job.json is damaged ({error!r}). Remove that folder.") from error
        found = {**DEFAULTS, **found}  # a run of a version that did not know a setting had its default
        changed = [_change(key, found.get(key), wanted[key]) for key in wanted if found.get(key) != wanted[key]]
        if job.attention and not (job.folder / "attention.safetensors").is_file():
            changed.append("attention was not kept")
        if changed:
            raise StudyError(
                f"{job.folder} holds results of other settings ({', '.join(changed)}). Give another --out, or remove "
                "that folder."
            )


def _change(key: str, found: Any, wanted: Any) -> str:
    words = {"cohort": "the cohort's slides, patients or labels were others", "folds": "the folds were others"}
    return words.get(key, f"{key.rstrip('_')} was {found!r}, is {wanted!r}")


def _graph_for(settings: Settings, variants: Iterable[Settings]) -> GraphConfig | None:
    """Methods without a graph share the slides prepared for those with one, so that slides are read once."""
    if settings.needs_graph:
        return settings.graph
    kin = [v for v in variants if v.needs_graph and (v.model.grid, v.level) == (settings.model.grid, settings.level)]
    return kin[0].graph if kin else None


def _folds(study: Study, name: str, cohort: Cohort, seed: int) -> list[Fold]:
    """The folds of a cohort, from a given file or made."""
    ids, patients = list(cohort.slide_ids), list(cohort.patients)
    if name in study.splits:
        folds = read_splits(study.splits[name], ids, patients)
        check_folds(folds, ids, patients)
    else:
        sites = list(cohort.sites) if study.by_site else None
        if study.by_site and not all(cohort.sites):
            raise JigsawmilError(
                f"{name}: by_site, but the site of some slides is unknown. Name its column (site_column); TCGA "
                "barcodes carry it."
            )
        folds = make_folds(ids, patients, cohort.stratum_names, folds=study.folds, seed=seed, sites=sites)
    return folds


def _make_folder(out: Path) -> None:
    try:
        (out / "jobs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(f"{out}: cannot be written ({error.strerror}). Choose another --out.") from error


def _keep_folds(study: Study, cohorts: Mapping[str, Cohort], folds: Folds, out: Path) -> None:
    """Write the folds that the run folder lacks; never others than those it has."""
    lacking = []
    for (name, seed), parts in folds.items():
        path, cohort = _folds_file(study, name, seed, out), cohorts[name]
        ids, patients = list(cohort.slide_ids), list(cohort.patients)
        if not path.exists():
            lacking.append((parts, path, ids, patients, None if name in study.splits else seed))
        elif read_splits(path, ids, patients) != parts:
            raise StudyError(
                f"{path} holds other folds than this study asks for: the labels, the number of folds, the seed, "
                "by_site or splits have changed since. Give another --out; to keep those folds, name that file as "
                "splits."
            )
    for parts, path, ids, patients, made_by in lacking:
        write_folds(parts, path, ids, patients, seed=made_by)


def _folds_file(study: Study, name: str, seed: int, out: Path) -> Path:
    single = len(study.cohorts) == 1 and len(study.seeds) == 1
    return out / ("folds.json" if single else f"folds-{name}-seed{seed}.json")
