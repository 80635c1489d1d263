"""jigsawmil: slide-level classifiers that know where every patch lies."""

from importlib.metadata import version

from .cohort.bag import Bag
from .cohort.cohort import Cohort, check
from .cohort.formats import find_bags, peek_bag, read_bag, write_bag
from .cohort.phantom import make_phantom, write_phantom
from .config import GraphConfig
from .errors import JigsawmilError
from .graph import SpatialGraph, knn_graph, radius_graph
from .nn.batch import Batch
from .nn.model import METHODS, Model, Output, build_model
from .study.estimator import SlideClassifier
from .study.study import Study, read_study, run_study
from .train.checkpoint import load_model, save_model
from .train.settings import Settings

__all__ = [
    "METHODS", "Bag", "Batch", "Cohort", "GraphConfig", "JigsawmilError", "Model", "Output", "Settings",
    "SlideClassifier", "SpatialGraph", "Study", "build_model", "check", "find_bags", "knn_graph", "load_model",
    "make_phantom", "peek_bag", "radius_graph", "read_bag", "read_study", "run_study", "save_model", "write_bag",
    "write_phantom",
]  # fmt: skip
__version__ = version("jigsawmil")
