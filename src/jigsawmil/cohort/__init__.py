"""Cohorts: label tables joined to features, what is wrong with them, and their splits.

Example:

    from jigsawmil.cohort import Cohort, make_folds

    cohort = Cohort.read("labels.csv", "features/")
    folds = make_folds(cohort.slide_ids, cohort.patients, cohort.labels, folds=5)
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .audit import Audit
    from .cohort import Cohort, check
    from .inner_splits import inner_split
    from .labels import LabelTable, read_labels
    from .recipes import RECIPES, Labelled, make_labels
    from .split_files import read_folds, read_splits, write_clam, write_folds, write_patho_bench, write_stamp
    from .splits import Fold, check_folds, make_folds
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "RECIPES", "Audit", "Cohort", "Fold", "LabelTable", "Labelled", "check", "check_folds", "inner_split",
    "make_folds", "make_labels", "read_folds", "read_labels", "read_splits", "write_clam", "write_folds",
    "write_patho_bench", "write_stamp",
]  # fmt: skip
