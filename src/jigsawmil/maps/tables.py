"""Maps as tables: CSV, and AnnData (.h5ad) for the tools of scverse. Places are level-0 pixels."""

from pathlib import Path

import numpy as np
import pandas as pd

from ..bags.formats.h5ad import OURS
from ..errors import ConfigError
from ..files import write_csv, writing
from .geometry import Squares, squares_of
from .patch_maps import PatchMaps
from .qupath import signed_maps
from .values import percentiles

CANVAS = 600  # pixels of the longer side of the empty picture


def maps_table(maps: PatchMaps, squares: Squares) -> pd.DataFrame:
    """One row per patch in the order of the file: x, y (top-left corner), size, attention, evidence, jigsaw_x,
    jigsaw_y.

    Of several classes there is one column evidence_<class> each; attribution, if asked for, likewise. What the maps do
    not have (evidence, attribution, jigsaw) is left out.

    Example: `maps_table(maps, squares_of(bag))`
    """
    table = pd.DataFrame({"x": squares.corners[:, 0], "y": squares.corners[:, 1], "size": squares.edge})
    table["attention"] = maps.attention
    for kind, by_class in signed_maps(maps).items():
        for name, values in by_class.items():
            table[kind if len(by_class) == 1 else f"{kind}_{name}"] = values
    if maps.jigsaw is not None:
        in_pixels = maps.jigsaw * (squares.edge / squares_of(maps.bag).edge)
        table["jigsaw_x"], table["jigsaw_y"] = in_pixels.T
    return table


def write_maps_csv(maps: PatchMaps, squares: Squares, path: str | Path) -> None:
    """Write `maps_table` as CSV, whole or not at all.

    Example: `write_maps_csv(maps, squares_of(bag), "slide_1.csv")`
    """
    write_csv(maps_table(maps, squares), Path(path))


def write_h5ad(maps: PatchMaps, squares: Squares, path: str | Path, *, model: str = "") -> None:
    """X: the features, so that clustering and embedding work on them at once. obs: the maps. obsm["spatial"]: centres.
    uns: slide, model (in words), classes and probabilities, and where scanpy and squidpy look for them the size of a
    spot and an image: an empty one, for their plots want one below the spots.

    Example: `write_h5ad(maps, squares_of(bag), "slide_1.h5ad")`
    """
    try:
        from anndata import AnnData
    except ImportError as error:
        raise ConfigError(".h5ad files need AnnData. Install it: pip install 'jigsawmil[anndata]'") from error
    table = maps_table(maps, squares)
    obs = table.drop(columns=["x", "y", "size"]).assign(attention_percentile=percentiles(maps.attention))
    slide = maps.bag.slide_id
    obs.index = _names(f"{slide}-", len(maps))
    scale, canvas = _canvas(squares)
    size = {"spot_diameter_fullres": squares.edge, "tissue_hires_scalef": scale}
    data = AnnData(
        X=maps.bag.features.numpy(),
        obs=obs,
        var=pd.DataFrame(index=_names(f"{maps.bag.encoder or 'feature'}_", maps.bag.dim)),
        obsm={"spatial": squares.corners + squares.edge / 2},
        uns={
            "slide": slide,
            "patient_or_slide": maps.name,
            "model": model,
            "classes": np.array(maps.classes, dtype=object),
            "probabilities": maps.probabilities,
            "coordinates": OURS,
            "encoder": maps.bag.encoder or "",
            **({} if maps.bag.mpp is None else {"mpp": maps.bag.mpp}),
            "spatial": {slide: {"scalefactors": size, "images": {"hires": canvas}}},
        },
    )
    with writing(Path(path)) as temporary:
        data.write_h5ad(temporary, compression="gzip")


def _canvas(squares: Squares) -> tuple[float, np.ndarray]:
    """Pixels of it per level-0 pixel, and a white picture as large as the patches reach."""
    width, height = squares.corners.max(axis=0) + squares.edge
    scale = min(1.0, CANVAS / max(width, height))
    shape = (max(1, round(height * scale)), max(1, round(width * scale)), 3)
    return scale, np.full(shape, 255, dtype=np.uint8)


def _names(prefix: str, count: int) -> pd.Index:
    """Plain objects: AnnData cannot write the strings of pandas 3."""
    return pd.Index([f"{prefix}{i}" for i in range(count)], dtype=object)
