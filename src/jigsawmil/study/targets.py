"""Tables of tasks with several targets: one row per case and target, as each target's own task writes them."""

import pandas as pd

from ..statistics.metrics import Floats
from ..tasks import SingleTarget
from ..train.ensemble import SPREAD, Weights, combine


def of_target(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of a target; all of a table without several. name: "" without several."""
    return table[table["target"] == name] if name and "target" in table else table


def target_rows(
    cases: pd.DataFrame, target: SingleTarget, p: Floats, scores: Floats | None = None, weights: Weights | None = None
) -> pd.DataFrame:
    """What is predicted of one target: label, prediction (the class that is called) and probability, and of an ensemble
    how far its members disagree. Cases of which the target is not known are left out: nothing can be judged by them.

    cases: slide_id, patient_id, label of all targets. p: (case, output). scores: (member, case, score) of an ensemble.
    """
    own, spread = target.probabilities(p), None
    if scores is not None:
        combined = combine(target.scores(scores), target.task.name, len(target.classes), weights)
        own, spread = combined.probabilities, combined.spread
    rows = [{**target.task.call(q, target.classes), **target.task.row(q, target.classes)} for q in own]
    table = cases.assign(label=[target.label(str(label)) for label in cases["label"]])
    table = table.assign(**pd.DataFrame(rows, index=table.index))
    if spread is not None:
        table[SPREAD] = spread
    return table[table["label"] != ""].reset_index(drop=True)
