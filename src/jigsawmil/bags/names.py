"""The id of a slide from the name of a file, be it the slide itself or its features."""

import re
from functools import cache

from .formats.registry import feature_suffixes

IMAGES = ("svs", "svslide", "tif", "tiff", "ndpi", "mrxs", "scn", "bif", "vms", "vmu", "czi", "dcm", "qptiff")


def slide_name(text: str) -> str:
    """A slide's id without folders and without the known image and feature extensions."""
    name = re.split(r"[/\\]", text)[-1]
    ending = _ending(feature_suffixes())
    while (short := ending.sub("", name)) != name and short:
        name = short
    return name


def has_known_ending(name: str) -> bool:
    """Whether a file is a slide or a feature file by its name."""
    return _ending(feature_suffixes()).search(name) is not None


@cache
def _ending(features: tuple[str, ...]) -> re.Pattern[str]:
    endings = (*IMAGES, *(re.escape(suffix.removeprefix(".")) for suffix in features))
    return re.compile(rf"(\.ome)?\.({'|'.join(endings)})$", re.IGNORECASE)
