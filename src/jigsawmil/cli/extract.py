"""The verb that turns slides into features, and the list of encoders."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..bags.tile_spec import TileSpec
from ..config import choose
from ..files import writing_to
from ..slides.extract_settings import PRECISIONS, ExtractSettings
from .app import app
from .arguments import Address, Device, ExecutorName, Out, Quiet, SlidesArgument
from .groups import grouped
from .options import WhereOptions
from .screen import console
from .tiles import TileOptions

if TYPE_CHECKING:
    from ..slides.encoders import EncoderSpec
    from ..slides.extract_one import Extracted
    from ..train.from_slides import Extraction

Weights = Annotated[Path | None, typer.Option(help="Local file or folder of encoder weights, instead of a download.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Allow encoders that run code from their repository when they are loaded.")
]
Workers = Annotated[int, typer.Option(min=1, help="Threads that read tiles.")]


@app.command()
@grouped
def extract(
    slides: SlidesArgument,
    out: Out,
    tiles: TileOptions,
    encoder: Annotated[
        str, typer.Option(help="One of `jigsawmil encoders`, or a TorchScript or ONNX file.")
    ] = "efficientnet-lite0",
    weights: Weights = None,
    trust_code: TrustCode = False,
    workers: Workers = ExtractSettings.workers,
    batch: Annotated[
        int | None, typer.Option(help="Tiles per batch of the encoder. Default: 8 on a CPU, 64 elsewhere.")
    ] = None,
    device: Device = "auto",
    precision: Annotated[
        str, typer.Option(help="float32, or bfloat16 or float16 if the device supports it.")
    ] = "float32",
    executor: ExecutorName = "local",
    address: Address = None,
    quiet: Quiet = False,
) -> None:
    """Extract features from slides, one file per slide in TRIDENT's layout. Rerun to resume.

    Example: `jigsawmil extract slides --encoder uni --out features`
    """
    from ..slides.encoders import encoder_spec
    from ..slides.extract_many import extract_here
    from ..slides.extract_one import check_masks, features_folder
    from ..train.devices import pick_device
    from .progress_tiles import TilesProgress
    from .show import slide_files

    WhereOptions(executor=executor, address=address)  # refuses what cannot be
    choose("--precision", precision, PRECISIONS)
    spec, screen = encoder_spec(encoder), console()
    files = slide_files(slides, screen)
    where = device if executor == "ray" else str(pick_device(device))  # a cluster's nodes have their own
    say = None if quiet else screen
    settings = tiles.settings(files, spec, say, workers=workers, batch=batch, device=where, precision=precision)
    check_masks(settings.masks, files)
    for note in () if quiet else unusual(settings.tiles, spec):
        screen.print(note, highlight=False, soft_wrap=True)
    load = {"name": encoder, "weights": weights, "trust_code": trust_code}
    folder = features_folder(out, spec.name, settings)
    with writing_to(folder), TilesProgress(screen, len(files), quiet) as progress:
        if executor == "ray":
            from ..cluster.extraction import extract_on_ray
            from ..cluster.ray import ray_cluster

            with ray_cluster(address) as words:
                progress.say(words)
                paths, settings, load = everywhere(files, settings, load)
                found = progress.follow(extract_on_ray(paths, out.absolute(), load, settings))
        else:
            found = progress.follow(extract_here(files, out, load, settings, progress.tiles))
    show_extracted(found, screen, f"Features in {folder}")
    if any(one.status == "failed" for one in found):
        raise typer.Exit(1)


def unusual(tiles: TileSpec, spec: "EncoderSpec") -> list[str]:
    """What an encoder was not trained for, in words."""
    notes = []
    scale = 1.0 if tiles.mpp is None else tiles.patch * tiles.mpp / (spec.patch * spec.mpp)
    if abs(scale - 1) > 0.1:
        notes.append(
            f"Note: {spec.name} expects tiles of {spec.patch} pixels at {spec.mpp:g} microns; in tiles of "
            f"{tiles.patch} at {tiles.mpp:.3g}, structures appear {1 / scale:.2g} times as large as in its training."
        )
    if tiles.patch < spec.size:
        notes.append(f"Note: {spec.name} takes {spec.size} pixels; tiles of {tiles.patch} are enlarged.")
    return notes


def everywhere(
    files: list[Path], settings: ExtractSettings, load: dict[str, Any]
) -> tuple[list[Path], ExtractSettings, dict[str, Any]]:
    """The same with whole paths: another node has another working directory. Links stay: slides have their names."""
    from ..slides.encoders.spec import is_file

    name = str(Path(load["name"]).absolute()) if is_file(load["name"]) else load["name"]
    weights = load["weights"] and load["weights"].absolute()
    masks = settings.masks and settings.masks.absolute()
    paths = [file.absolute() for file in files]
    return paths, replace(settings, masks=masks), {**load, "name": name, "weights": weights}


def show_extracted(found: "list[Extracted]", screen: Console, where: str) -> None:
    """How many of each kind, then those that have no features."""
    counts = {status: sum(one.status == status for one in found) for status in dict.fromkeys(o.status for o in found)}
    tiles, seconds = sum(one.tiles for one in found), sum(one.seconds for one in found if one.tiles)
    rate = f"; {tiles:,} tiles, {tiles / seconds:.0f} per second" if tiles else ""
    words = ", ".join(f"{count} {status}" for status, count in counts.items())
    screen.print(
        f"{len(found)} slide{'s' * (len(found) != 1)}: {words}{rate}. {where}", highlight=False, soft_wrap=True
    )
    for one in found:
        if one.status == "no tissue":
            screen.print(f"No tissue: {escape(one.slide)}", highlight=False, soft_wrap=True)
        if one.status == "elsewhere":
            screen.print(f"Another process is working on {escape(one.slide)}.", highlight=False, soft_wrap=True)
        if one.error:
            console(stderr=True).print(f"[bold red]Failed:[/] {escape(one.error)}", highlight=False, soft_wrap=True)


@app.command()
def encoders() -> None:
    """List the encoders that `extract` knows, with the tiles that each expects.

    Example: `jigsawmil encoders`
    """
    from ..slides.encoders import SPECS

    table = Table(box=None, pad_edge=False)
    for name in ("encoder", "features", "tile", "from", "access", "licence"):
        table.add_column(name, justify="right" if name in ("features", "tile") else "left", no_wrap=True)
    for spec in SPECS:
        where = "built in, offline" if spec.source == "package" else spec.repo
        access = "on request" if spec.gated else "open"
        table.add_row(spec.name, f"{spec.dim}", f"{spec.patch}", where, access, spec.licence)
    console().print(table)


def extract_for(extraction: "Extraction", screen: Console, quiet: bool) -> None:
    """Features of the slides that a model is to be applied to."""
    from .progress_tiles import TilesProgress

    for note in extraction.notes:
        screen.print(f"Note: {note}")
    with writing_to(extraction.folder), TilesProgress(screen, len(extraction.slides), quiet) as progress:
        found = progress.follow(extraction.run(progress.tiles))
    if not quiet or any(one.status != "done" for one in found):
        show_extracted(found, screen, f"Features in {extraction.folder}")
