"""Verbs about one model: train it, apply it."""

import hashlib
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.markup import escape

from ..bags.formats import find_bags
from ..bags.names import slide_name
from ..cluster.parallel import fit_together
from ..cohort.splits import Fold
from ..errors import ConfigError, FeatureError, StudyError
from ..files import check_target, write_csv, writing_to
from ..maps.heatmap import write_heatmap
from ..maps.patch_maps import PatchMaps, seen_maps
from ..nn.options import DEFAULT_METHOD, check_method
from ..slides.extract import check_masks
from ..slides.slide import PICTURES, SLIDES, open_slide
from ..study.job import check_patients, fingerprint
from ..tasks import get_task
from ..train.apply import apply_model
from ..train.checkpoint import CARD, ModelCard, load_model, save_model
from ..train.config import TrainConfig
from ..train.devices import pick_device
from ..train.feed import Feed
from ..train.fold import fit_split, make_card
from ..train.settings import Settings
from .app import app
from .arguments import Device, Masks, Memory, Out, PatchSize, Quiet, Seed, SlideMpp, TableOptions, Unit
from .extract import EXTRACT, TrustCode, Weights, Workers, extract_for, model_needs
from .groups import grouped
from .options import MethodOptions, TargetOptions
from .progress import FitProgress
from .screen import console, tracked
from .show import show_cohort, slide_files

FEATURES = {".h5", ".hdf5", ".pt", ".npy", ".zarr"}
MOST = 20  # predictions that are printed; all are in the file


@dataclass(frozen=True)
class SlideOptions:
    """What slides may need."""

    weights: Weights = None
    trust_code: TrustCode = False
    patch_um: Annotated[
        float | None, typer.Option(help="Edge of a patch in microns, where the model does not know.")
    ] = None
    masks: Masks = None
    workers: Workers = EXTRACT.workers


