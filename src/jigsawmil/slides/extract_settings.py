"""How slides are cut and encoded. Apart from the extraction itself: the command line needs no torch to ask for it."""

from dataclasses import dataclass
from pathlib import Path

from ..bags.tile_spec import DEFAULT_TILES, TileSpec
from ..config import choose, require

PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class ExtractSettings:
    """How features of slides are extracted: tiles, tissue and speed.

    slide_mpp: microns per level-0 pixel, if slides do not state it. masks: a GeoJSON file, or a folder of them,
    one per slide, in place of the tissue found here; shift: as QuPath writes and reads them, from the corner of the
    scanned area. workers: threads that read. batch: tiles encoded at a time; None: 8 on a CPU, whose caches are
    small, else 64. renew: features of another slide of the same name, or of other settings, are extracted again, not
    refused."""

    tiles: TileSpec = DEFAULT_TILES
    slide_mpp: float | None = None
    masks: Path | None = None
    shift: bool = True
    workers: int = 2
    batch: int | None = None
    device: str = "cpu"
    precision: str = "float32"
    renew: bool = False

    def __post_init__(self) -> None:
        choose("precision", self.precision, PRECISIONS)
        require("workers", self.workers, self.workers >= 1, "at least 1")
        require("batch", self.batch, self.batch is None or self.batch >= 1, "at least 1")

    @property
    def at_once(self) -> int:
        """Tiles encoded at a time."""
        return self.batch or (8 if self.device == "cpu" else 64)
