"""Verbs about slides: find tissue and tiles, paint slides with a known answer."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ..errors import ConfigError, SlideError
from ..files import writing_to
from .app import app
from .arguments import Out, Quiet, SlidesArgument
from .groups import grouped
from .screen import console, tracked
from .tiles import TileOptions

if TYPE_CHECKING:
    from ..slides.extract_settings import ExtractSettings


@app.command()
@grouped
def tissue(
    slides: SlidesArgument,
    tiles: TileOptions,
    out: Out,
    encoder: Annotated[str | None, typer.Option(help="Encoder whose tile size is used, as in `extract`.")] = None,
    quiet: Quiet = False,
) -> None:
    """Find tissue and preview the tiles: a mask, GeoJSON for QuPath, and a picture of both.

    Example: `jigsawmil tissue slide.svs --encoder uni --out tissue`
    """
    from ..slides.encoders import encoder_spec
    from ..slides.extract_one import check_masks
    from .show import slide_files

    screen = console()
    if out.resolve() in {path.resolve() for path in slides}:
        raise ConfigError(
            f"--out {out}: this folder holds the slides, and pictures in it could be taken for slides. "
            "Give another folder."
        )
    files = slide_files(slides, screen)
    settings = tiles.settings(files, encoder_spec(encoder) if encoder else None, None if quiet else screen)
    check_masks(settings.masks, files)
    failed = []
    with writing_to(out):
        for path in tracked(files, len(files), f"Looking at {len(files)} slide{'s' * (len(files) > 1)}", screen, quiet):
            try:
                line = _look(path, out, settings)
            except SlideError as error:
                failed.append(str(error))
            else:
                screen.print(escape(line), highlight=False, soft_wrap=True)
    for why in failed:
        console(stderr=True).print(f"[bold red]Failed:[/] {escape(why)}", highlight=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _look(path: Path, out: Path, settings: "ExtractSettings") -> str:
    """Write the three files of a slide; the line to print."""
    import numpy as np

    from ..slides.extract_one import origin_of, tissue_of
    from ..slides.geojson_mask import write_geojson
    from ..slides.slide import open_slide, write_picture
    from ..slides.tiles import make_tiles, preview

    with open_slide(path, settings.slide_mpp) as slide:
        found = tissue_of(slide, settings.masks, settings.shift)
        tiles = make_tiles(slide, found, settings.tiles)
        write_picture(found.mask.astype(np.uint8) * 255, out / f"{path.stem}_tissue.png")
        write_geojson(found, out / f"{path.stem}.geojson", origin_of(slide, settings.shift))
        write_picture(preview(slide, found, tiles), out / f"{path.stem}_preview.png")
        return f"{path.name}: {found.amount(slide.mpp)}, {len(tiles):,} tiles"


@app.command(name="paint")
def paint_slides(
    out: Out,
    slides: Annotated[int, typer.Option(help="Slides in the cohort.")] = 20,
    kind: Annotated[str, typer.Option(help="What the label depends on: composition or arrangement.")] = "composition",
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same bytes.")] = 0,
    patches: Annotated[
        int, typer.Option(help="Median number of tiles per slide; 100 is about 4,000 x 4,000 pixels.")
    ] = 100,
    artefacts: Annotated[
        bool, typer.Option("--artefacts", help="Pen strokes and black frames on some slides.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write synthetic H&E-like slides with known labels: pyramidal TIFFs, a label table, the true masks.

    Example: `jigsawmil paint --slides 20 --out painted`
    """
    from ..synthetic.painted import paint_cohort

    screen = console()
    follow = partial(tracked, total=slides, words=f"Painting {slides} slides", screen=screen, quiet=quiet)
    paint_cohort(out, slides, kind, seed=seed, patches=patches, artefacts=artefacts, follow=follow)
    screen.print(f"{out / 'labels.csv'}\n{out / 'slides'}\n{out / 'truth'}", soft_wrap=True)
