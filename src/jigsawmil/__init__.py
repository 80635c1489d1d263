"""jigsawmil: slide-level classifiers that know where every patch lies."""

from .cohort.bag import Bag

__all__ = ["Bag"]
__version__ = "0.1.0"
