"""From pixels to features: slides, tissue, tiles and encoders.

Example:

    from jigsawmil.slides import find_tissue, make_tiles, open_slide

    with open_slide("slides/0001.tif") as slide:
        tiles = make_tiles(slide, find_tissue(slide))
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .encoders import ENCODERS, Encoder, EncoderSpec, encode, encoder_spec, load_encoder, register_encoder
    from .extract_many import extract_slides
    from .extract_one import Extracted, extract_slide
    from .extract_settings import ExtractSettings
    from .find import find_slides
    from .slide import Slide, open_slide
    from .tiles import Tiles, make_tiles
    from .tissue import Tissue, TissueSettings, find_tissue
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "ENCODERS",
    "Encoder",
    "EncoderSpec",
    "ExtractSettings",
    "Extracted",
    "Slide",
    "Tiles",
    "Tissue",
    "TissueSettings",
    "encode",
    "encoder_spec",
    "extract_slide",
    "extract_slides",
    "find_slides",
    "find_tissue",
    "load_encoder",
    "make_tiles",
    "open_slide",
    "register_encoder",
]  # fmt: skip
