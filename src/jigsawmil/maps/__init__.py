"""What a model made of every patch: maps, their exports, and a test of whether they can be trusted.

Example:

    from jigsawmil.maps import explain, write_heatmap
    from jigsawmil.train import load_model

    model, card = load_model("model")
    [maps] = explain(model, card, bag)  # one per slide
    maps.attention  # (patch,), in the order of the file
    write_heatmap(maps, "map.png")
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .attribution import Attribution, attribute
    from .faithfulness import Curves, curves_of, judge
    from .geometry import level0_squares, squares_of
    from .heatmap import write_heatmap
    from .patch_maps import PatchMaps, explain, explain_each, explain_patient
    from .qupath import write_geojson
    from .tables import maps_table, write_h5ad, write_maps_csv
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "Attribution", "Curves", "PatchMaps", "attribute", "curves_of",
    "explain", "explain_each", "explain_patient", "judge", "level0_squares",
    "maps_table", "squares_of", "write_geojson", "write_h5ad", "write_heatmap", "write_maps_csv",
]  # fmt: skip
