"""Plain images as slides: what Pillow reads of PNG, JPEG, BMP and TIFF files that OpenSlide refuses.

Regions of interest and TMA cores come like this. The image is held in memory whole, so its declared size is checked
before a pixel is decoded; what would be shown in wrong colours is refused.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SlideError

if TYPE_CHECKING:
    from PIL import Image

LARGEST = 178_956_970  # pixels: Pillow's own limit against decompression bombs; 0.7 GB of RGBA
COARSEST = 5.0  # microns per pixel: beyond, the resolution of a PNG or JPEG is a printer's or a flatbed scanner's
CONVERTED = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "YCbCr"}  # modes that become RGBA without loss
INCH, CENTIMETRE = 25_400, 10_000  # microns
IMAGEJ = re.compile(r"^ImageJ=.*^unit=(micron|microns|um|µm|\\u00B5m)$", re.DOTALL | re.MULTILINE)
FROM = "jigsawmil.mpp-from"  # property: where the resolution was found
_LIMIT = threading.Lock()


def read_plain(path: Path) -> tuple["Image.Image", dict[str, str]]:
    """The image as RGBA, upright as its EXIF orientation says, and its resolution in OpenSlide's words."""
    from PIL import ImageOps

    with _opened(path) as image:
        _check(path, image)
        properties = resolution(image)
        image.load()
        return ImageOps.exif_transpose(image).convert("RGBA"), properties


def plain_resolution(path: Path) -> dict[str, str]:
    """The resolution of an image from its header; nothing is decoded."""
    with _opened(path) as image:
        return resolution(image)


@contextmanager
def _opened(path: Path) -> Iterator["Image.Image"]:
    from PIL import Image

    with _own_limit():
        try:
            with Image.open(path) as image:
                yield image
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # of damaged files
            raise SlideError(
                f"{path.name}: neither a slide nor an image that can be read ({error}). Copy or export it again."
            ) from error


def _check(path: Path, image: "Image.Image") -> None:
    if image.width * image.height > LARGEST:
        raise SlideError(
            f"{path.name}: {image.width:,} x {image.height:,} pixels, too many for a plain image, which is held in "
            f"memory; expected at most {LARGEST:,}. Convert it to a pyramidal tiled TIFF: "
            f"vips tiffsave {path.name} {path.stem}-pyramid.tif --tile --pyramid --compression jpeg"
        )
    if image.mode.startswith(("I", "F")) or any(";16" in str(tile) for tile in getattr(image, "tile", ())):
        raise SlideError(
            f"{path.name}: pixels of more than 8 bits per channel ({image.mode}); their display range is unknown. "
            "Convert it to 8 bits per channel."
        )
    if image.mode not in CONVERTED:
        raise SlideError(
            f"{path.name}: colours of mode {image.mode}, which depend on a profile; expected RGB or grey. "
            "Convert it to RGB."
        )
    if (pages := _pages(image)) > 1:
        raise SlideError(
            f"{path.name}: {pages} pages of the same size, a stack of channels, planes or times; expected one RGB "
            "image. Export that."
        )


def _pages(image: "Image.Image") -> int:
    """Pages as large as the first; smaller ones are previews."""
    size, count = image.size, 0
    for page in range(getattr(image, "n_frames", 1)):
        image.seek(page)
        count += image.size == size
    image.seek(0)
    return count


def resolution(image: "Image.Image") -> dict[str, str]:
    """What an image says of its resolution, in OpenSlide's words, and where; empty if it is not one of a microscope."""
    tags = getattr(image, "tag_v2", None)
    if tags is not None:
        x, y, unit = tags.get(282), tags.get(283), {2: INCH, 3: CENTIMETRE}.get(tags.get(296, 2))
        where = "TIFF tags"
        if tags.get(296) == 1 and IMAGEJ.search(str(tags.get(270, ""))):
            unit, where = 1, "ImageJ's description"
    else:
        x, y = image.info.get("dpi", (0, 0))
        unit, where = INCH, {"PNG": "PNG pHYs", "JPEG": "JPEG density"}.get(str(image.format), "image header")
    if not x or not y or not unit:
        return {}
    microns = unit / float(x), unit / float(y)
    if tags is None and not max(microns) <= COARSEST:
        return {}
    return {"openslide.mpp-x": str(microns[0]), "openslide.mpp-y": str(microns[1]), FROM: where}


@contextmanager
def _own_limit() -> Iterator[None]:
    """Pillow warns of large pictures at half its limit; here the declared size is checked instead."""
    from PIL import Image

    with _LIMIT:
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before
