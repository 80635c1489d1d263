"""Tissue masks as GeoJSON polygons, as QuPath reads and writes them: level-0 pixels, x then y."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SlideError
from ..files import replacing
from .tissue import Mask, Tissue

Ring = NDArray[np.float64]  # (corner, 2): x, y, the first corner repeated at the end
Polygon = list[Ring]  # the outline, then the holes


def polygons(tissue: Tissue) -> list[Polygon]:
    """Outlines of the pieces of a mask, level-0 pixels; exactly the mask's pixel centres lie inside."""
    from contourpy import FillType, contour_generator

    padded = np.pad(tissue.mask, 1).astype(np.float64)  # pieces that touch the edge close there
    generator = contour_generator(z=padded, fill_type=FillType.OuterOffset)
    points, offsets, *_ = generator.filled(0.5, np.inf)  # for each piece its corners, and where its rings begin
    return [
        [_straight((line[a:b] - 0.5) * tissue.scale) for a, b in pairwise(at)]
        for line, at in zip(points, offsets, strict=True)
        if line is not None and at is not None
    ]


def write_geojson(tissue: Tissue, path: Path, origin: tuple[float, float] = (0, 0)) -> None:
    """One annotation a piece of tissue. origin: level-0 place of the file's (0, 0), the slide's bounds in QuPath."""
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
        temporary.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")


def read_geojson(path: Path, size: tuple[int, int], scale: float, origin: tuple[float, float] = (0, 0)) -> Tissue:
    """The polygons of a file as a mask of a slide of `size` (width, height), `scale` level-0 pixels a mask pixel.

    A pixel belongs to the mask if its centre lies in a polygon and not in its holes; polygons may overlap.
    """
    width, height = (int(np.ceil(side / scale - 1e-9)) for side in size)
    mask = np.zeros((height, width), bool)
    for polygon in _read_polygons(path):
        _fill(mask, [(ring + origin) / scale for ring in polygon])
    if not mask.any():
        raise SlideError(
            f"{path.name}: no polygon covers a part of the slide, which has {size[0]} x {size[1]} pixels. "
            "Expected level-0 pixels; is it the annotation of another slide?"
        )
    return Tissue(mask, scale)


def _read_polygons(path: Path) -> list[Polygon]:
    try:
        text = path.read_text(encoding="utf-8")
        shapes = list(_geometries(json.loads(text)))
        found = [
            [np.asarray(ring, np.float64)[:, :2] for ring in rings]
            for kind, coordinates in shapes
            for rings in ({"Polygon": [coordinates], "MultiPolygon": coordinates}[kind])
        ]
    except FileNotFoundError as error:
        raise SlideError(f"{path}: does not exist; expected a GeoJSON file with polygons.") from error
    except KeyError as error:
        raise SlideError(
            f"{path.name}: holds {error}, expected Polygon or MultiPolygon. Delete other shapes before exporting."
        ) from error
    except (OSError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise SlideError(f"{path.name}: not GeoJSON as QuPath exports it ({error}).") from error
    if not any(map(len, found)):
        raise SlideError(f"{path.name}: holds no polygon; expected the outlines of tissue.")
    return found


def _geometries(node: Any) -> Iterator[tuple[str, Any]]:
    """Type and coordinates of every shape in a collection, feature, geometry or plain list of these."""
    if isinstance(node, list):
        for item in node:
            yield from _geometries(item)
    elif "features" in node or "geometries" in node:
        yield from _geometries(node.get("features") or node.get("geometries") or [])
    elif node.get("type") == "Feature":
        yield from _geometries(node["geometry"])
    else:
        yield str(node.get("type")), node.get("coordinates")


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
