"""Options of verbs that cut slides into tiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..bags.tile_spec import DEFAULT_TILES, TileSpec
from ..config import require
from ..slides.extract_settings import ExtractSettings
from .arguments import Masks, NoBoundsShift, SlideMpp

if TYPE_CHECKING:
    from ..slides.encoders import EncoderSpec

SMALLEST = 16  # pixels of a tile: the patches of vision transformers


@dataclass(frozen=True)
class TileOptions:
    """Tissue and tiles."""

    patch: Annotated[
        int | None, typer.Option(help="Edge of a tile in pixels. Default: what the encoder asks for, mostly 256.")
    ] = None
    mpp: Annotated[
        float | None, typer.Option(help="Microns per tile pixel. Default: what the encoder asks for, mostly 0.5.")
    ] = None
    overlap: Annotated[int, typer.Option(help="Pixels shared with the next tile.")] = DEFAULT_TILES.overlap
    share: Annotated[float, typer.Option(help="Share of a tile that must be tissue.")] = DEFAULT_TILES.share
    slide_mpp: SlideMpp = None
    masks: Masks = None
    no_bounds_shift: NoBoundsShift = False

    def settings(
        self, files: Sequence[Path], encoder: "EncoderSpec | None", say: Console | None, **others: Any
    ) -> ExtractSettings:
        """How to cut these slides; what was decided about their resolution is printed."""
        from ..slides.scale import fit_tiles

        enough = self.patch is None or self.patch >= SMALLEST
        require("--patch", self.patch, enough, f"{SMALLEST} pixels or more: less shows no tissue")
        asked = encoder or DEFAULT_TILES
        tiles = TileSpec(
            patch=asked.patch if self.patch is None else self.patch,
            mpp=asked.mpp if self.mpp is None else self.mpp,
            overlap=self.overlap,
            share=self.share,
            drawn=self.masks is not None,
        )
        tiles, notes = fit_tiles(files, tiles, self.slide_mpp, asked=self.mpp is not None)
        if say is not None:
            for note in notes:
                say.print(note, highlight=False, soft_wrap=True)
        shift = not self.no_bounds_shift
        return ExtractSettings(tiles=tiles, slide_mpp=self.slide_mpp, masks=self.masks, shift=shift, **others)
