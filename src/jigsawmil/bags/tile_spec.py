"""How slides are cut into tiles, as a feature file and a model remember it."""

from dataclasses import dataclass

from ..config import require

OBJECTIVE = 10.0  # microns per pixel times magnification: 20x is 0.5


@dataclass(frozen=True, kw_only=True)
class TileSpec:
    """How slides are cut. patch, overlap: pixels at `mpp` microns, as an encoder gets them; the overlap is shared with
    the next tile. share: of a tile that must be tissue; drawn: tissue outlined by hand, not found."""

    patch: int = 256
    mpp: float = 0.5
    overlap: int = 0
    share: float = 0.25
    drawn: bool = False

    def __post_init__(self) -> None:
        require("patch", self.patch, self.patch >= 1, "pixels, 1 or more")
        require("mpp", self.mpp, self.mpp > 0, "microns a pixel of a tile, above 0")
        require("overlap", self.overlap, 0 <= self.overlap < self.patch, f"pixels, 0 to below the patch's {self.patch}")
        require("tissue share", self.share, 0 < self.share <= 1, "a share above 0, up to 1")

    @property
    def folder(self) -> str:
        """As TRIDENT calls it."""
        return f"{OBJECTIVE / self.mpp:g}x_{self.patch}px_{self.overlap}px_overlap"


DEFAULT_TILES = TileSpec()
