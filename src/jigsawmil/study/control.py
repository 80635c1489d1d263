"""Does patch position matter? A study beside the same study with patch coordinates permuted within each slide."""

from collections.abc import Sequence

import pandas as pd
from scipy.stats import norm

from ..errors import StudyError
from ..statistics.metrics import named
from ..statistics.paired import holm
from ..tasks import Task, measure_of
from .compare import compare_methods, p_columns


def shuffle_control(
    predictions: pd.DataFrame,
    shuffled: pd.DataFrame,
    classes: Sequence[str] | None = None,
    task: str | Task | None = None,
    *,
    training: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One row per variant: AUROC (or the other measure of the task) with the true and with shuffled places, the paired
    tests between them, Holm-adjusted.

    `low` and `high` bound the difference (95 %, of DeLong's test or over resampled patients). nan where DeLong's test
    is not defined: beyond two classes, and over repeated hold-out. training: see `compare_methods`.
    """
    methods, again = predictions["variant"].unique(), shuffled["variant"].unique()
    if set(methods) != set(again):
        raise StudyError(
            f"Methods {named(methods)} with true coordinates, {named(again)} with shuffled ones; expected the same. "
            "Run what is missing."
        )
    pairs = []
    for method in methods:
        both = {"true": predictions, "shuffled": shuffled}
        runs = [frame[frame["variant"] == method].assign(variant=place) for place, frame in both.items()]
        both_places = pd.concat(runs, ignore_index=True)
        pairs.append(compare_methods(both_places, classes, task, training=training).assign(variant=method))
    control = pd.concat(pairs, ignore_index=True)
    measure = measure_of(control)
    own, test = measure.name, measure.test
    control = control.rename(columns={f"{own}_a": f"{own}_true", f"{own}_b": f"{own}_shuffled"})
    if not measure.bounded:
        difference, z = control["difference"].astype(float), control[f"{test}_z"].astype(float)
        half = norm.ppf(0.975) * (difference / z.where(z != 0)).abs()  # z = 0 does not tell the standard error
        control["low"], control["high"] = (difference - half).clip(lower=-1), (difference + half).clip(upper=1)
    for p in p_columns(measure):
        control[f"{p}_holm"] = holm(control[p].astype(float))
    order = ["variant", "level", f"{own}_true", f"{own}_shuffled", "difference", "low", "high"]
    return control[[*order, f"{test}_p", f"{test}_p_holm", "resamples", "fold_difference", "t_p", "t_p_holm"]]
