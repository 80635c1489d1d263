"""Verbs about what a model looked at: draw it, export it, ask whether it can be trusted."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer

from ..bags.names import slide_name
from ..config import choose
from ..errors import ConfigError, FeatureError, SlideError, StudyError
from ..files import write_csv, write_json, writing_to
from ..maps.contact_sheet import write_contact_sheet
from ..maps.faithfulness import Curves, curves_of, faithfulness, judge
from ..maps.geometry import Squares, check_slide, level0_squares
from ..maps.heatmap import write_heatmap
from ..maps.patch_maps import PatchMaps, explain, explain_each
from ..maps.qupath import write_geojson
from ..maps.tables import write_h5ad, write_maps_csv
from ..report.trust import trust_sentence
from ..slides.slide import SLIDES, open_slide
from ..study.cases import Case, case_bags, case_maps, case_model, cases, run_maps
from ..study.run import Run, is_run, open_run
from ..train.checkpoint import CARD, load_model
from ..train.config import TrainConfig
from ..train.devices import pick_device
from ..train.from_slides import feature_files
from .app import app
from .arguments import Device, Quiet, ReadingOptions
from .groups import grouped
from .screen import console, tracked

FORMER = {"token_normalize_func": lambda name: "variant" if name == "method" else name}  # --method still works
FORMATS = ("geojson", "csv", "h5ad")
Source = Annotated[Path, typer.Argument(metavar="MODEL_OR_RUN", help="Folder of a model, or of a run.")]
Variant = Annotated[str | None, typer.Option(help="Variant of a run. Default: the last of the study.")]
CohortName = Annotated[str | None, typer.Option(help="Of a run with several cohorts: which one.")]
Moved = Annotated[Path | None, typer.Option("--features", help="Of a run whose features were moved: their folder.")]


class Found(NamedTuple):
    maps: PatchMaps
    features: Path
    model: str  # in words


@app.command(context_settings=FORMER)
@grouped
def heatmap(
    source: Source,
    item: Annotated[
        str, typer.Argument(metavar="SLIDE_OR_FEATURES", help="A slide of the run by its id, or a feature file.")
    ],
    options: ReadingOptions,
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .pdf or .svg.")] = Path("heatmap.png"),
    slide: Annotated[Path | None, typer.Option(help="The slide itself, drawn below the maps.")] = None,
    variant: Variant = None,
    cohort: CohortName = None,
    patch: Annotated[
        str, typer.Option(help="Whose neighbours to show: a number, or auto: the most attended.")
    ] = "auto",
    top: Annotated[
        int | None, typer.Option(min=1, help="Also a sheet of the TOP most and least attended tiles.")
    ] = None,
    evidence: Annotated[bool, typer.Option("--evidence", help="On that sheet also the strongest evidence.")] = False,
    features: Moved = None,
    device: Device = TrainConfig.device,
) -> None:
    """Attention, evidence, jigsaw and neighbours of one slide, over the slide or its patches.

    A slide of a run is shown by the model that never saw it.

    Example: `jigsawmil heatmap run TCGA-CR-7395 --slide TCGA-CR-7395.svs --top 12 --out heatmap.png`
    """
    screen = console()
    pick_device(device)
    if top is not None and slide is None:
        raise ConfigError("--top cuts tiles out of the slide. Give it: --slide SLIDE.")
    if patch != "auto" and not patch.isdecimal():
        raise ConfigError(f"--patch: found {patch!r}, expected the number of a patch, from 0 on, or auto.")
    given = None if slide is None else open_slide(slide, options.mpp)
    with given or nullcontext():
        found = _one(source, item, variant, cohort, features, device, options)
        chosen = None if patch == "auto" else int(patch)
        shared: dict[str, Any] = {"slide": given, "features": found.features}
        write_heatmap(found.maps, out, patch=chosen, model=found.model, **shared)
        screen.print(f"Maps of {found.maps.bag.slide_id} in {out}.", soft_wrap=True, highlight=False)
        if given is not None and given.path.stem != found.maps.bag.slide_id:
            screen.print(f"Note: the slide is called {given.path.name}, its features {found.features.name}.")
        if given is not None and top is not None:
            sheet = out.with_name(f"{out.stem}-top{out.suffix}")
            write_contact_sheet(found.maps, sheet, k=top, evidence=evidence, **shared)
            screen.print(f"Tiles in {sheet}.", soft_wrap=True, highlight=False)


@app.command(context_settings=FORMER)
@grouped
def export(
    source: Source,
    options: ReadingOptions,
    out: Annotated[Path, typer.Option(help="Folder for one file a slide.")],
    which: Annotated[
        list[str] | None,
        typer.Argument(metavar="FEATURES_OR_SLIDES", help="Of a model: feature files or folders. Of a run: slide ids."),
    ] = None,
    format: Annotated[str, typer.Option(help="geojson (QuPath 0.4 or later), csv or h5ad (AnnData).")] = "geojson",
    variant: Variant = None,
    cohort: CohortName = None,
    slides: Annotated[
        Path | None, typer.Option(help="Folder of the slides, for their OpenSlide bounds and mpp.")
    ] = None,
    no_bounds_shift: Annotated[
        bool, typer.Option("--no-bounds-shift", help="GeoJSON for viewers that do not crop to the OpenSlide bounds.")
    ] = False,
    features: Moved = None,
    device: Device = TrainConfig.device,
    quiet: Quiet = False,
) -> None:
    """Attention, evidence and jigsaw of every patch, for QuPath, tables or scverse; places in level-0 pixels.

    Slides of a run are shown by the model that never saw them. QuPath crops MRXS and some other slides to their
    OpenSlide bounds: with --slides, GeoJSON is shifted along.

    Example: `jigsawmil export run --format geojson --slides slides --out maps`
    """
    screen = console()
    pick_device(device)
    choose("--format", format, FORMATS)
    slide_files = None if slides is None else _slide_files(slides)
    total, found = _every(source, which or [], variant, cohort, features, device, options)
    shifted = 0
    with writing_to(out):
        for item in tracked(found, total, f"Exporting {total} slide{'s' * (total != 1)}", screen, quiet):
            path = out / f"{item.maps.bag.slide_id}.{format}"
            squares, shift = _placed(item, slide_files, options.mpp)
            if format == "geojson":
                shift = (0.0, 0.0) if no_bounds_shift else shift
                shifted += shift != (0.0, 0.0)
                write_geojson(item.maps, squares, path, shift=shift)
            elif format == "csv":
                write_maps_csv(item.maps, squares, path)
            else:
                write_h5ad(item.maps, squares, path, model=item.model)
    words = f"{total} {format} file{'s' * (total != 1)} in {out}"
    if format == "geojson":
        words += f"; {shifted} shifted by the OpenSlide bounds" if slides else "; not shifted, for want of --slides"
    screen.print(f"{words}.", soft_wrap=True, highlight=False)


@app.command(name="faithfulness", context_settings=FORMER)
def ask_faithfulness(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    variant: Annotated[str | None, typer.Option(help="Variant of the run. Default: all.")] = None,
    cohort: CohortName = None,
    slides_at_most: Annotated[int, typer.Option(min=2, help="Slides (or patients) per variant, drawn at random.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Decides which slides, and the random orders.")] = 0,
    features: Moved = None,
    device: Device = TrainConfig.device,
    quiet: Quiet = False,
) -> None:
    """Can the maps be trusted? Patches are removed, and given alone, in the order of a map and at random.

    Writes RUN/faithfulness/COHORT/VARIANT.json and .csv, which the report shows.

    Example: `jigsawmil faithfulness run --variant graph-abmil+jigsaw`
    """
    screen = console()
    pick_device(device)
    opened = open_run(run)
    for name in [_cohort(opened, cohort)] if cohort else opened.cohorts:
        for each in [variant] if variant else opened.variants:
            known = cases(opened, name, variant=each)
            if not known:
                raise StudyError(f"{run}: {each} has no predictions on {name}. Run the study to its end.")
            chosen = np.random.default_rng(seed).choice(len(known), min(slides_at_most, len(known)), replace=False)
            tried = (_curves(opened, known[i], seed, features, device) for i in sorted(chosen))
            curves = list(tracked(tried, len(chosen), f"{each}: {len(chosen)} slides", screen, quiet))
            values = {"sentence": trust_sentence(judge(curves)), **faithfulness(curves)}
            files = opened.files
            with writing_to(files.faithfulness(name)):
                figures = {"cohort": name, "variant": each, "seed": seed, **values}
                write_json(files.faithfulness(name, f"{each}.json"), figures)
            write_csv(pd.DataFrame(_rows(curves)), files.faithfulness(name, f"{each}.csv"))
            screen.print(f"{each}: {values['sentence']}", soft_wrap=True, highlight=False)
    screen.print(f"Figures in {opened.files.faithfulness()}.", soft_wrap=True, highlight=False)


def _curves(run: Run, case: Case, seed: int, features: Path | None, device: str) -> Curves:
    """The random orders of a slide are the same for every variant."""
    rng = np.random.default_rng([seed, *case.name.encode()])
    return curves_of(*case_model(case), case.name, case_bags(run, case, features), rng, device=device)


def _rows(curves: list[Curves]) -> Iterator[dict[str, Any]]:
    for one in curves:
        areas = {kind: one.areas(kind) for kind in ("deletion", "insertion")}
        for ranking in one.insertion:
            row = {f"{kind}_area": values[ranking] for kind, values in areas.items()}
            yield {"slide_id": one.name, "patches": one.patches, "ranking": ranking, **row}


def _one(
    source: Path,
    item: str,
    variant: str | None,
    cohort: str | None,
    features: Path | None,
    device: str,
    options: ReadingOptions,
) -> Found:
    """The maps of one slide, by its id in a run or by its file."""
    path = Path(item)
    if is_run(source):
        _as_studied(options)
        run, slide_id = open_run(source), slide_name(path.name) if path.exists() else item
        folder = path.parent if path.exists() else features
        maps = run_maps(run, slide_id, variant=variant, cohort=cohort, features=folder, device=device)
        file = run.features_of(slide_id, cohort=cohort, folder=folder)
        return Found(maps, file, _words(run, slide_id, variant, cohort))
    model, card = load_model(_model_folder(source, variant, cohort, features))
    if not path.exists():
        raise FeatureError(
            f"{item}: no such file. Expected the feature file of a slide; only a run knows slides by id."
        )
    [maps] = explain(model, card, path, device=device, **options.reading)
    alone = "; it pools patients, and sees this slide alone" if card.level == "patient" else ""
    return Found(maps, path, f"{card.model.method}, model {source.name}{alone}")


def _every(
    source: Path,
    which: list[str],
    variant: str | None,
    cohort: str | None,
    features: Path | None,
    device: str,
    options: ReadingOptions,
) -> tuple[int, Iterator[Found]]:
    """How many slides, and the maps of each."""
    if is_run(source):
        _as_studied(options)
        run = open_run(source)
        name = _cohort(run, cohort)
        wanted = {run.cohort_of(slide_id, name) and slide_id for slide_id in which}
        chosen = [case for case in cases(run, name, variant=variant) if not wanted or wanted & {*case.slides}]
        total = len(wanted) or sum(len(case.slides) for case in chosen)

        def of_run() -> Iterator[Found]:
            for case in chosen:
                for maps in case_maps(run, case, features=features, device=device, neighbours=False):
                    slide_id = maps.bag.slide_id
                    if not wanted or slide_id in wanted:
                        file = run.features_of(slide_id, cohort=name, folder=features)
                        yield Found(maps, file, _words(run, slide_id, variant, name))

        return total, of_run()
    model, card = load_model(_model_folder(source, variant, cohort, features))
    if not which:
        raise ConfigError(
            "A model needs feature files: jigsawmil export MODEL features --out maps. A run knows its own."
        )
    files = {slide_name(path.name): path for path in feature_files([Path(item) for item in which])}
    found = explain_each(model, card, [*files.values()], device=device, neighbours=False, **options.reading)
    words = f"{card.model.method}, model {source.name}"
    return len(files), (Found(maps, files[maps.bag.slide_id], words) for maps in found)


def _as_studied(options: ReadingOptions) -> None:
    if options.patch_size or options.unit:
        raise ConfigError("--patch-size and --unit: a run reads its features as its study did. Leave them out.")


def _model_folder(source: Path, *of_runs: object) -> Path:
    if not (source / CARD).is_file():
        what = "neither a run (study.json) nor a model (model.json) is in it" if source.exists() else "no such folder"
        raise StudyError(
            f"{source}: {what}. Give the folder that `jigsawmil compare`, `study` or `train` wrote to (--out)."
        )
    if any(of_runs):
        raise ConfigError(f"--variant, --cohort and --features belong to a run, and {source} holds a single model.")
    return source


def _cohort(run: Run, cohort: str | None) -> str:
    if cohort is None and len(run.cohorts) > 1:
        raise ConfigError(f"{run.folder} has the cohorts {', '.join(run.cohorts)}. Name one of them with --cohort.")
    choose("--cohort", cohort or run.cohorts[0], run.cohorts)
    return cohort or run.cohorts[0]


def _words(run: Run, slide_id: str, variant: str | None, cohort: str | None) -> str:
    job = run.job_of(slide_id, variant=variant, cohort=cohort)
    return f"{job.variant}, seed {job.seed}, fold {job.fold}: a model that never saw this slide"


def _slide_files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise SlideError(f"{folder}: no such folder. Expected the folder that holds the slides.")
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SLIDES)
    return {path.stem: path for path in files}


def _placed(item: Found, slide_files: dict[str, Path] | None, mpp: float | None) -> tuple[Squares, tuple[float, float]]:
    """The patches in level-0 pixels, and the OpenSlide bounds' corner where the slide is at hand."""
    bag = item.maps.bag
    if slide_files is None:
        return level0_squares(bag, mpp), (0.0, 0.0)
    if bag.slide_id not in slide_files:
        raise SlideError(
            f"No slide {bag.slide_id} among the {len(slide_files)} in the folder of --slides. Expected a file of that "
            "name; leave --slides out to do without its bounds."
        )
    with open_slide(slide_files[bag.slide_id], mpp) as slide:
        return check_slide(bag, slide, item.features), (float(slide.bounds.x), float(slide.bounds.y))
