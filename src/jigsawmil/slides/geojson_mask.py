"""Tissue masks as GeoJSON polygons, as QuPath reads and writes them: level-0 pixels, x then y."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags.bag import FARTHEST
from ..errors import SlideError
from ..files import replacing
from .tissue import Mask, Tissue

Ring = NDArray[np.float64]  # (corner, 2): x, y, the first corner repeated at the end
Polygon = list[Ring]  # the outline, then the holes
MARK = "jigsawmil_slide"  # a member of our own beside GeoJSON's
IGNORED = "Ignore*"  # QuPath's class of what is not to be looked at


def polygons(tissue: Tissue) -> list[Polygon]:
    """Outlines of the pieces of a mask, level-0 pixels; of the slide's pixel centres exactly the mask's lie inside."""
    from contourpy import FillType, contour_generator

    padded = np.pad(tissue.mask, 1).astype(np.float64)  # pieces that touch the edge close there
    generator = contour_generator(z=padded, fill_type=FillType.OuterOffset)
    points, offsets, *_ = generator.filled(0.5, np.inf)  # for each piece its corners, and where its rings begin
    return [
        [_straight(np.clip((line[a:b] - 0.5) * tissue.scale, 0, tissue.size)) for a, b in pairwise(at)]
        for line, at in zip(points, offsets, strict=True)
        if line is not None and at is not None
    ]


def write_geojson(tissue: Tissue, path: Path, origin: tuple[float, float] = (0, 0), mark: str = "") -> None:
    """One annotation a piece of tissue. origin: level-0 place of the file's (0, 0), the slide's bounds in QuPath.
    mark: of the slide; programs that change the file leave it out."""
    features = [
        {
            "type": "Feature",
            "geometry": {
                "type": "Polygon",
                "coordinates": [np.round(ring - origin, 2).tolist() for ring in piece],
            },
            "properties": {"objectType": "annotation", "classification": {"name": "Tissue", "color": [0, 160, 80]}},
        }
        for piece in polygons(tissue)
    ]
    with replacing(path) as temporary:
        whole = {"type": "FeatureCollection", MARK: mark, "features": features}
        temporary.write_text(json.dumps(whole), encoding="utf-8")


def marked(path: Path) -> str | None:
    """The mark of the slide that an outline was found on; None where it was drawn or changed since."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig")).get(MARK) or None
    except (OSError, ValueError, AttributeError):
        return None


def read_geojson(path: Path, size: tuple[int, int], scale: float, origin: tuple[float, float] = (0, 0)) -> Tissue:
    """The polygons of a file as a mask of a slide of `size` (width, height), `scale` level-0 pixels a mask pixel.

    A pixel belongs to the mask if its centre lies in a polygon and not in its holes, nor in a polygon of QuPath's class
    `Ignore*`; polygons may overlap.
    """
    width, height = (int(np.ceil(side / scale - 1e-9)) for side in size)
    mask, ignored = np.zeros((2, height, width), bool)
    for polygon, ignore in _read_polygons(path):
        _fill(ignored if ignore else mask, [(ring + origin) / scale for ring in polygon])
    mask &= ~ignored
    if not mask.any():
        raise SlideError(
            f"{path.name}: no polygon covers a part of the slide, which has {size[0]} x {size[1]} pixels. "
            "Expected level-0 pixels; is this the annotation of another slide?"
        )
    return Tissue(mask, scale, size)


def _read_polygons(path: Path) -> list[tuple[Polygon, bool]]:
    """Each with whether it is to be ignored."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = [
            ([np.asarray(ring, np.float64)[:, :2] for ring in rings if ring], ignore)
            for kind, coordinates, ignore in _geometries(json.loads(text))
            for rings in ({"Polygon": [coordinates], "MultiPolygon": coordinates}[kind])
        ]
    except FileNotFoundError as error:
        raise SlideError(f"{path}: does not exist; expected a GeoJSON file with polygons.") from error
    except KeyError as error:
        raise SlideError(
            f"{path.name}: holds {error}, expected Polygon or MultiPolygon. Delete other shapes before exporting."
        ) from error
    except (OSError, ValueError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise SlideError(f"{path.name}: not GeoJSON as QuPath exports it ({error}).") from error
    for ring in (ring for rings, _ in found for ring in rings):
        if not (np.abs(ring) <= FARTHEST).all():  # nor NaN; what follows would overflow
            raise SlideError(
                f"{path.name}: a corner at {np.abs(ring).max():g}; expected level-0 pixels of at most {FARTHEST:g}. "
                "Export the outlines again."
            )
    found = [(rings, ignore) for rings, ignore in found if rings]
    if not any(not ignore for _, ignore in found):
        raise SlideError(f"{path.name}: holds no polygon; expected the outlines of tissue.")
    return found


def _geometries(node: Any, ignore: bool = False) -> Iterator[tuple[str, Any, bool]]:
    """Type, coordinates and whether to ignore, of every shape in a collection, feature, geometry or list of these."""
    if isinstance(node, list):
        for item in node:
            yield from _geometries(item, ignore)
    elif "features" in node or "geometries" in node:
        yield from _geometries(node.get("features") or node.get("geometries") or [], ignore)
    elif node.get("type") == "Feature":
        kind = ((node.get("properties") or {}).get("classification") or {}).get("name")
        if node["geometry"] is not None:  # a feature without a place is legal
            yield from _geometries(node["geometry"], kind == IGNORED)
    else:
        yield str(node.get("type")), node.get("coordinates"), ignore


def _fill(mask: Mask, rings: Polygon) -> None:
    """Mark the pixels whose centres lie in a polygon with holes, by the even-odd rule, in place."""
    low, high = np.min(rings[0], axis=0), np.max(rings[0], axis=0)
    left, top = np.clip(np.floor(low), 0, mask.shape[::-1]).astype(int)
    right, bottom = np.clip(np.ceil(high), 0, mask.shape[::-1]).astype(int)
    if right <= left or bottom <= top:
        return
    crossings = np.zeros((bottom - top, right - left + 1), np.int64)
    for ring in rings:
        x, y = (ring - (left + 0.5, top + 0.5)).T  # pixel centres are whole numbers
        x, y, x2, y2 = x, y, np.roll(x, -1), np.roll(y, -1)
        first, last = (np.clip(np.ceil(at(y, y2)), 0, bottom - top).astype(int) for at in (np.minimum, np.maximum))
        edge = np.repeat(np.arange(len(x)), last - first)  # an edge crosses the rows first ... last - 1
        row = np.arange(len(edge)) - np.repeat(np.cumsum(last - first) - last, last - first)
        at = x[edge] + (row - y[edge]) * (x2 - x)[edge] / (y2 - y)[edge]
        np.add.at(crossings, (row, np.clip(np.ceil(at), 0, right - left).astype(int)), 1)
    mask[top:bottom, left:right] |= np.cumsum(crossings, axis=1)[:, :-1] % 2 == 1


def _straight(ring: Ring) -> Ring:
    """The same outline without the corners that lie on a straight line."""
    step = np.diff(ring, axis=0)
    before = np.roll(step, 1, axis=0)
    turns = np.abs(before[:, 0] * step[:, 1] - before[:, 1] * step[:, 0]) > 1e-9
    corners = ring[:-1][turns]
    return np.concatenate([corners, corners[:1]])
