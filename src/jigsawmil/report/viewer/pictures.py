"""What the page shows of single patches: their tiles, or where there is no slide the map around them, as HTML."""

import base64
import io
from collections.abc import Sequence
from html import escape

import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...slides.slide import Slide
from ...train.explain import PatchMaps
from .data import Floats, Placement, ranks, shifts
from .slides import jpeg

AROUND = 4  # patches on each side, in a picture of the map
CARDS = 12


def ranking(maps: PatchMaps, by: str) -> NDArray[np.int64]:
    """The patches that lead by what the gallery is to show, first first."""
    values = {
        "most attended": -maps.attention,
        "least attended": maps.attention,
        "most for": -maps.evidence_for(),
        "most against": maps.evidence_for(),
        "farthest by the jigsaw": -shifts(maps),
    }[by]
    return np.argsort(values, kind="stable")[:CARDS]


def gallery(maps: PatchMaps, placement: Placement, slide: Slide | None, by: str) -> str:
    """A button a patch; page.js goes to it."""
    if by.startswith("farthest") and maps.jigsaw is None:
        return "<p>This method solves no jigsaw of places.</p>"
    chosen = ranking(maps, by)
    evidence, rank, away = maps.evidence_for(), ranks(maps.attention), shifts(maps)
    cards = []
    for patch in chosen:
        if by.startswith("most for") or by.startswith("most against"):
            words = f"{evidence[patch]:+.2g}"
        elif by.startswith("farthest"):
            words = f"{away[patch] * placement.scale:,.0f} px"
        else:
            words = f"{100 * rank[patch]:.1f} %"
        picture = patch_picture(maps, placement, slide, int(patch), 96)
        cards.append(f'<button type="button" data-patch="{patch}" title="patch {patch}">{picture}{words}</button>')
    return f'<div class="cards">{"".join(cards)}</div>'


def patch_card(patch: int, shown: Sequence[tuple[str, PatchMaps]], placement: Placement, slide: Slide | None) -> str:
    """The chosen patch: its picture, and a column of figures a method."""
    first = shown[0][1]
    x, y = placement.coords[patch]
    rows = [["patch", f"{patch}"], ["x, y", f"{x:,.0f}, {y:,.0f}"]]
    heads = [["", *(f"<th>{escape(method)}</th>" for method, _ in shown)]] if len(shown) > 1 else []
    rows.append(["attention", *(f"{maps.attention[patch]:.2e}" for _, maps in shown)])
    rows.append(["percentile", *(f"{100 * ranks(maps.attention)[patch]:.1f}" for _, maps in shown)])
    rows.append(["evidence", *(f"{maps.evidence_for()[patch]:+.3g}" for _, maps in shown)])
    away = [f"{shifts(maps)[patch] * placement.scale:,.0f} px" if maps.jigsaw is not None else "–" for _, maps in shown]
    rows.append(["jigsaw", *away])
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows[:2])
    body += "".join("<tr><td></td>" + "".join(row[1:]) + "</tr>" for row in heads)
    body += "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows[2:])
    picture = patch_picture(first, placement, slide, patch, 208)
    notes = "".join(f"<p>{escape(neighbour_words(method, maps, patch, len(shown) > 1))}</p>" for method, maps in shown)
    return f'<div class="one">{picture}<table>{body}</table></div>{notes}'


def neighbour_words(method: str, maps: PatchMaps, patch: int, named: bool) -> str:
    found = maps.neighbours(patch)
    who = f"{method}: " if named else ""
    if found is None:
        return f"{who}no attention between patches."
    neighbours, weights = found
    own = float(weights[neighbours == patch].sum())
    half = int(np.searchsorted(np.cumsum(weights), 0.5) + 1)
    return f"{who}attends to {len(neighbours) - 1} neighbours, {100 * own:.0f} % to itself; half lies on {half}."


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
    tones = matplotlib.colormaps["magma"](ranks(attention)[near], bytes=True)[:, :3]
    picture[places[near, 1], places[near, 0]] = tones
    return picture
