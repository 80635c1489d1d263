"""The verb that turns slides into features, and the list of encoders."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ..bags.tile_spec import TileSpec
from ..cluster.extraction import extract_on_ray
from ..cluster.ray import ray_cluster
from ..config import choose
from ..errors import StudyError
from ..files import writing_to
from ..slides.encoders import ENCODERS, SPECS, EncoderSpec, encoder_spec
from ..slides.encoders.spec import is_file
from ..slides.extract import PRECISIONS, Extracted, ExtractSettings, check_masks, features_folder
from ..slides.extract_all import extract_here, write_account
from ..train.checkpoint import ModelCard
from ..train.devices import pick_device
from .app import app
from .arguments import Address, Device, ExecutorName, Out, Quiet, SlidesArgument
from .groups import grouped
from .options import WhereOptions
from .screen import console
from .show import slide_files
from .tiles import TileOptions

EXTRACT = ExtractSettings()
SILENCE = 30.0  # seconds between two lines where there is no terminal
Weights = Annotated[Path | None, typer.Option(help="Local weights of the encoder, instead of the hub.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Allow encoders whose loading runs code of their repository.")
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
    workers: Workers = EXTRACT.workers,
    batch: Annotated[
        int | None, typer.Option(help="Tiles encoded at a time. Default: 8 on a CPU, 64 elsewhere.")
    ] = None,
    device: Device = "auto",
    precision: Annotated[
        str, typer.Option(help="float32, or bfloat16 or float16 where the device has it.")
    ] = "float32",
    executor: ExecutorName = "local",
    address: Address = None,
    quiet: Quiet = False,
) -> None:
    """Slides to features, one file a slide in TRIDENT's layout. Running again does what is missing.

    Example: `jigsawmil extract slides --encoder uni --out features`
    """
    WhereOptions(executor=executor, address=address)  # refuses what cannot be
    choose("--precision", precision, PRECISIONS)
    spec, screen = encoder_spec(encoder), console()
    files = slide_files(slides, screen)
    where = device if executor == "ray" else str(pick_device(device))  # a cluster's nodes have their own
    settings = tiles.settings(spec, workers=workers, batch=batch, device=where, precision=precision)
    check_masks(settings.masks, files)
    for note in () if quiet else unusual(settings.tiles, spec):
        screen.print(note, highlight=False, soft_wrap=True)
    load = {"name": encoder, "weights": weights, "trust_code": trust_code}
    folder = features_folder(out, spec.name, settings)
    with writing_to(folder), TilesProgress(screen, len(files), quiet) as progress:
        if executor == "ray":
            with ray_cluster(address) as words:
                progress.say(words)
                paths, settings, load = everywhere(files, settings, load)
                found = progress.follow(extract_on_ray(paths, out.absolute(), load, settings), folder)
        else:
            found = progress.follow(extract_here(files, out, load, settings, progress.tiles), folder)
    show_extracted(found, screen, f"Features in {folder}")
    if any(one.status == "failed" for one in found):
        raise typer.Exit(1)


def unusual(tiles: TileSpec, spec: EncoderSpec) -> list[str]:
    """What an encoder was not trained for, in words."""
    notes = []
    scale = tiles.patch * tiles.mpp / (spec.patch * spec.mpp)
    if abs(scale - 1) > 0.1:
        notes.append(
            f"Note: {spec.name} asks for tiles of {spec.patch} pixels at {spec.mpp:g} microns; those of {tiles.patch} "
            f"at {tiles.mpp:.3g} show it everything {1 / scale:.2g} times as large as in its training."
        )
    if tiles.patch < spec.size:
        notes.append(f"Note: {spec.name} takes {spec.size} pixels; tiles of {tiles.patch} are enlarged.")
    return notes


def everywhere(
    files: list[Path], settings: ExtractSettings, load: dict[str, Any]
) -> tuple[list[Path], ExtractSettings, dict[str, Any]]:
    """The same with whole paths: another node has another working directory. Links stay: slides have their names."""
    name = str(Path(load["name"]).absolute()) if is_file(load["name"]) else load["name"]
    weights = load["weights"] and load["weights"].absolute()
    masks = settings.masks and settings.masks.absolute()
    paths = [file.absolute() for file in files]
    return paths, replace(settings, masks=masks), {**load, "name": name, "weights": weights}


def extract_for(
    card: ModelCard, slides: list[Path], cache: Path, load: dict[str, Any], settings: ExtractSettings, quiet: bool
) -> tuple[dict[Path, Path], bool]:
    """Features of slides as a model needs them: slide -> feature file, and whether every slide has them."""
    screen = console()
    assert card.encoder is not None  # `model_needs` has seen to it
    folder = features_folder(cache, card.encoder, settings)
    with writing_to(folder), TilesProgress(screen, len(slides), quiet) as progress:
        found = progress.follow(extract_here(slides, cache, load, settings, progress.tiles), folder)
    if not quiet or any(one.status != "done" for one in found):
        show_extracted(found, screen, f"Features in {folder}")
    ready = {one.slide for one in found if one.status in ("done", "already")}
    files = {slide: folder / f"{slide.stem}.h5" for slide in slides if slide.stem in ready}
    return files, len(files) == len(slides)


def model_needs(
    card: ModelCard, weights: Path | None, patch_um: float | None, trust_code: bool
) -> tuple[dict[str, Any], ExtractSettings]:
    """How to extract as it was done for a model's training: arguments of `load_encoder`, and the tiles."""
    if card.encoder is None:
        raise StudyError(
            "The model does not know which encoder made the features it was trained on, so it cannot make them of "
            "slides. Extract features as for its training, and give those."
        )
    name = card.encoder
    if name not in ENCODERS:
        if weights is None or not is_file(str(weights)):
            raise StudyError(
                f"The model was trained on features of {name}, which is not among `jigsawmil encoders`. Give features "
                "made with it, or its TorchScript or ONNX file: --weights FILE."
            )
        name, weights = str(weights), None
    spec = encoder_spec(name)
    if spec.name != card.encoder or (spec.dim and spec.dim != card.model.in_dim):
        raise StudyError(
            f"The model was trained on {card.model.in_dim} numbers a patch of {card.encoder}; {name} is the encoder "
            f"{spec.name} and gives {spec.dim or 'other'} numbers. Give features as for its training."
        )
    tiles = card.tiles or _tiles_of(card, spec, patch_um)
    trained = card.patch_um or tiles.patch * tiles.mpp
    if patch_um and abs(patch_um - trained) > 0.1 * trained:
        raise StudyError(
            f"--patch-um {patch_um:g}: the model was trained on patches of {trained:g} microns. Leave it out."
        )
    load = {"name": name, "weights": weights, "trust_code": trust_code}
    how = card.encoding
    return {**load, "mark": how and how.mark}, replace(
        EXTRACT, tiles=tiles, renew=True, precision=how.precision if how else EXTRACT.precision
    )


