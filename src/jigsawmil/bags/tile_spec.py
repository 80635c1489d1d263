"""How slides are cut into tiles, as a feature file and a model remember it."""

from dataclasses import dataclass

from ..config import require

OBJECTIVE = 10.0  # microns per pixel times magnification: 20x is 0.5


@dataclass(frozen=True, kw_only=True)
class TileSpec:
    """How slides are cut. patch, overlap: pixels at `mpp` microns, as an encoder gets them; the overlap is shared with
    the next tile. mpp: None for pixels of the image itself, whatever they show. share: of a tile that must be tissue;
    drawn: tissue outlined by hand, not found."""

    patch: int = 256
    mpp: float | None = 0.5
    overlap: int = 0
    share: float = 0.25
    drawn: bool = False

    def __post_init__(self) -> None:
        require("patch", self.patch, self.patch >= 1, "pixels, 1 or more")
        require("mpp", self.mpp, self.mpp is None or self.mpp > 0, "microns per tile pixel, above 0")
        require("overlap", self.overlap, 0 <= self.overlap < self.patch, f"pixels, 0 to below the patch's {self.patch}")
        require("tissue share", self.share, 0 < self.share <= 1, "a share above 0, up to 1")

    @property
    def folder(self) -> str:
        """As TRIDENT calls it; it knows no tiles in pixels of the image."""
        scale = "pixels" if self.mpp is None else f"{OBJECTIVE / self.mpp:g}x"
        return f"{scale}_{self.patch}px_{self.overlap}px_overlap"

    @property
    def words(self) -> str:
        """Size and scale of a tile."""
        scale = "of the image, of unknown size in microns" if self.mpp is None else f"at {self.mpp:.3g} microns"
        return f"{self.patch} pixels {scale}"


DEFAULT_TILES = TileSpec()
