"""Slides and covariates that say nothing about the outcome: the figures of every task lie at chance.

Two synthetic cohorts per task, with an effect of 0. Of each figure the mean over the cohorts is compared with chance.
The bounds are four standard errors away, for the figures are many and the cohorts small.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jigsawmil.study.run import Run
from jigsawmil.study.study import CohortSpec, Study, cohort_spec
from jigsawmil.synthetic.phantom import make_phantom, write_phantom

from ..fixtures.outcomes import COLUMNS

SEEDS, SLIDES, ERRORS = (0, 1), 40, 4

# Task -> figure -> its value at chance, and the name of its bounds
FIGURES = {
    "survival": {
        "c_index": (0.5, "c_index"), "uno_c": (0.5, "uno_c"), "dynamic_auc": (0.5, "dynamic_auc"),
        "brier_gain": (0.0, "brier_gain"),
    },
    "regression": {"pearson": (0.0, "pearson"), "spearman": (0.0, "spearman"), "r2": (0.0, "r2")},
    "multilabel": {"auc_oof": (0.5, "boot")},
}  # fmt: skip
ABOVE_ONLY = ["brier_gain", "r2"]  # a model that learned noise is below 0


def write_cohort(folder: Path, task: str, seed: int, leak: bool = False) -> CohortSpec:
    """`age` and `stage` are noise; leak: `age` is the time of survival."""
    made = make_phantom("composition", slides=SLIDES, dim=16, patches=10, two_slides=0, task=task, effect=0, seed=seed)
    labels = write_phantom(made, folder) / "labels.csv"
    table, rng = pd.read_csv(labels, dtype={"slide_id": str, "patient_id": str}), np.random.default_rng(seed)
    table["age"], table["stage"] = rng.normal(60, 10, SLIDES).round(1), rng.choice(["I", "II", "III"], SLIDES)
    if leak:
        table["age"] = table["time"]
    table.to_csv(labels, index=False)
    given = {"labels": labels, "features": folder / "features", "task": task, "covariates": "age,stage"}
    return cohort_spec({**given, **COLUMNS[task]})


def distances(run: Run, task: str) -> pd.DataFrame:
    """(variant and target, figure): mean over the cohorts of figure minus chance, in its standard errors."""
    found = run.summary.assign(target=run.summary.get("target", ""))
    rows = {}
    for key, own in found.groupby(["variant", "target"]):
        assert len(own) == run.summary["cohort"].nunique()
        rows[key] = {}
        for name, (chance, bounds) in FIGURES[task].items():
            errors = (own[f"{bounds}_high"] - own[f"{bounds}_low"]).astype(float) / (2 * 1.96)
            mean_error = np.sqrt((errors**2).sum()) / len(own)
            rows[key][name] = float((own[name].astype(float) - chance).mean() / mean_error)
    return pd.DataFrame(rows).T


@pytest.mark.parametrize("task", FIGURES)
def test_without_signal_every_figure_lies_at_chance(task: str, ran: Any, small: Any, tmp_path: Path) -> None:
    cohorts = {f"seed{seed}": write_cohort(tmp_path / f"seed{seed}", task, seed) for seed in SEEDS}
    variants = {
        "mean-lr": small("mean-lr"),
        "graph-abmil": small("graph-abmil", covariates=True, lr=0.01),
        "committee": small("committee", members=1, epochs=1),
    }
    run, _ = ran(Study(cohorts=cohorts, variants=variants, folds=2), tmp_path / "run")
    assert not run.failed
    found = distances(run, task)
    assert np.isfinite(found.to_numpy()).all()
    assert (found <= ERRORS).all(axis=None), found
    assert (found.drop(columns=ABOVE_ONLY, errors="ignore") >= -ERRORS).all(axis=None), found


def test_a_covariate_that_is_the_outcome_would_be_noticed(ran: Any, small: Any, tmp_path: Path) -> None:
    spec = write_cohort(tmp_path / "cohort", "survival", SEEDS[0], leak=True)
    run, _ = ran(Study(cohorts={"c": spec}, variants={"leak": small("covariates")}, folds=2), tmp_path / "run")
    assert (distances(run, "survival") > ERRORS).all(axis=None)
