"""The patches a model looked at most and least, cut from the slide."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ..drawing import own_style, save
from ..slides.slide import Slide
from .geometry import Picture, check_slide
from .patch_maps import Floats, Ints, PatchMaps

TILE, GAP, LINE, COLUMNS, DPI = 256, 12, 24, 6, 150  # pixels of a tile, between tiles, of a line; tiles a row


class Group(NamedTuple):
    title: str
    patches: Ints  # by rank
    values: Floats  # of these patches, as printed below them


def write_contact_sheet(
    maps: PatchMaps,
    path: str | Path,
    *,
    slide: Slide,
    k: int = 12,
    features: Path | None = None,
    evidence: bool = False,
) -> None:
    """The k most and least attended tiles; with `evidence` also those that speak most for and against a class, if
    the model has evidence.

    Each tile is 256 pixels: the slide's own where a patch has that many, else resampled.
    """
    squares = check_slide(maps.bag, slide, features)
    groups = top_groups(maps, k, evidence)

    def tile(patch: int) -> Picture:
        x, y = squares.corners[patch]
        return slide.read(x, y, squares.edge, TILE)

    tiles = [[tile(patch) for patch in group.patches] for group in groups]
    with own_style():
        save(sheet_figure(maps.bag.slide_id, groups, tiles), Path(path))


def top_groups(maps: PatchMaps, k: int, evidence: bool = False) -> list[Group]:
    """Ties go by the order of the file. Models without attention show their evidence in any case.

    Where no patch speaks for (or against) the class, that group is empty.
    """
    groups: list[Group] = []

    def add(title: str, values: Floats, sign: int, signed: bool = False) -> None:
        patches = np.argsort(-sign * values, kind="stable")[:k]
        patches = patches[sign * values[patches] > 0] if signed else patches
        groups.append(Group(title, patches, values[patches]))

    if maps.shows_attention:
        add("most attended: % of the attention", maps.attention * 100, 1)
        add("least attended: % of the attention", maps.attention * 100, -1)
    if not groups or (evidence and maps.evidence is not None):
        name = "evidence" if maps.evidence is not None else "attribution"
        add(f"strongest {name} for {maps.shown_class}: share of the logit", maps.signed_for(), 1, signed=True)
        add(f"strongest {name} against {maps.shown_class}: share of the logit", maps.signed_for(), -1, signed=True)
    return groups


def sheet_figure(title: str, groups: list[Group], tiles: list[list[Picture]]) -> Figure:
    """Rows of tiles, each with rank, number of the patch and value; placed by the pixel, so that none is resampled."""
    rows = [-(-len(group.patches) // COLUMNS) for group in groups]
    width = COLUMNS * (TILE + GAP) + GAP
    height = 2 * LINE + sum(2 * LINE + row * (TILE + LINE + GAP) for row in rows)
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)

    def text(x: float, y: float, words: str, size: float) -> None:
        figure.text(x / width, 1 - y / height, words, fontsize=size, ha="left", va="top")

    text(GAP, GAP, title, 9)
    y = 2 * LINE
    for group, pictures, count in zip(groups, tiles, rows, strict=True):
        text(GAP, y + GAP, group.title if pictures else f"{group.title.split(':')[0]}: no patch", 8)
        y += 2 * LINE
        for rank, picture in enumerate(pictures):
            row, column = divmod(rank, COLUMNS)
            left, top = GAP + column * (TILE + GAP), y + row * (TILE + LINE + GAP)
            ax = figure.add_axes((left / width, 1 - (top + TILE) / height, TILE / width, TILE / height))
            ax.imshow(picture, interpolation="nearest")
            ax.set_axis_off()
            words = f"{rank + 1}.  {group.values[rank]:.3g}   (patch {group.patches[rank]})"
            text(left, top + TILE + 5, words, 6.5)
        y += count * (TILE + LINE + GAP)
    return figure
