"""Verbs about one model: train it, apply it.

What computes is imported when a verb runs: its --help and its wrong flags need none of it.
"""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ..config import one_of
from ..errors import ConfigError
from ..nn.options import DEFAULT_METHOD, METHODS, PAPER_METHOD, check_method
from ..train.config import TrainConfig
from ..train.presets import preset_method
from .app import app
from .arguments import (
    Attribution,
    CoordsKey,
    Device,
    FeaturesKey,
    Memory,
    Out,
    PatchSize,
    Quiet,
    Seed,
    SkipBad,
    SlideMpp,
    TableOptions,
    TargetName,
    Threads,
    Unit,
    Yes,
)
from .choosing import ChooseOptions
from .extract import extract_for
from .groups import grouped
from .options import MethodOptions, TargetOptions
from .predicting import PatientOptions, WholeSlideOptions
from .screen import console, tracked

if TYPE_CHECKING:
    from ..train.decision import Decision

MOST = 20  # predictions that are printed; all are in the file


@app.command()
@grouped
def train(
    table: TableOptions,
    target: TargetOptions,
    options: MethodOptions,
    chosen: ChooseOptions,
    out: Out,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"One of {one_of(METHODS)}; or package.module:factory.",
            show_default=f"{DEFAULT_METHOD}; with --preset paper {PAPER_METHOD}",
        ),
    ] = None,
    seed: Seed = 0,
    yes: Yes = False,
    memory_gb: Memory = 4.0,
    devices: Annotated[int, typer.Option(min=1, help="GPUs (or CPU processes) that share every batch.")] = 1,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Train a model or an ensemble on all slides of a cohort, to apply it to new slides. Rerun to resume.

    Example: `jigsawmil train --labels labels.csv --features features --method graph-abmil+jigsaw --out model`;
    `--choose k=8,24,50` chooses a setting first, by cross-validation
    """
    from ..cluster.parallel import fit_together
    from ..train.checkpoint import load_model
    from ..train.devices import use_threads
    from ..train.fold import fit_split
    from ..train.out_of_fold import performance_lines
    from ..train.progress import kept_words
    from ..train.train_model import train_model
    from .asking import with_positive
    from .progress import FitProgress
    from .show import show_cohort

    screen = console()
    method = preset_method(options.preset) if method is None else method
    check_method(method, "--method")
    settings, source, choice = options.settings(method), target.source(table), chosen.choice()
    if source.options.covariates:
        settings = settings.replace(covariates=True)
    use_threads(threads)
    tried = list(choice.candidates(settings)) if choice is not None else []
    if len(tried) == 1:
        raise ConfigError(f"--choose: {method} cannot choose {', '.join(chosen.choose or [])}. Leave --choose out.")
    source = with_positive(source, screen, yes=yes)
    cohort = source.read()
    show_cohort(cohort, screen, quiet)
    memory = memory_gb / devices
    together = partial(fit_together, source=source, devices=devices, memory_gb=memory)
    fit = fit_split if devices == 1 else together
    models = len(settings.each_member()) + (len(tried) * choice.trainings if choice is not None else 0)
    decided: list[Decision] = []
    with FitProgress(screen, settings.train.epochs, quiet, models=models) as progress:
        trained = train_model(
            cohort, out, settings, seed=seed, memory_gb=memory, on_epoch=progress, fit=fit, choice=choice,
            on_choice=decided.append,
        )  # fmt: skip
    if not trained:
        screen.print(f"{out} holds this model already: nothing to do.", soft_wrap=True, highlight=False)
        return
    for decision in decided:
        screen.print(f"Chosen: {decision.words}.", soft_wrap=True, highlight=False)
    screen.print(f"{kept_words(trained)} in {out}.", soft_wrap=True)
    for line in [] if quiet or len(trained) == 1 else performance_lines(load_model(out)[1]):
        screen.print(line, soft_wrap=True, highlight=False)


@app.command()
@grouped
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    inputs: Annotated[
        list[Path], typer.Argument(metavar="SLIDES|FEATURES", help="Slides or feature files, or folders of either.")
    ],
    extraction: WholeSlideOptions,
    patients: PatientOptions,
    out: Annotated[Path, typer.Option(help="CSV to write.")] = Path("predictions.csv"),
    heatmap: Annotated[Path | None, typer.Option(help="Folder for the maps: one picture per slide.")] = None,
    attention: Annotated[Path | None, typer.Option(help="Folder for one CSV per slide: x,y,attention.")] = None,
    target: TargetName = None,
    attribution: Attribution = False,
    slide_mpp: SlideMpp = None,
    patch_size: PatchSize = None,
    unit: Unit = None,
    features_key: FeaturesKey = None,
    coords_key: CoordsKey = None,
    device: Device = TrainConfig.device,
    threads: Threads = None,
    skip_bad: SkipBad = False,
    quiet: Quiet = False,
) -> None:
    """Apply a model to new slides or feature files. Extracts features from slides with the settings used in training.

    One row per slide: prediction at the threshold that training fixed, probability, and for an ensemble the standard
    deviation of the logit over its members. If patients are known from --labels or TCGA barcodes, a second file,
    OUT-patients.csv, has one row per patient, from the mean logit of its slides.

    Example: `jigsawmil predict model slide.svs --heatmap maps`, `jigsawmil predict model features --attention maps`
    """
    from ..maps.predict import SlidePredictor
    from ..train.devices import use_threads
    from ..train.from_slides import SlideOptions
    from .show import show_class_of, show_failed, show_left_out

    screen = console()
    use_threads(threads)
    predictor = SlidePredictor(
        model, inputs, out=out, heatmap=heatmap, attention=attention, target=target, attribution=attribution,
        device=device, patch_size=patch_size, unit=unit, features_key=features_key, coords_key=coords_key,
        options=SlideOptions(slide_mpp=slide_mpp, **asdict(extraction)), patients=patients.table(),
        labels=patients.labels, slide_column=patients.slide_column, skip_bad=skip_bad,
    )  # fmt: skip
    show_class_of(predictor.card, screen)
    for note in predictor.notes:
        screen.print(f"Note: {note}", soft_wrap=True, highlight=False)
    show_left_out(predictor.inputs.left_out, screen)
    if predictor.extraction:
        extract_for(predictor.extraction, screen, quiet)
    files, rows, task, card = predictor.files, predictor.rows, predictor.task, predictor.card
    for _ in tracked(
        predictor.run(), len(files), f"Predicting {len(files)} slide{'s' * (len(files) != 1)}", screen, quiet
    ):
        pass
    if rows:
        for row in rows[:MOST] if predictor.extraction else []:
            screen.print(
                f"{escape(str(next(iter(row.values()))))}: {escape(task.row_words(row, card.classes))}", highlight=False
            )
        of = f"; probability of {name!r}" if (name := task.positive(card.classes)) else ""
        maps = f", maps in {heatmap}" if heatmap is not None else ""
        screen.print(f"{len(rows)} prediction{'s' * (len(rows) != 1)} in {out}{of}{maps}.", soft_wrap=True)
    if count := len(predictor.patient_rows):
        screen.print(f"{count} patient{'s' * (count != 1)} in {predictor.patients_out}.", soft_wrap=True)
    if card.level == "patient":
        whose = "Patients are known from TCGA barcodes or --labels; without either, each slide counts as one patient."
        screen.print(f"The model pools the slides of a patient. {whose}", soft_wrap=True)
    for note in predictor.remarks:
        screen.print(f"Note: {escape(note)}", soft_wrap=True, highlight=False)
    for name, why in predictor.left_out.items():
        screen.print(f"Left out: {escape(f'{name}: {why}')}", soft_wrap=True, highlight=False)
    if predictor.failed:
        show_failed(predictor.failed, Console(stderr=True))
    if not rows or predictor.failed or (predictor.extraction and not predictor.extraction.complete):
        raise typer.Exit(1)
