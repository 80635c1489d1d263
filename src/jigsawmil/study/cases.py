"""Maps of the slides of a run, each by the model that never saw the slide."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..bags.bag import Bag
from ..cohort.labels import group_slides
from ..config import choose
from ..maps.patch_maps import PatchMaps, explain_patient
from ..nn.model import Model
from ..train.checkpoint import ModelCard, load_members
from ..train.ensemble import Ensemble, Weights
from .run import Run, RunJob, weights_of
from .run_folder import JobFolder


class Case(NamedTuple):
    """What a run predicts as one: a slide, or all slides of a patient. jobs: those that had it in their test fold: one,
    or the members of an ensemble."""

    name: str
    slides: tuple[str, ...]
    jobs: tuple[RunJob, ...]


def cases(run: Run, cohort: str, *, variant: str | None = None, seed: int | None = None) -> list[Case]:
    """All that a variant (None: the last of the study) predicted out of fold, in the order of slides.csv.

    seed: None = the first.
    """
    choose("cohort", cohort, run.cohorts)
    variant = run.variants[-1] if variant is None else variant
    choose("variant", variant, run.variants)
    table = run.predictions
    rows = table[(table["cohort"] == cohort) & (table["variant"] == variant)]
    known = set(rows.loc[rows["seed"] == (run.seeds[0] if seed is None else seed), "slide_id"])
    return [
        Case(name, slides, run.jobs_of(slides[0], variant=variant, cohort=cohort, seed=seed))
        for name, slides in _groups(run, cohort)
        if name in known
    ]


def case_bags(run: Run, case: Case, features: str | Path | None = None) -> list[Bag]:
    """features: folder to look in, where the files were moved."""
    return [run.bag_of(slide, cohort=case.jobs[0].cohort, folder=features) for slide in case.slides]


def case_maps(
    run: Run,
    case: Case,
    *,
    features: str | Path | None = None,
    device: str = "auto",
    neighbours: bool = True,
    attribution: bool = False,
) -> list[PatchMaps]:
    """Out-of-fold maps of every slide of a case. neighbours, attribution: as in `explain_each`."""
    model, card = case_model(case)
    bags = case_bags(run, case, features)
    found = explain_patient(model, card, case.name, bags, device=device, neighbours=neighbours, attribution=attribution)
    return [maps.of_target(run.target) for maps in found]


def run_maps(
    run: Run,
    slide_id: str,
    *,
    variant: str | None = None,
    cohort: str | None = None,
    seed: int | None = None,
    features: str | Path | None = None,
    device: str = "auto",
    neighbours: bool = True,
    attribution: bool = False,
) -> PatchMaps:
    """Out-of-fold maps of one slide; all slides of its patient are in the bag if the run pooled patients.

    variant, seed: as in `Run.jobs_of`.

    Example: `run_maps(open_run("run"), "slide_1").attention  # (patch,)`
    """
    cohort = run.cohort_of(slide_id, cohort)
    jobs = run.jobs_of(slide_id, variant=variant, cohort=cohort, seed=seed)
    case = next(Case(name, slides, jobs) for name, slides in _groups(run, cohort) if slide_id in slides)
    found = case_maps(run, case, features=features, device=device, neighbours=neighbours, attribution=attribution)
    return found[case.slides.index(slide_id)]


def _groups(run: Run, cohort: str) -> list[tuple[str, tuple[str, ...]]]:
    """Name and slides of everything that is predicted as one."""
    rows = run.slides[run.slides["cohort"] == cohort]
    ids = [str(slide_id) for slide_id in rows["slide_id"]]
    groups = group_slides(ids, run.level, [str(patient) for patient in rows["patient_id"]])
    return [(name, tuple(ids[row] for row in members)) for name, members in groups]


def case_model(case: Case) -> tuple[Model | Ensemble, ModelCard]:
    """The model, or the ensemble, that predicted a case out of fold."""
    folders = tuple(job.folder.resolve() for job in case.jobs)
    made = tuple(JobFolder(folder).record.stat().st_mtime_ns for folder in folders)
    return _models(folders, made, weights_of(case.jobs))


@lru_cache(maxsize=8)
def _models(
    folders: tuple[Path, ...], made: tuple[int, ...], weights: Weights | None
) -> tuple[Model | Ensemble, ModelCard]:
    """Kept, for the slides of a fold share one. made: when each job was finished; a folder may be removed, and its job
    run again.
    """
    return load_members(folders, weights)
