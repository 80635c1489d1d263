"""Recipes: from the tables that people download to the label table of a cohort, rule by rule.

    made = make_labels("tcga-coad", "clinical.xlsx", features="features/")
    made.labels       # slide_id, patient_id, label, site
    made.steps        # what each rule kept and dropped, by value
    made.dropped      # slide_id, patient_id, rule, reason: all that is not in the labels

What each recipe takes, and what it gives on the real tables: docs/recipes.md.
"""

from .definitions import RECIPES, Recipe
from .make import Labelled, label_table, make_labels
from .rules import Count, Step, reasons_text

__all__ = ["RECIPES", "Count", "Labelled", "Recipe", "Step", "label_table", "make_labels", "reasons_text"]
