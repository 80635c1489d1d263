"""Options of `predict`, in groups."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..slides.extract_settings import ExtractSettings
from .arguments import COHORT, Masks
from .extract import TrustCode, Weights, Workers


@dataclass(frozen=True)
class WholeSlideOptions:
    """Slides: how features are extracted."""

    weights: Weights = None
    trust_code: TrustCode = False
    patch_um: Annotated[
        float | None, typer.Option(help="Edge of a patch in microns, if the model does not state it.")
    ] = None
    masks: Masks = None
    workers: Workers = ExtractSettings.workers


@dataclass(frozen=True)
class PatientOptions:
    """Patients and covariates."""

    labels: Annotated[
        Path | None,
        typer.Option(
            help="Table of slides and patients, such as a label table: adds one prediction per patient, and supplies "
            "the covariates that the model uses."
        ),
    ] = None
    slide_column: Annotated[str | None, typer.Option(help=COHORT["slide_column"].help)] = None
    patient_column: Annotated[str | None, typer.Option(help=COHORT["patient_column"].help)] = None

    def table(self) -> dict[str, str] | None:
        from ..maps.predict import patient_table

        return patient_table(self.labels, slide_column=self.slide_column, patient_column=self.patient_column)
