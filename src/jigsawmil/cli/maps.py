"""Verbs about what a model looked at: draw it, export it, ask whether it can be trusted.

What computes is imported when a verb runs: its --help and its wrong flags need none of it.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ConfigError
from ..files import writing_to
from ..train.config import TrainConfig
from .app import app
from .arguments import Attribution, Device, NoBoundsShift, Quiet, ReadingOptions, TargetName
from .groups import grouped
from .screen import console, tracked

FORMER = {"token_normalize_func": lambda name: "variant" if name == "method" else name}  # --method still works
ModelOrRun = Annotated[Path, typer.Argument(metavar="MODEL_OR_RUN", help="Folder of a model, or of a run.")]
Variant = Annotated[str | None, typer.Option(help="Variant of a run. Default: the last of the study.")]
CohortName = Annotated[str | None, typer.Option(help="Cohort, if the run has several.")]
Moved = Annotated[
    Path | None, typer.Option("--features", help="New feature folder, if the files have moved since the run.")
]


@app.command(context_settings=FORMER)
@grouped
def heatmap(
    source: ModelOrRun,
    item: Annotated[
        str, typer.Argument(metavar="SLIDE_OR_FEATURES", help="A slide of the run by its id, or a feature file.")
    ],
    options: ReadingOptions,
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .pdf or .svg.")] = Path("heatmap.png"),
    slide: Annotated[Path | None, typer.Option(help="Slide file, drawn under the maps.")] = None,
    variant: Variant = None,
    cohort: CohortName = None,
    target: TargetName = None,
    patch: Annotated[
        str, typer.Option(help="Patch whose neighbours are shown: its number, or auto for the most attended.")
    ] = "auto",
    top: Annotated[
        int | None, typer.Option(min=1, help="Also write a sheet of the TOP most and least attended tiles.")
    ] = None,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Add the tiles with the largest contributions to that sheet.")
    ] = False,
    attribution: Attribution = False,
    features: Moved = None,
    device: Device = TrainConfig.device,
) -> None:
    """Draw the maps of one slide: attention, contributions (evidence), jigsaw and neighbours.

    A slide of a run is shown by the model that never saw it.

    Example: `jigsawmil heatmap run TCGA-CR-7395 --slide TCGA-CR-7395.svs --top 12 --out heatmap.png`
    """
    import numpy as np

    from ..maps.contact_sheet import write_contact_sheet
    from ..maps.heatmap import write_heatmap
    from ..maps.patch_maps import NO_EVIDENCE
    from ..slides.slide import open_slide
    from ..study.slide_maps import maps_of
    from ..train.devices import pick_device

    screen = console()
    pick_device(device)
    if top is not None and slide is None:
        raise ConfigError("--top cuts tiles out of the slide. Give --slide SLIDE.")
    if patch != "auto" and not patch.isdecimal():
        raise ConfigError(f"--patch: found {patch!r}, expected the number of a patch, from 0 on, or auto.")
    given = None if slide is None else open_slide(slide, options.mpp)
    with given or nullcontext():
        of_run: dict[str, Any] = {"variant": variant, "cohort": cohort, "features": features, "target": target}
        found = maps_of(source, item, device=device, attribution=attribution, **of_run, **options.reading)
        chosen = None if patch == "auto" else int(patch)
        shared: dict[str, Any] = {"slide": given, "features": found.features}
        write_heatmap(found.maps, out, patch=chosen, model=found.model, **shared)
        screen.print(f"Maps of {found.maps.bag.slide_id} in {out}.", soft_wrap=True, highlight=False)
        if found.maps.evidence is None:
            screen.print(NO_EVIDENCE, soft_wrap=True)
        if found.maps.gap is not None:
            screen.print(
                f"The attribution adds up to the logit, with an error of {np.abs(found.maps.gap).max():.2g}.",
                highlight=False,
            )
        if given is not None and given.path.stem != found.maps.bag.slide_id:
            screen.print(f"Note: the slide is called {given.path.name}, its features {found.features.name}.")
        if given is not None and top is not None:
            sheet = out.with_name(f"{out.stem}-top{out.suffix}")
            write_contact_sheet(found.maps, sheet, k=top, evidence=evidence, **shared)
            screen.print(f"Tiles in {sheet}.", soft_wrap=True, highlight=False)


@app.command(context_settings=FORMER)
@grouped
def export(
    source: ModelOrRun,
    options: ReadingOptions,
    out: Annotated[Path, typer.Option(help="Folder for one file per slide.")],
    which: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FEATURES_OR_SLIDES", help="For a model: feature files or folders. For a run: slide ids."
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="geojson (QuPath 0.4 or later), csv or h5ad (AnnData).")] = "geojson",
    variant: Variant = None,
    cohort: CohortName = None,
    target: TargetName = None,
    slides: Annotated[
        Path | None, typer.Option(help="Folder of the slides, to read their OpenSlide bounds and microns per pixel.")
    ] = None,
    no_bounds_shift: NoBoundsShift = False,
    attribution: Attribution = False,
    features: Moved = None,
    device: Device = TrainConfig.device,
    quiet: Quiet = False,
) -> None:
    """Export the maps of every patch for QuPath, tables or scverse, with coordinates in level-0 pixels.

    Slides of a run are shown by the model that never saw them. QuPath crops MRXS and some other slides to their
    OpenSlide bounds: with --slides, GeoJSON is shifted by them.

    Example: `jigsawmil export run --format geojson --slides slides --out maps`
    """
    from ..maps.patch_maps import NO_EVIDENCE
    from ..study.slide_maps import MapExport, every_map
    from ..train.devices import pick_device

    screen = console()
    pick_device(device)
    exported = MapExport(out, format, slides=slides, mpp=options.mpp, bounds=not no_bounds_shift)
    of_run: dict[str, Any] = {"variant": variant, "cohort": cohort, "features": features, "target": target}
    asked = {"device": device, "attribution": attribution, **of_run, **options.reading}
    total, found = every_map(source, which or [], **asked)
    missing = False
    with writing_to(out):
        for item in tracked(found, total, f"Exporting {total} slide{'s' * (total != 1)}", screen, quiet):
            exported.write(item)
            missing |= item.maps.evidence is None
    words = f"{total} {format} file{'s' * (total != 1)} in {out}"
    if format == "geojson":
        shifted = f"{exported.shifted} shifted by the OpenSlide bounds"
        words += f"; {shifted}" if slides else "; not shifted by the OpenSlide bounds (give --slides to shift them)"
    screen.print(f"{words}.{f' {NO_EVIDENCE}' if missing else ''}", soft_wrap=True, highlight=False)


@app.command(name="faithfulness", context_settings=FORMER)
def ask_faithfulness(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    variant: Annotated[str | None, typer.Option(help="Variant of the run. Default: all.")] = None,
    cohort: CohortName = None,
    target: TargetName = None,
    slides_at_most: Annotated[int, typer.Option(min=2, help="Slides (or patients) per variant, drawn at random.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the slides drawn and of the random orders.")] = 0,
    attribution: Attribution = False,
    features: Moved = None,
    device: Device = TrainConfig.device,
    quiet: Quiet = False,
) -> None:
    """Test whether maps can be trusted: remove patches, or keep only some, in the order of a map and at random.

    Tests attention and evidence; with --attribution also input attribution.
    Writes RUN/faithfulness/COHORT/VARIANT.json and .csv, which the report shows.

    Example: `jigsawmil faithfulness run --variant graph-abmil+jigsaw`
    """
    from ..maps.faithfulness import judge
    from ..report.trust import RULE, trust_sentence
    from ..study.run import open_run
    from ..study.slide_maps import the_cohort
    from ..study.trust import case_curves, chosen_cases, write_trust
    from ..train.devices import pick_device

    screen = console()
    pick_device(device)
    opened = open_run(run).for_target(target)
    for name in [the_cohort(opened, cohort)] if cohort else opened.cohorts:
        for each in [variant] if variant else opened.variants:
            chosen = chosen_cases(opened, name, each, slides_at_most, seed)
            tried = (case_curves(opened, case, seed, features, device, attribution) for case in chosen)
            curves = list(tracked(tried, len(chosen), f"{each}: {len(chosen)} slides", screen, quiet))
            sentence = trust_sentence(judge(curves))
            write_trust(opened, name, each, curves, seed=seed, sentence=sentence)
            screen.print(f"{each}: {sentence}", soft_wrap=True, highlight=False)
    screen.print(f"{RULE} Figures in {opened.files.faithfulness()}.", soft_wrap=True, highlight=False)
