"""One look for every picture: spare colours, matplotlib's settings, the same bytes for the same figure."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Literal

import matplotlib.style
from matplotlib.figure import Figure

from .errors import StudyError
from .files import writing

Dash = Literal["-", "--", ":", "-."]
Styles = Mapping[str, tuple[str, Dash]]  # method -> colour, dash

# of Okabe and Ito's colours those that no method has, but for their yellow, which a white page swallows
SPARE = ("#CC79A7", "#000000", "#7F7F7F")
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")  # once the colours are used up
GREY = "0.6"
STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "jigsawmil",  # else element ids differ from run to run
    "text.parse_math": False,  # a slide may be called a$b$
}
METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    ".svg": {"Date": None, "Creator": None},
}


@contextmanager
def own_style() -> Iterator[None]:
    """Our style over matplotlib's own defaults, whatever the user's matplotlibrc says, and only in here."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a figure as .png, .pdf or .svg, whole or not at all; call it within `own_style`."""
    if path.suffix not in METADATA:
        raise StudyError(
            f"{path.name}: a picture cannot be written as {path.suffix!r}; expected {', '.join(METADATA)}."
        )
    with writing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], metadata=METADATA[path.suffix])


def image(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    """The picture as the bytes of a file; call it within `own_style`."""
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, metadata=METADATA[f".{kind}"])
    return buffer.getvalue()