def _tiles_of(card: ModelCard, spec: EncoderSpec, patch_um: float | None) -> TileSpec:
    """Tiles of the edge in microns that is known, with as many pixels as the encoder can make use of."""
    edge = card.patch_um or patch_um
    if edge is None:
        raise StudyError(
            "The model does not know how large the patches were that it was trained on: the features did not say, or "
            "differed. State the edge in microns with --patch-um; 128 is 256 pixels at 20x."
        )
    return TileSpec(patch=spec.patch, mpp=edge / spec.patch)


def show_extracted(found: list[Extracted], screen: Console, where: str) -> None:
    """How many of each kind, then those that have no features."""
    counts = {status: sum(one.status == status for one in found) for status in dict.fromkeys(o.status for o in found)}
    tiles, seconds = sum(one.tiles for one in found), sum(one.seconds for one in found if one.tiles)
    rate = f"; {tiles:,} tiles, {tiles / seconds:.0f} a second" if tiles else ""
    words = ", ".join(f"{count} {status}" for status, count in counts.items())
    screen.print(
        f"{len(found)} slide{'s' * (len(found) != 1)}: {words}{rate}. {where}", highlight=False, soft_wrap=True
    )
    for one in found:
        if one.status == "no tissue":
            screen.print(f"No tissue: {escape(one.slide)}", highlight=False, soft_wrap=True)
        if one.status == "elsewhere":
            screen.print(f"Another process is at work on {escape(one.slide)}.", highlight=False, soft_wrap=True)
        if one.error:
            Console(stderr=True).print(f"[bold red]Failed:[/] {escape(one.error)}", highlight=False, soft_wrap=True)


