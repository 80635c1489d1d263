"""Verbs about one model: train it, apply it."""

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from ..cohort.formats import find_bags
from ..cohort.labels import slide_name
from ..cohort.splits import Fold
from ..config import choose
from ..errors import FeatureError, StudyError
from ..nn.model import METHODS
from ..report.live import FitProgress
from ..study.parallel import fit_together
from ..study.run import check_patients, fingerprint, fit_split, make_card, named_probabilities
from ..train.apply import apply_model
from ..train.checkpoint import CARD, load_model, save_model
from ..train.feed import Feed
from ..train.settings import Settings
from .app import app
from .options import (
    DEFAULT,
    Device,
    Memory,
    MethodOptions,
    Mpp,
    Out,
    PatchSize,
    Quiet,
    Seed,
    TableOptions,
    TargetOptions,
    Unit,
    grouped,
)
from .show import check_target, console, show_cohort, tracked, write_csv, writing_to


@app.command()
@grouped
def train(
    table: TableOptions,
    target: TargetOptions,
    options: MethodOptions,
    out: Out,
    method: Annotated[str, typer.Option(help="One of the five methods.")] = DEFAULT.method,
    seed: Seed = 0,
    memory_gb: Memory = 4.0,
    devices: Annotated[int, typer.Option(min=1, help="GPUs (or CPU processes) that share every batch.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Train one model on all slides of a cohort, to apply to new ones. Interrupted, it goes on when run again.

    Example: `jigsawmil train --labels labels.csv --features features --method graph-abmil+jigsaw --out model`
    """
    screen = console()
    choose("--method", method, METHODS)
    settings = options.settings(method)
    if (out / CARD).exists():
        raise StudyError(f"{out} holds a model already. Give another --out, or remove it.")
    source = target.source(table)
    cohort = source.read()
    if settings.level == "patient":
        check_patients(cohort)
    if not quiet:
        show_cohort(cohort, screen)
    graph = settings.graph_config() if settings.needs_graph else None
    feed = Feed(cohort, graph, settings.grid, memory_gb=memory_gb / devices, level=settings.level)
    everything = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
    state = out / f".training-{_key(settings, seed, fingerprint(cohort))}.state"
    with writing_to(out), FitProgress(screen, settings.epochs, quiet) as progress:
        if devices == 1:
            model, history = fit_split(feed, everything, settings, seed, 0, progress, state)
        else:
            model, history = fit_together(
                source, feed, everything, settings, seed, devices,
                memory_gb=memory_gb / devices, on_epoch=progress, state=state,
            )  # fmt: skip
        save_model(out, model, make_card(feed, model, settings, seed, history))
        state.unlink(missing_ok=True)
    screen.print(f"Kept epoch {history.best} of {len(history.epochs)}. The model is in {out}.", soft_wrap=True)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    features: Annotated[list[Path], typer.Argument(help="Feature files, or folders of them.")],
    out: Annotated[Path, typer.Option(help="CSV to write.")] = Path("predictions.csv"),
    attention: Annotated[Path | None, typer.Option(help="Folder for one CSV a slide: x,y,attention.")] = None,
    mpp: Mpp = None,
    patch_size: PatchSize = None,
    unit: Unit = None,
    device: Device = DEFAULT.device,
    quiet: Quiet = False,
) -> None:
    """Apply a model to new slides.

    Example: `jigsawmil predict model features --out predictions.csv --attention maps`
    """
    screen = console()
    loaded, card = load_model(model)
    paths = _feature_files(features)
    check_target(out)
    rows = []
    results = apply_model(loaded, card, paths, device=device, mpp=mpp, patch_size=patch_size, unit=unit)
    words = f"Predicting {len(paths)} slide{'s' * (len(paths) > 1)}"
    for result in tracked(results, len(paths), words, screen, quiet):
        likeliest = card.classes[result.probabilities.argmax()]
        named = named_probabilities(result.probabilities, card.classes)
        rows.append({"slide_id": result.name, "prediction": likeliest, **named})
        for bag, values in zip(result.bags, result.attention, strict=True):
            if attention is not None:
                places = pd.DataFrame({"x": bag.coords[:, 0], "y": bag.coords[:, 1], "attention": values})
                write_csv(places, attention / f"{bag.slide_id}.csv")
    write_csv(pd.DataFrame(rows), out)
    of = f"; probability of {card.classes[-1]!r}" if len(card.classes) == 2 else ""
    count = f"{len(rows)} prediction{'s' * (len(rows) != 1)}"
    screen.print(f"{count} in {out}{of}.", soft_wrap=True)
    if card.level == "patient":
        whose = "TCGA barcodes say whose a slide is; by any other name, each is a patient of its own."
        screen.print(f"The model pools the slides of a patient. {whose}", soft_wrap=True)


def _feature_files(items: list[Path]) -> list[Path]:
    """Each file once; two files of one slide would overwrite each other's attention."""
    paths: dict[Path, None] = {}
    for item in items:
        if not item.exists():
            raise FeatureError(f"{item}: no such file or folder. Expected feature files, or a folder of them.")
        single = not item.is_dir() or item.suffix == ".zarr"
        paths |= dict.fromkeys([item.resolve()] if single else [path.resolve() for path in find_bags(item).values()])
    of_slide: dict[str, Path] = {}
    for path in paths:
        other = of_slide.setdefault(slide_name(path.name), path)
        if other != path:
            raise FeatureError(f"{other} and {path} are both features of {slide_name(path.name)}. Give one of them.")
    return list(paths)


def _key(settings: Settings, seed: int, cohort: str) -> str:
    """A training goes on only under the settings and on the cohort it began with."""
    return hashlib.sha256(repr((sorted(asdict(settings).items()), seed, cohort)).encode()).hexdigest()[:12]
