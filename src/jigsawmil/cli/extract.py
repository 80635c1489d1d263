"""The verb that turns slides into features, and the list of encoders."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..config import choose
from ..slides.encoders import ENCODERS
from ..slides.encoders.files import is_file
from ..slides.extract import Extracted, ExtractSettings
from ..slides.extract_all import extract_here, extract_on_ray, write_account
from ..slides.slide import find_slides
from ..study.on_ray import ray_cluster
from ..train.fit import pick_device
from .app import app
from .options import Address, Device, ExecutorName, Mpp, Out, Quiet
from .show import console, writing_to

EXTRACT = ExtractSettings()


@app.command()
def extract(
    slides: Annotated[list[Path], typer.Argument(help="Slides, or folders of slides.")],
    out: Out,
    encoder: Annotated[
        str, typer.Option(help="One of `jigsawmil encoders`, or a TorchScript or ONNX file.")
    ] = "efficientnet-lite0",
    weights: Annotated[Path | None, typer.Option(help="Local weights of the encoder, instead of the hub.")] = None,
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Allow encoders whose loading runs code of their repository.")
    ] = False,
    patch: Annotated[int, typer.Option(help="Edge of a tile in pixels.")] = EXTRACT.patch,
    mpp: Annotated[float, typer.Option(help="Microns a pixel of a tile.")] = EXTRACT.mpp,
    overlap: Annotated[int, typer.Option(help="Pixels shared with the next tile.")] = EXTRACT.overlap,
    share: Annotated[float, typer.Option(help="Share of a tile that must be tissue.")] = EXTRACT.share,
    slide_mpp: Mpp = None,
    masks: Annotated[Path | None, typer.Option(help="Folder of your own outlines, <slide>.geojson.")] = None,
    workers: Annotated[int, typer.Option(help="Threads that read tiles.")] = EXTRACT.workers,
    batch: Annotated[int, typer.Option(help="Tiles encoded at a time.")] = EXTRACT.batch,
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
    choose("--executor", executor, ("local", "ray"))
    if not is_file(encoder):
        choose("--encoder", encoder, ENCODERS)
    files, screen = find_slides(slides), console()
    settings = ExtractSettings(
        patch=patch, mpp=mpp, overlap=overlap, share=share, slide_mpp=slide_mpp, masks=masks, workers=workers,
        batch=batch, device=str(pick_device(device)), precision=precision,
    )  # fmt: skip
    load = {"name": encoder, "weights": weights, "trust_code": trust_code}
    name = Path(encoder).stem if is_file(encoder) else encoder
    found: list[Extracted] = []
    with writing_to(out), TilesProgress(screen, len(files), quiet) as progress:
        if executor == "ray":
            with ray_cluster(address) as words:
                progress.say(words)
                for one in extract_on_ray([file.resolve() for file in files], out.resolve(), load, settings):
                    found.append(progress.told(one))
        else:
            for one in extract_here(files, out, load, settings, progress.tiles):
                found.append(progress.told(one))
        account = write_account(found, out, name, settings)
    counts = {status: sum(one.status == status for one in found) for status in dict.fromkeys(o.status for o in found)}
    tiles, seconds = sum(one.tiles for one in found), sum(one.seconds for one in found)
    rate = f", {tiles / seconds:.0f} tiles a second" if tiles and executor == "local" else ""
    words = ", ".join(f"{count} {status}" for status, count in counts.items())
    screen.print(f"{len(found)} slides: {words}; {tiles:,} tiles{rate}. Features in {account.parent}", soft_wrap=True)
    for one in found:
        if one.status == "no tissue":
            screen.print(f"No tissue: {escape(one.slide)}", highlight=False, soft_wrap=True)
        if one.error:
            Console(stderr=True).print(f"[bold red]Failed:[/] {escape(one.error)}", highlight=False, soft_wrap=True)
    if "failed" in counts:
        raise typer.Exit(1)


@app.command()
def encoders() -> None:
    """The encoders that `extract` knows, and what each asks for.

    Example: `jigsawmil encoders`
    """
    table = Table(
        "encoder", "features", "input", "microns a pixel", "from", "access", "licence", box=None, pad_edge=False
    )
    for spec in ENCODERS.values():
        where = "built in, offline" if spec.source == "package" else spec.repo
        access = "on request" if spec.gated else "open"
        table.add_row(spec.name, f"{spec.dim}", f"{spec.size}", f"{spec.mpp}", where, access, spec.licence)
    console().print(table)


class TilesProgress:
    """A bar over slides with tiles a second; a line a slide where there is no terminal."""

    def __init__(self, screen: Console, slides: int, quiet: bool) -> None:
        self.screen, self.quiet, self.slides = screen, quiet, slides
        self._draws = screen.is_terminal and not quiet
        parts = BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}"), TimeElapsedColumn()
        left = TextColumn("left"), TimeRemainingColumn()
        self._bar = Progress(TextColumn("slides"), *parts, *left, console=screen, transient=True)
        self._bar.disable = not self._draws
        self._task = self._bar.add_task("", total=slides, words="")
        self._done = self._tiles = 0

    def __enter__(self) -> "TilesProgress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, words: str) -> None:
        if not self.quiet:
            self.screen.print(words, highlight=False)

    def tiles(self, slide: Path, done: int, total: int) -> None:
        elapsed = self._bar.tasks[0].elapsed or 0.0
        rate = f"{(self._tiles + done) / elapsed:.0f} tiles/s" if elapsed > 1 else ""
        self._bar.update(self._task, completed=self._done + done / total, words=f"{slide.stem} {done}/{total} {rate}")

    def told(self, one: Extracted) -> Extracted:
        self._done += 1
        self._tiles += one.tiles
        self._bar.update(self._task, completed=self._done)
        if not self._draws and not self.quiet:
            rate = f", {one.tiles / one.seconds:.0f} tiles/s" if one.tiles else ""
            line = f"{one.status:8} {one.slide} ({one.tiles} tiles, {one.seconds:.0f} s{rate})"
            self.screen.print(line, highlight=False, soft_wrap=True)
        return one
