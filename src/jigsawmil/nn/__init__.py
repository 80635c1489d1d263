"""The model: encoder, pooling, head and jigsaw, composed as the methods of the paper; and the graphs it runs on.

Example:

    from jigsawmil.nn import Batch, build_model

    model = build_model("graph-abmil+jigsaw", in_dim=bags[0].dim)
    output = model(Batch.of(bags))
    output.logits, output.attention  # (slide, logit) and (patch,)
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from ..graph import SpatialGraph, build_graph, knn_graph, radius_graph
    from ..graph_config import GraphConfig
    from .batch import Batch
    from .convs import CONVS
    from .jigsaws import JIGSAWS
    from .model import Model, ModelConfig, Output, build_model
    from .options import METHODS, Method, ModelOptions, register_method
    from .parts import Conv, Jigsaw, Pooling
    from .poolings import POOLINGS
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "CONVS", "JIGSAWS", "METHODS", "POOLINGS", "Batch", "Conv", "GraphConfig", "Jigsaw", "Method", "Model",
    "ModelConfig", "ModelOptions", "Output", "Pooling", "SpatialGraph", "build_graph", "build_model", "knn_graph",
    "radius_graph", "register_method",
]  # fmt: skip
