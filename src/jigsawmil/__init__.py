"""jigsawmil: slide-level classifiers that know where every patch lies."""

from importlib.metadata import version

from .bags.bag import Bag
from .bags.formats import find_bags, peek_bag, read_bag, write_bag
from .cohort.cohort import Cohort, check
from .errors import JigsawmilError
from .graph import GraphConfig, SpatialGraph, knn_graph, radius_graph
from .nn.batch import Batch
from .nn.model import METHODS, Model, Output, build_model
from .study.study import Study, read_study, run_study
from .synthetic.phantom import make_phantom, write_phantom
from .train.checkpoint import load_model, save_model
from .train.estimator import SlideClassifier
from .train.settings import Settings

__all__ = [
    "METHODS", "Bag", "Batch", "Cohort", "GraphConfig", "JigsawmilError", "Model", "Output", "Settings",
    "SlideClassifier", "SpatialGraph", "Study", "build_model", "check", "find_bags", "knn_graph", "load_model",
    "make_phantom", "peek_bag", "radius_graph", "read_bag", "read_study", "run_study", "save_model", "write_bag",
    "write_phantom",
]  # fmt: skip
__version__ = version("jigsawmil")
