"""Maps for QuPath: a GeoJSON FeatureCollection with one tile a patch.

As QuPath itself writes since version 0.4: `objectType`, measurements as an object of numbers, colours as [r, g, b].
Polygons are closed and in level-0 pixels.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from ..files import writing
from ..tasks import get_task
from .geometry import Squares
from .heatmap import ATTENTION, EVIDENCE
from .patch_maps import Floats, PatchMaps
from .values import colour_limit, percentiles

FOR, AGAINST = [178, 24, 43], [33, 102, 172]  # the ends of the evidence's colours


def write_geojson(
    maps: PatchMaps, squares: Squares, path: str | Path, *, shift: tuple[float, float] = (0.0, 0.0)
) -> None:
    """Write the maps of a slide as GeoJSON, one square per patch, for QuPath.

    squares: the patches in level-0 pixels. shift: subtracted from them; the OpenSlide bounds, to which QuPath crops
    MRXS and some others.

    Example: `write_geojson(maps, level0_squares(bag), "slide_1.geojson")`
    """
    with writing(Path(path)) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write('{"type": "FeatureCollection", "features": [\n')
        file.write(",\n".join(features(maps, squares, shift)))
        file.write("\n]}\n")


def features(maps: PatchMaps, squares: Squares, shift: tuple[float, float] = (0.0, 0.0)) -> Iterator[str]:
    """One JSON text a patch, in the order of the file."""
    corners = squares.corners - shift
    measured = measurements(maps)
    names = list(measured)
    columns = np.stack(list(measured.values()), axis=1)
    colours = patch_colours(maps)
    classified = classifications(maps)
    for corner, values, colour, classification in zip(corners, columns, colours.tolist(), classified, strict=True):
        x, y = map(_number, corner.tolist())
        right, bottom = (_number(float(value)) for value in corner + squares.edge)
        ring = [[x, y], [right, y], [right, bottom], [x, bottom], [x, y]]
        properties = {
            "objectType": "tile",
            "color": colour,
            **classification,
            "measurements": {name: float(f"{value:.7g}") for name, value in zip(names, values, strict=True)},
        }
        geometry = {"type": "Polygon", "coordinates": [ring]}
        yield json.dumps({"type": "Feature", "geometry": geometry, "properties": properties})


def classifications(maps: PatchMaps) -> list[dict[str, Any]]:
    """For or against a class, for each patch; empty without evidence."""
    if maps.evidence is None:
        return [{}] * len(maps)
    towards = {"classification": {"name": f"for {maps.shown_class}", "color": FOR}}
    away = {"classification": {"name": f"against {maps.shown_class}", "color": AGAINST}}
    return [towards if positive else away for positive in (maps.evidence_for() >= 0).tolist()]


def measurements(maps: PatchMaps) -> dict[str, Floats]:
    """(patch,) each; the probability is the slide's and the same throughout, so that a table of tiles carries it."""
    task = get_task(maps.task)
    signed = {
        f"{kind} for {name}": values
        for kind, by_class in signed_maps(maps).items()
        for name, values in by_class.items()
    }
    p = {
        task.output_words(index, maps.classes): np.full(len(maps), maps.probabilities[index])
        for index in task.reported(len(maps.classes))
    }
    ranks = {"attention": maps.attention, "attention percentile": percentiles(maps.attention)}
    return {"patch": np.arange(len(maps), dtype=np.float64), **ranks, **signed, **p}


def signed_maps(maps: PatchMaps) -> dict[str, dict[str, Floats]]:
    """Evidence and attribution, those that the maps have, by class: (patch,) each. Classes whose evidence is another's
    with its sign changed, or the same, are left out."""
    names = [maps.classes[index] for index in get_task(maps.task).evidence_classes(len(maps.classes))]
    there = {"evidence": maps.evidence is not None, "attribution": maps.attribution is not None}
    of = {"evidence": maps.evidence_for, "attribution": maps.attribution_for}
    return {kind: {name: of[kind](name) for name in names} for kind in of if there[kind]}


def patch_colours(maps: PatchMaps) -> np.ndarray:
    """(patch, 3) of 0 to 255: by the percentile of attention; by evidence where all are attended to alike."""
    if maps.shows_attention:
        rgba = matplotlib.colormaps[ATTENTION](percentiles(maps.attention) / 100)
    else:
        values = maps.signed_for()
        rgba = matplotlib.colormaps[EVIDENCE](values / colour_limit(values) / 2 + 0.5)
    return np.rint(rgba[:, :3] * 255).astype(int)


def _number(value: float) -> float | int:
    """Whole pixels without a point; the rest to a thousandth of a pixel."""
    return int(value) if value.is_integer() else round(value, 3)
