"""jigsawmil: slide-level classifiers that use the position of every patch."""

from typing import TYPE_CHECKING

from .lazy import attach

if TYPE_CHECKING:
    from .bags.bag import Bag
    from .bags.formats import find_bags, peek_bag, read_bag, write_bag
    from .cohort.cohort import Cohort, check
    from .errors import JigsawmilError
    from .graph import GraphConfig, SpatialGraph, knn_graph, radius_graph
    from .maps.predict import predict_slides
    from .nn.batch import Batch
    from .nn.model import METHODS, Model, Output, build_model
    from .nn.options import register_method
    from .report.finish import run_study, validate
    from .study.study import Study
    from .study.study_file import read_study
    from .synthetic.phantom import make_phantom, write_phantom
    from .train.checkpoint import load_model, save_model
    from .train.estimator import SlideClassifier, SlideRegressor, SlideSurvival
    from .train.multilabel import SlideMultilabel
    from .train.settings import Settings
    from .train.train_model import train_model
    from .version import __version__
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "METHODS", "Bag", "Batch", "Cohort", "GraphConfig", "JigsawmilError", "Model", "Output", "Settings",
    "SlideClassifier", "SlideMultilabel", "SlideRegressor", "SlideSurvival", "SpatialGraph", "Study", "__version__",
    "build_model", "check", "find_bags", "knn_graph", "load_model", "make_phantom", "peek_bag", "predict_slides",
    "radius_graph", "read_bag", "read_study", "register_method", "run_study", "save_model", "train_model", "validate",
    "write_bag", "write_phantom",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
