"""Maps of the slides of a run, each by the model that never saw the slide."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..nn.model import Model
from ..study.runs import Run, RunJob
from ..train.checkpoint import ModelCard, load_model
from ..train.explain import PatchMaps, explain, explain_patient


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
    """Out-of-fold maps of one slide; with all slides of its patient in the bag where the run pooled patients.

    variant, seed: as in `Run.job_of`. features: folder to look in, where the files were moved.
    """
    cohort = run.cohort_of(slide_id, cohort)
    job = run.job_of(slide_id, variant=variant, cohort=cohort, seed=seed)
    model, card = _model(job.folder)
    if card.level == "slide":
        bag = run.bag_of(slide_id, cohort=cohort, folder=features)
        return explain(model, card, bag, device=device, neighbours=neighbours)[0]
    patient, slides = patient_slides(run, slide_id, cohort)
    bags = [run.bag_of(name, cohort=cohort, folder=features) for name in slides]
    found = explain_patient(model, card, patient, bags, device=device, neighbours=neighbours)
    return found[slides.index(slide_id)]


def patient_slides(run: Run, slide_id: str, cohort: str) -> tuple[str, list[str]]:
    """A slide's patient, and all slides that this patient has."""
    rows = run.slides[run.slides["cohort"] == cohort]
    patient = str(rows.loc[rows["slide_id"] == slide_id, "patient_id"].iloc[0])
    return patient, [str(name) for name in rows.loc[rows["patient_id"] == patient, "slide_id"]]


def tested_slides(run: Run, cohort: str, variant: str) -> Iterator[tuple[str, RunJob]]:
    """Every slide of a cohort that some job of the variant had in its test fold, with that job."""
    table = run.predictions
    rows = table[(table["cohort"] == cohort) & (table["method"] == variant)]
    cases = {*rows["slide_id"]}
    for slide in run.slides[run.slides["cohort"] == cohort].to_dict("records"):
        if cases & {slide["slide_id"], slide["patient_id"]}:
            slide_id = str(slide["slide_id"])
            yield slide_id, run.job_of(slide_id, variant=variant, cohort=cohort)


@lru_cache(maxsize=8)
def _model(folder: Path) -> tuple[Model, ModelCard]:
    """Kept, for the slides of a fold share one; a finished job's folder does not change."""
    return load_model(folder)
