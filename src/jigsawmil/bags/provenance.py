"""What a file of features was made of: running again must know its own work from another slide's or other settings'."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

from .digest import content_of, digest, file_mark

if TYPE_CHECKING:
    from torch import nn

MADE_FROM = "made_from"  # attribute of the features, or key of the note that a slide has no tissue
DAMAGED = "damaged"  # in place of what a file would say
SAMPLE = 64  # numbers of each weight that are looked at
WORDS = {
    "slide": "made from another slide of this name",
    "content": "made from this slide before its content changed",
    "encoder": "made with other weights of the encoder, or tiles prepared otherwise",
    "masks": "made with other outlines of the tissue",
}

Made = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How an encoder was applied. mark: of its weights, and of how it wants tiles."""

    mark: str
    precision: str


def encoding_of(text: Any) -> Encoding | None:
    """From what a file of features says it was made of; None where it says nothing of it."""
    try:
        made = json.loads(text)
        return Encoding(mark=str(made["encoder"]), precision=str(made["precision"]))
    except (ValueError, TypeError, KeyError):
        return None


def slide_mark(path: Path) -> str:
    """Of a slide; the pixels of an MRXS lie in a folder, whose index names the scan."""
    index = path.with_suffix("") / "Slidedat.ini"
    return file_mark(index if path.suffix.lower() == ".mrxs" and index.is_file() else path)


def slide_content(path: Path) -> str:
    """Of a slide, with samples between its beginning and its end; the pixels of an MRXS lie in a folder."""
    folder = path.with_suffix("")
    return content_of([path, folder] if path.suffix.lower() == ".mrxs" and folder.is_dir() else [path])


def weights_mark(model: "nn.Module") -> str:
    """Of a model's weights, wherever they were loaded from."""
    parts = [
        f"{name} {tuple(value.shape)} {value.flatten()[:SAMPLE].float().tolist()}".encode()
        for name, value in model.state_dict().items()
    ]
    return digest(*parts)


def difference(known: Made | None, wanted: Made) -> str | None:
    """In words, what sets features that are there apart from those that are wanted; None where nothing does.

    Files of other tools do not say what they were made of, and are believed.
    """
    if known is None:
        return None
    if DAMAGED in known:
        return f"damaged ({known[DAMAGED]})"
    for key, value in wanted.items():
        old = known.get(key)
        if key == "slide_mpp" and None in (old, value):  # the slide says it itself, or nobody says otherwise now
            continue
        if key == "content" and key not in known:  # of an earlier version, which looked at both ends only
            continue
        if old != value:
            return WORDS.get(key, f"made with {key} {old}, this run says {value}")
    return None


def read_made(path: Path) -> Made | None:
    """What a file of features, or a note that there is no tissue, says of itself; None where it says nothing."""
    try:
        if path.suffix == ".h5":
            with h5py.File(path) as file:
                text = file["features"].attrs.get(MADE_FROM)
                return None if text is None else dict(json.loads(text))
        return dict(json.loads(path.read_text(encoding="utf-8"))[MADE_FROM])
    except (OSError, KeyError, ValueError, TypeError) as error:
        return {DAMAGED: str(error)}