@app.command()
def encoders() -> None:
    """The encoders that `extract` knows, and what each asks for.

    Example: `jigsawmil encoders`
    """
    table = Table(box=None, pad_edge=False)
    for name in ("encoder", "features", "tile", "from", "access", "licence"):
        table.add_column(name, justify="right" if name in ("features", "tile") else "left", no_wrap=True)
    for spec in SPECS:
        where = "built in, offline" if spec.source == "package" else spec.repo
        access = "on request" if spec.gated else "open"
        table.add_row(spec.name, f"{spec.dim}", f"{spec.patch}", where, access, spec.licence)
    console().print(table)


class TilesProgress:
    """A bar over slides with tiles a second and the time left; a line a slide where there is no terminal."""

    def __init__(self, screen: Console, slides: int, quiet: bool) -> None:
        self.screen, self.quiet, self.slides = screen, quiet, slides
        self._draws = screen.is_terminal and not quiet
        parts = BarColumn(24), MofNCompleteColumn(), TextColumn("{task.fields[words]}")
        self._bar = Progress(TextColumn("slides"), *parts, console=screen, transient=True)
        self._bar.disable = not self._draws
        self._task = self._bar.add_task("", total=slides, words="loading the encoder")
        self._seconds = self._began = 0.0
        self._opened = self._spoke = time.perf_counter()
        self._told = self._tiles = self._worked = 0

    def __enter__(self) -> "TilesProgress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, words: str) -> None:
        if not self.quiet:
            self.screen.print(words, highlight=False)

    def follow(self, results: Iterator[Extracted], folder: Path) -> list[Extracted]:
        """Show each slide as it is finished, and note it beside the features."""
        found = []
        for one in results:
            found.append(one)
            write_account(one, folder)
            self._show(one)
        return found

    def tiles(self, slide: Path, done: int, total: int) -> None:
        """Before the first batch, after each. Time left: of this slide, and the mean of those done for each other."""
        now = time.perf_counter()
        words = f"{slide.stem[:24]} {done}/{total}"
        if not self._draws and not self.quiet and done and now - self._spoke > SILENCE:
            self._spoke = now
            self.screen.print(f"{'':9} {escape(words)} tiles", highlight=False, soft_wrap=True)
        if done == 0:
            self._began = now
        else:
            here = now - self._began
            rate = (self._tiles + done) / max(self._seconds + here, 1e-3)
            mean = (self._seconds + here * total / done) / (self._worked + 1)
            left = here * (total - done) / done + mean * (self.slides - self._told - 1)
            words += f"  {rate:.0f} tiles/s  {_span(left)} left"
        self._bar.update(self._task, completed=self._told + done / total, words=words)

    def _show(self, one: Extracted) -> None:
        self._told += 1
        if one.tiles:
            self._worked, self._tiles, self._seconds = (
                self._worked + 1,
                self._tiles + one.tiles,
                self._seconds + one.seconds,
            )
        now = time.perf_counter() - self._opened  # slides may be done side by side: by the clock on the wall
        left = _span(now / self._told * (self.slides - self._told))
        words = f"{self._tiles / max(now, 1e-3):.0f} tiles/s  {left} left"
        self._bar.update(self._task, completed=self._told, words=words)
        if not self._draws and not self.quiet:
            rate = (
                f" ({one.tiles} tiles, {one.seconds:.0f} s, {one.tiles / one.seconds:.0f} tiles/s)" if one.tiles else ""
            )
            self._spoke = time.perf_counter()
            self.screen.print(f"{one.status:9} {escape(one.slide)}{rate}", highlight=False, soft_wrap=True)


def _span(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes / 60:.1f} h" if minutes >= 90 else f"{minutes:.0f} min" if minutes >= 1.5 else f"{seconds:.0f} s"
