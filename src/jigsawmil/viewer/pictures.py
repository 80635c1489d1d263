"""What the page shows of single patches: their tiles, or where there is no slide the map around them, as HTML."""

import base64
import io
from collections.abc import Sequence
from html import escape

import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..maps.patch_maps import NO_EVIDENCE, PatchMaps
from ..maps.values import percentiles
from ..slides.slide import Slide
from .data import Floats, Placement, evidence_of, shifts
from .slides import jpeg

AROUND = 4  # patches on each side, in a picture of the map
CARDS = 12


def ranking(maps: PatchMaps, by: str) -> NDArray[np.int64]:
    """The patches that lead by what the gallery is to show, first first."""
    values = {
        "most attended": -maps.attention,
        "least attended": maps.attention,
        "most for": -evidence_of(maps),
        "most against": evidence_of(maps),
        "largest jigsaw error": -shifts(maps),
    }[by]
    return np.argsort(values, kind="stable")[:CARDS]


def gallery(maps: PatchMaps, placement: Placement, slide: Slide | None, by: str) -> str:
    """A button a patch; page.js goes to it."""
    if by.startswith("largest") and maps.jigsaw is None:
        return "<p>This method has no jigsaw task of positions.</p>"
    if by in ("most for", "most against") and maps.evidence is None:
        return f"<p>{NO_EVIDENCE}</p>"
    if by.startswith("largest"):
        words = [f"{value:,.0f}" for value in _away(maps, placement)]
    elif by in ("most for", "most against"):
        words = [f"{value:+.2g}" for value in maps.evidence_for()]
    else:
        words = [f"{value:.1f} %" for value in percentiles(maps.attention)]
    cards = []
    for patch in ranking(maps, by):
        picture = patch_picture(maps, placement, slide, int(patch), 96)
        cards.append(
            f'<button type="button" data-patch="{patch}" title="patch {patch}">{picture}{words[patch]}</button>'
        )
    return f'<div class="cards">{"".join(cards)}</div>'


def patch_card(patch: int, shown: Sequence[tuple[str, PatchMaps]], placement: Placement, slide: Slide | None) -> str:
    """The chosen patch: its picture, what it attends to, and a column of figures a method."""
    x, y = placement.coords[patch]
    picture = patch_picture(shown[0][1], placement, slide, patch, 184)
    several = len(shown) > 1
    words = [
        f"{method}: {neighbour_words(maps, patch)}" if several else neighbour_words(maps, patch)
        for method, maps in shown
    ]
    notes = "".join(f"<p>{escape(text)}</p>" for text in words)
    rows = {
        "attention": [f"{maps.attention[patch]:.2e}" for _, maps in shown],
        "percentile": [f"{percentiles(maps.attention)[patch]:.1f}" for _, maps in shown],
        "evidence": ["–" if maps.evidence is None else f"{maps.evidence_for()[patch]:+.3g}" for _, maps in shown],
        "jigsaw": ["–" if maps.jigsaw is None else f"{_away(maps, placement)[patch]:,.0f} off" for _, maps in shown],
    }
    if shown[0][1].attribution is not None:  # of all or of none
        rows["attribution"] = [f"{maps.attribution_for()[patch]:+.3g}" for _, maps in shown]
    head = _row("th", ["", *(method for method, _ in shown)]) if several else ""
    body = head + "".join(_row("td", [name, *cells]) for name, cells in rows.items())
    place = f"<p><b>patch {patch}</b> at {x:,.0f}, {y:,.0f}</p>"
    return f'<div class="one">{picture}<div>{place}{notes}</div></div><table>{body}</table>'


def _row(kind: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"


def _away(maps: PatchMaps, placement: Placement) -> Floats:
    return shifts(maps) * placement.scale


def neighbour_words(maps: PatchMaps, patch: int) -> str:
    found = maps.neighbours(patch)
    if found is None:
        return "This model has no attention between patches."
    neighbours, weights = found
    own = float(weights[neighbours == patch].sum())
    half = int(np.searchsorted(np.cumsum(weights), 0.5) + 1)
    return f"attends to {len(neighbours) - 1} neighbours, {100 * own:.0f} % to itself; half of the weight is on {half}."


def patch_picture(maps: PatchMaps, placement: Placement, slide: Slide | None, patch: int, pixels: int) -> str:
    """An <img> of the patch's tile, or of the attention around it."""
    if slide is not None:
        x, y = placement.coords[patch]
        data = base64.b64encode(jpeg(slide.read(float(x), float(y), placement.edge, pixels))).decode()
        return f'<img alt="" src="data:image/jpeg;base64,{data}">'
    file = io.BytesIO()
    Image.fromarray(map_around(maps.attention, placement, patch)).save(file, "PNG")
    return f'<img class="map" alt="" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'


def map_around(attention: Floats, placement: Placement, patch: int) -> NDArray[np.uint8]:
    """(9, 9, 3): the attention of the patches around one, by rank; pale where there is none."""
    places = np.round((placement.coords - placement.coords[patch]) / placement.cell).astype(int) + AROUND
    near = ((places >= 0) & (places <= 2 * AROUND)).all(axis=1)
    picture = np.full((2 * AROUND + 1, 2 * AROUND + 1, 3), 244, dtype=np.uint8)
    tones = matplotlib.colormaps["viridis"](percentiles(attention)[near] / 100, bytes=True)[:, :3]
    picture[places[near, 1], places[near, 0]] = tones
    return picture