@app.command()
@grouped
def train(
    table: TableOptions,
    target: TargetOptions,
    options: MethodOptions,
    out: Out,
    method: Annotated[str, typer.Option(help="One of the five methods.")] = DEFAULT_METHOD,
    seed: Seed = 0,
    memory_gb: Memory = 4.0,
    devices: Annotated[int, typer.Option(min=1, help="GPUs (or CPU processes) that share every batch.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Train one model on all slides of a cohort, to apply to new ones. Interrupted, it goes on when run again.

    Example: `jigsawmil train --labels labels.csv --features features --method graph-abmil+jigsaw --out model`
    """
    screen = console()
    check_method(method, "--method")
    settings = options.settings(method)
    if (out / CARD).exists():
        raise StudyError(f"{out} holds a model already. Give another --out, or remove it.")
    source = target.source(table)
    cohort = source.read()
    if settings.level == "patient":
        check_patients(cohort)
    if not quiet:
        show_cohort(cohort, screen)
    graph = settings.graph if settings.needs_graph else None
    feed = Feed(cohort, graph, settings.model.grid, memory_gb=memory_gb / devices, level=settings.level)
    everything = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
    state = out / f".training-{_key(settings, seed, fingerprint(cohort))}.state"
    with writing_to(out), FitProgress(screen, settings.train.epochs, quiet) as progress:
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
@grouped
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    inputs: Annotated[
        list[Path], typer.Argument(metavar="SLIDES|FEATURES...", help="Slides or feature files, or folders of either.")
    ],
    extraction: SlideOptions,
    out: Annotated[Path, typer.Option(help="CSV to write.")] = Path("predictions.csv"),
    heatmap: Annotated[Path | None, typer.Option(help="Folder for one picture a slide: what the model saw.")] = None,
    attention: Annotated[Path | None, typer.Option(help="Folder for one CSV a slide: x,y,attention.")] = None,
    slide_mpp: SlideMpp = None,
    patch_size: PatchSize = None,
    unit: Unit = None,
    device: Device = TrainConfig.device,
    quiet: Quiet = False,
) -> None:
    """Apply a model to new slides: features are extracted as for its training, beside --out, or given.

    Example: `jigsawmil predict model slide.svs --heatmap maps`, `jigsawmil predict model features --attention maps`
    """
    screen = console()
    loaded, card = load_model(model)
    task = get_task(card.model.task)
    slides, features = _sorted_inputs(inputs)
    slides = slide_files(slides, screen) if slides else []
    check_target(out)
    files, complete = feature_files(features) if features else [], True
    slide_of: dict[Path, Path] = {}
    options = {"mpp": None if slides else slide_mpp, "patch_size": patch_size, "unit": unit}
    if slides and (patch_size or unit or (features and slide_mpp)):
        raise ConfigError(
            "--patch-size and --unit complete what feature files say, and slides were given; --slide-mpp would be of "
            "both. Predict slides and feature files one after the other."
        )
    check_masks(extraction.masks, slides)
    once([*files, *slides])
    if slides:
        slide_of, complete = _features_of(slides, card, out, extraction, slide_mpp, device, quiet)
        files += slide_of.keys()
    rows: list[dict[str, Any]] = []
    results = apply_model(loaded, card, files, device=device, **options)
    words = f"Predicting {len(files)} slide{'s' * (len(files) != 1)}"
    for seen in tracked(results, len(files), words, screen, quiet):
        called = card.classes[int(task.decision(seen.probabilities))]
        rows.append({"slide_id": seen.name, "prediction": called, **task.row(seen.probabilities, card.classes)})
        if attention is not None:
            for bag, values in zip(seen.bags, seen.attention, strict=True):
                places = pd.DataFrame({"x": bag.coords[:, 0], "y": bag.coords[:, 1], "attention": values})
                write_csv(places, attention / f"{bag.slide_id}.csv")
        if heatmap is not None:
            for one in seen_maps(loaded, card, seen):
                _draw(one, files, slide_of, heatmap, f"{card.model.method}, model {model.name}", slide_mpp)
    if rows:
        write_csv(pd.DataFrame(rows), out)
        for row in rows[:MOST] if slides else []:
            told = ", ".join(f"{task.column_words(c, card.classes)} {row[c]:.3f}" for c in task.columns(card.classes))
            screen.print(f"{escape(row['slide_id'])}: {escape(row['prediction'])} ({told})", highlight=False)
        of = f"; {about}" if (about := task.table_words(card.classes)) else ""
        maps = f", maps in {heatmap}" if heatmap is not None else ""
        screen.print(f"{len(rows)} prediction{'s' * (len(rows) != 1)} in {out}{of}{maps}.", soft_wrap=True)
    if card.level == "patient":
        whose = "TCGA barcodes say whose a slide is; by any other name, each is a patient of its own."
        screen.print(f"The model pools the slides of a patient. {whose}", soft_wrap=True)
    if not complete or not rows:
        raise typer.Exit(1)


def _features_of(
    slides: list[Path],
    card: ModelCard,
    out: Path,
    options: SlideOptions,
    slide_mpp: float | None,
    device: str,
    quiet: bool,
) -> tuple[dict[Path, Path], bool]:
    """Feature file -> slide, made in a folder beside `out` that a second run finds again; whether all could be read."""
    load, settings = model_needs(card, options.weights, options.patch_um, options.trust_code)
    if card.tiles is None:
        cut = f"{settings.tiles.patch} pixels of {settings.tiles.mpp:.3g} microns"
        console().print(f"Note: the model does not know how its slides were cut; tiles of {cut} are taken.")
    elif card.tiles.drawn and options.masks is None:
        console().print("Note: the model was trained on tissue outlined by hand; without --masks it sees all tissue.")
    settings = replace(
        settings,
        tiles=replace(settings.tiles, drawn=options.masks is not None),
        slide_mpp=slide_mpp,
        masks=options.masks,
        workers=options.workers,
        device=str(pick_device(device)),
    )
    found, complete = extract_for(card, slides, out.with_name(f"{out.stem}-features"), load, settings, quiet)
    return {file.resolve(): slide for slide, file in found.items()}, complete


def _draw(
    maps: PatchMaps, files: list[Path], slide_of: dict[Path, Path], folder: Path, model: str, mpp: float | None
) -> None:
    """One picture: over the slide if it was given, else over its patches."""
    slide_id = maps.bag.slide_id
    file = next(file for file in files if slide_name(file.name) == slide_id)
    given = open_slide(slide_of[file]) if file in slide_of else None
    if given is not None and not given.says_mpp:
        given.mpp = mpp  # stated for those slides that do not say
    with writing_to(folder), given or nullcontext():
        write_heatmap(maps, folder / f"{slide_id}.png", slide=given, features=file, model=model)


def _sorted_inputs(items: list[Path]) -> tuple[list[Path], list[Path]]:
    """Slides, and what holds features. A folder is one of slides where such files lie in it."""
    slides: list[Path] = []
    features: list[Path] = []
    for item in items:
        whole = item.is_dir() and item.suffix not in FEATURES
        endings = {file.suffix.lower() for file in item.iterdir()} if whole else {item.suffix.lower()}
        if endings & FEATURES:
            endings -= PICTURES  # previews beside the features
        if endings & SLIDES and endings & FEATURES:
            raise ConfigError(f"{item}: holds slides and features, of which one is meant. Give the files themselves.")
        (slides if endings & SLIDES and item.exists() else features).append(item)
    return slides, features


def feature_files(items: list[Path]) -> list[Path]:
    """Each file once; two files of one slide would overwrite each other's attention."""
    paths: dict[Path, None] = {}
    for item in items:
        if not item.exists():
            raise FeatureError(f"{item}: no such file or folder; expected slides or feature files, or folders of them.")
        single = not item.is_dir() or item.suffix == ".zarr"
        paths |= dict.fromkeys([item.resolve()] if single else [path.resolve() for path in find_bags(item).values()])
    once(paths)
    return list(paths)


def once(paths: Iterable[Path]) -> None:
    """Refuse two files of one slide."""
    of_slide: dict[str, Path] = {}
    for path in paths:
        other = of_slide.setdefault(slide_name(path.name), path)
        if other != path:
            raise FeatureError(f"{other} and {path} are both features of {slide_name(path.name)}. Give one of them.")


def _key(settings: Settings, seed: int, cohort: str) -> str:
    """A training goes on only under the settings and on the cohort it began with."""
    return hashlib.sha256(repr((sorted(settings.flat().items()), seed, cohort)).encode()).hexdigest()[:12]
