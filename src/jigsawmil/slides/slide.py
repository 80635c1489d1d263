"""Slides as pixels: the only file that knows OpenSlide.

Coordinates are level-0 pixels, x then y; pictures are uint8 (height, width, 3), white where nothing was scanned.
Threads may share one `Slide`. Processes may not: send a `Slide` (or its path) to a worker and it opens the file anew;
never use a handle that was opened before a fork.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, SlideError
from ..files import replacing
from .plain import FROM, plain_resolution, read_plain

if TYPE_CHECKING:
    from PIL import Image

Picture = NDArray[np.uint8]  # (height, width, 3), RGB

NEEDS = "pip install 'jigsawmil[slides]'"
PICTURES = {".png", ".jpg", ".jpeg", ".bmp"}
PLAIN = PICTURES | {".tif", ".tiff"}  # Pillow reads what OpenSlide refuses of these
SLIDES = {".svs", ".ndpi", ".mrxs", ".scn", ".svslide", ".bif", ".vms", ".vmu", ".avs", ".czi", ".dcm"} | PLAIN
FINEST, COARSEST = 0.01, 20.0  # microns: outside, a resolution is a scanner's or a program's filler (72 dpi is 353)
AGREE = 0.05  # a stated mpp this close to the slide's own is no contradiction
IN_PIXELS = (
    "Or cut tiles in pixels of the image: process such images separately without --mpp (TileSpec(mpp=None) in Python)."
)
GENERIC = "generic-tiff"  # OpenSlide's name for tiled TIFFs of no known scanner; plain images have no vendor
BLOCK = 1 << 24  # pixels decoded at a time, 64 MB


class Thumbnail(NamedTuple):
    """A whole slide, small. Pixel (i, j) shows level-0 [i, i + 1) * scale, [j, j + 1) * scale, exactly."""

    image: Picture
    scale: float  # level-0 pixels a thumbnail pixel, the same along x and y


class Bounds(NamedTuple):
    """The part of a slide that was scanned, level-0 pixels."""

    x: int
    y: int
    width: int
    height: int


class Resolution(NamedTuple):
    """What a file says of its pixels. plain: as `Slide.plain`. mpp: microns per level-0 pixel; None if unknown."""

    plain: bool
    mpp: float | None
    where: str = ""  # it says so


class Slide:
    """An open slide; made by `open_slide`, closed by `with` or `close()`."""

    def __init__(self, path: Path, handle: Any, properties: dict[str, str], mpp: float | None) -> None:
        self.path = path
        self.mpp = mpp  # microns per level-0 pixel; None where nobody knows
        self.size: tuple[int, int] = handle.dimensions  # width, height
        self.level_downsamples: tuple[float, ...] = tuple(handle.level_downsamples)
        self.properties = properties
        self.bounds = _bounds(self.properties, self.size)
        self._handle = handle

    def __enter__(self) -> "Slide":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return open_slide, (self.path, self.mpp)

    def close(self) -> None:
        self._handle.close()

    @property
    def says_mpp(self) -> bool:
        """Whether the slide itself says how large its pixels are."""
        return _own_mpp(self.properties) is not None

    @property
    def plain(self) -> bool:
        """Whether it is an image without a pyramid: a region of interest or a TMA core rather than a scan."""
        return _is_plain(self.properties, self.level_downsamples)

    @property
    def needed_mpp(self) -> float:
        """Microns per level-0 pixel; an error where nobody knows them."""
        if self.mpp is None:
            power = self.properties.get("openslide.objective-power")
            hint = f" It was scanned at {power}x." if power else ""
            pixels = f" {IN_PIXELS}" if self.plain else ""
            raise SlideError(
                f"{self.path.name}: the slide does not state its resolution.{hint} State the microns per "
                f"level-0 pixel with --slide-mpp (mpp= in Python): about 0.25 for 40x, 0.5 for 20x.{pixels}"
            )
        return self.mpp

    def read(self, x: float, y: float, size: float, out: int) -> Picture:
        """The square with top-left (x, y) and edge `size`, in level-0 pixels, as out x out pixels.

        It is taken from the coarsest level that is at least as fine, and averaged, not picked, on the way down.
        """
        return self._read(x, y, (size, size), (out, out))

    def tile(self, scale: float, column: int, row: int, edge: int = 256) -> Picture:
        """A tile of the lattice from (0, 0) at `scale` level-0 pixels a pixel, for viewers; white beyond the slide."""
        step = edge * scale
        return self.read(column * step, row * step, step, edge)

    def thumbnail(self, max_side: int) -> Thumbnail:
        """The whole slide with at most `max_side` pixels a side, never enlarged."""
        return self.reduced(max(1.0, max(self.size) / max_side))

    def thumbnail_at(self, mpp: float) -> Thumbnail:
        """The whole slide at `mpp` microns per pixel, never enlarged."""
        return self.reduced(max(1.0, mpp / self.needed_mpp))

    def reduced(self, scale: float) -> Thumbnail:
        """The whole slide at `scale` level-0 pixels a pixel."""
        # 1e-9: a width of exactly 512 pixels must not become 513 by a rounding error
        width, height = (max(1, math.ceil(side / scale - 1e-9)) for side in self.size)
        return Thumbnail(self._read(0, 0, (width * scale, height * scale), (width, height)), scale)

    def _read(self, x: float, y: float, size: tuple[float, float], out: tuple[int, int]) -> Picture:
        from PIL import Image

        level = best_level(self.level_downsamples, size[0] / out[0])
        step = self.level_downsamples[level]
        factor = max(1, int(size[0] / out[0] / step / 2))  # whole-number averaging first: exact, quick, block by block
        pixel = step * factor  # level-0 pixels a pixel of the picture that is resampled
        column, row = math.floor(x / pixel + 1e-6), math.floor(y / pixel + 1e-6)
        columns = math.ceil((x + size[0]) / pixel - 1e-6) - column
        rows = math.ceil((y + size[1]) / pixel - 1e-6) - row
        image = self._blocks(level, factor, column, row, columns, rows)
        left, top = max(0.0, x / pixel - column), max(0.0, y / pixel - row)
        box = (left, top, min(columns, left + size[0] / pixel), min(rows, top + size[1] / pixel))
        exact = (columns, rows) == out and np.allclose(box, (0, 0, columns, rows), atol=1e-3)
        return np.asarray(image if exact else image.resize(out, Image.Resampling.BICUBIC, box))

    def _blocks(self, level: int, factor: int, column: int, row: int, columns: int, rows: int) -> "Image.Image":
        """A region of a level reduced `factor` times, counted in reduced pixels; decoded piece by piece."""
        from PIL import Image

        edge = max(1, math.isqrt(BLOCK) // factor)
        if max(columns, rows) <= edge:
            return self._decode(level, factor, column, row, columns, rows)
        whole = Image.new("RGB", (columns, rows))
        for top in range(0, rows, edge):
            for left in range(0, columns, edge):
                part = (min(edge, columns - left), min(edge, rows - top))
                whole.paste(self._decode(level, factor, column + left, row + top, *part), (left, top))
        return whole

    def _decode(self, level: int, factor: int, column: int, row: int, columns: int, rows: int) -> "Image.Image":
        from openslide import OpenSlideError

        pixel = self.level_downsamples[level] * factor
        corner = (round(column * pixel), round(row * pixel))
        try:
            image = self._handle.read_region(corner, level, (columns * factor, rows * factor))
        except OpenSlideError as error:
            raise SlideError(
                f"{self.path.name}: the pixels at {corner} cannot be read ({error}). "
                "The file is damaged or truncated: copy or scan it again."
            ) from error
        image = _on_white(image)
        return image if factor == 1 else image.reduce(factor)


def open_slide(path: str | Path, mpp: float | None = None) -> Slide:
    """Open an SVS, NDPI, MRXS (its folder beside it), tiled TIFF or whatever else OpenSlide reads, or a plain image.

    mpp: microns per level-0 pixel where the slide does not say; a contradiction is an error.

    Example: `with open_slide("a.svs") as slide: slide.thumbnail(1000)`
    """
    path = Path(path)
    if mpp is not None and not FINEST <= mpp <= COARSEST:
        raise ConfigError(
            f"mpp={mpp}: expected microns per level-0 pixel, from {FINEST} to {COARSEST}; 40x is about 0.25."
        )
    handle, properties = _open(path)
    own = _own_mpp(properties)
    if own is not None and mpp is not None and abs(own - mpp) > AGREE * own:
        handle.close()
        raise SlideError(
            f"{path.name}: the slide states {own:.4g} microns per pixel, --slide-mpp (mpp=) says {mpp:.4g}. "
            "Omit it to use the slide's value, or correct the slide."
        )
    return Slide(path, handle, properties, mpp if own is None else own)


def resolution_of(path: Path) -> Resolution:
    """The resolution that a slide states, of a plain image from its header alone.

    Example: `resolution_of(Path("core.png")).mpp`
    """
    import openslide

    if path.suffix.lower() in PLAIN and path.is_file() and openslide.OpenSlide.detect_format(path) is None:
        properties, levels = plain_resolution(path), (1.0,)
    else:
        handle, properties = _open(path)
        levels = tuple(handle.level_downsamples)
        handle.close()
    return Resolution(
        _is_plain(properties, levels), _own_mpp(properties), properties.get(FROM, "the slide's properties")
    )


def write_picture(picture: NDArray[np.uint8], path: Path) -> None:
    """A PNG, RGB or grey."""
    from PIL import Image

    with replacing(path) as temporary:
        Image.fromarray(picture).save(temporary, format="PNG", compress_level=3)  # twice as quick as 6


def best_level(downsamples: Sequence[float], target: float) -> int:
    """The coarsest level that is at least as fine as `target` level-0 pixels a pixel; levels are a per mille off."""
    fine = [level for level, step in enumerate(downsamples) if step <= target * 1.001]
    return max(fine, key=lambda level: downsamples[level], default=0)


def _open(path: Path) -> tuple[Any, dict[str, str]]:
    """OpenSlide's handle and the slide's properties."""
    try:
        import openslide
    except ImportError as error:
        raise SlideError(f"{path.name}: reading slides needs OpenSlide. Install it: {NEEDS}") from error
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise SlideError(f"{path}: {what}; expected a slide file ({', '.join(sorted(SLIDES))}).")
    if path.suffix.lower() == ".mrxs" and not path.with_suffix("").is_dir():
        raise SlideError(
            f"{path.name}: its folder {path.stem}/ is not beside it. Copy both; the pixels are in the folder."
        )
    try:
        handle = openslide.OpenSlide(path)
        return handle, dict(handle.properties)
    except openslide.OpenSlideUnsupportedFormatError as error:
        if path.suffix.lower() not in PLAIN:
            raise SlideError(
                f"{path.name}: no slide format that OpenSlide knows. The file is damaged or truncated, or must be "
                "converted to a pyramidal tiled TIFF."
            ) from error
    except openslide.OpenSlideError as error:
        raise SlideError(f"{path.name}: cannot be opened ({error}). Copy it or scan it again.") from error
    image, stated = read_plain(path)
    return openslide.ImageSlide(image), stated


def _own_mpp(properties: dict[str, str]) -> float | None:
    """Microns per level-0 pixel, mean of x and y; OpenSlide takes them from vendors' fields and TIFF's resolution."""
    try:
        mpp = (float(properties["openslide.mpp-x"]) + float(properties["openslide.mpp-y"])) / 2
    except (KeyError, ValueError):
        return None
    return mpp if FINEST <= mpp <= COARSEST else None


def _is_plain(properties: dict[str, str], level_downsamples: Sequence[float]) -> bool:
    return len(level_downsamples) == 1 and properties.get("openslide.vendor", GENERIC) == GENERIC


def _bounds(properties: dict[str, str], size: tuple[int, int]) -> Bounds:
    """MRXS and some others scan a part of a large white canvas."""
    try:
        return Bounds(*(int(properties[f"openslide.bounds-{side}"]) for side in ("x", "y", "width", "height")))
    except (KeyError, ValueError):
        return Bounds(0, 0, *size)


def _on_white(image: "Image.Image") -> "Image.Image":
    from PIL import Image

    if image.getchannel("A").getextrema()[0] == 255:
        return image.convert("RGB")
    white = Image.new("RGB", image.size, (255, 255, 255))
    white.paste(image, mask=image.getchannel("A"))
    return white
