"""Maps of the slides of a run, each by the model that never saw the slide."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..bags.bag import Bag
from ..config import choose
from ..maps.patch_maps import PatchMaps, explain_patient
from ..nn.model import Model
from ..train.checkpoint import ModelCard, load_model
from .run import Run, RunJob


class Case(NamedTuple):
    """What a run predicts as one: a slide, or all slides of a patient. job: the one that had it in its test fold."""

    name: str
    slides: tuple[str, ...]
    job: RunJob


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
    pools = {job.variant for job in run.jobs if job.settings.get("level") == "patient"}
    found: dict[str, Case] = {}
    for slide_id in run.slides.loc[run.slides["cohort"] == cohort, "slide_id"]:
        name, slides = _patient(run, slide_id, cohort) if variant in pools else (slide_id, (slide_id,))
        if name in known and name not in found:
            found[name] = Case(name, slides, run.job_of(slide_id, variant=variant, cohort=cohort, seed=seed))
    return list(found.values())


def case_model(case: Case) -> tuple[Model, ModelCard]:
    return _model(case.job.folder)


def case_bags(run: Run, case: Case, features: str | Path | None = None) -> list[Bag]:
    """features: folder to look in, where the files were moved."""
    return [run.bag_of(slide, cohort=case.job.cohort, folder=features) for slide in case.slides]


def case_maps(
    run: Run, case: Case, *, features: str | Path | None = None, device: str = "auto", neighbours: bool = True
) -> list[PatchMaps]:
    """Out-of-fold maps of every slide of a case."""
    model, card = case_model(case)
    bags = case_bags(run, case, features)
    return explain_patient(model, card, case.name, bags, device=device, neighbours=neighbours)


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
) -> PatchMaps:
    """Out-of-fold maps of one slide; all slides of its patient are in the bag where the run pooled patients.

    variant, seed: as in `Run.job_of`.
    """
    cohort = run.cohort_of(slide_id, cohort)
    job = run.job_of(slide_id, variant=variant, cohort=cohort, seed=seed)
    case = Case(slide_id, (slide_id,), job)
    if job.settings.get("level") == "patient":
        case = Case(*_patient(run, slide_id, cohort), job)
    found = case_maps(run, case, features=features, device=device, neighbours=neighbours)
    return found[case.slides.index(slide_id)]


def _patient(run: Run, slide_id: str, cohort: str) -> tuple[str, tuple[str, ...]]:
    """A slide's patient, and all slides that this patient has."""
    rows = run.slides[run.slides["cohort"] == cohort]
    patient = str(rows.loc[rows["slide_id"] == slide_id, "patient_id"].iloc[0])
    return patient, tuple(map(str, rows.loc[rows["patient_id"] == patient, "slide_id"]))


@lru_cache(maxsize=8)
def _model(folder: Path) -> tuple[Model, ModelCard]:
    """Kept, for the slides of a fold share one; a finished job's folder does not change."""
    return load_model(folder)
