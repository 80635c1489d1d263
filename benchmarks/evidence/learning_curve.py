"""AUC against the number of slides: `python -m benchmarks.evidence.learning_curve` writes JSON; the page draws it.

Two phantoms. `position`: only place tells the label, so ABMIL stays at chance whatever it is given, and the question is
how many slides a graph needs. `composition`: place tells nothing, every method can know the label, and the question is
what seeing places costs. Six cohorts of each (SEEDS, all reported). In each the first n of 160 slides fit, the same 200
others test; bands are standard errors over the cohorts. Difficulty and training are those of `jigsaw_cases.py`, with at
least 200 steps (more epochs for fewer slides), so that small n means few slides and not a short training. The jigsaw's
lambda is the package's default, `em`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jigsawmil.synthetic.phantom_options import phantom_spec

from .. import RESULTS, provenance, write
from .holdout import WORK, Cell, commits, run_cells
from .jigsaw_cases import TRAINING

COMMAND = "python -m benchmarks.evidence.learning_curve"
OUT = RESULTS / "learning_curve.json"
SEEDS = tuple(range(3001, 3007))
SIZES = (10, 20, 40, 80, 160)
TEST = 200  # slides
PHANTOMS: dict[str, dict[str, float]] = {"position": {}, "composition": {"noise": 3.0}}
METHODS = ("abmil", "graph-abmil", "graph-abmil+jigsaw")


def cell(kind: str, seed: int) -> Cell:
    shape = {"slides": max(SIZES) + TEST, "patches": 200, "dim": 64, "two_slides": 0.0}
    spec = phantom_spec(kind, seed=seed, **shape, **PHANTOMS[kind])
    variants = {
        f"{method}, {n}": {**TRAINING, "method": method, "train": n, "epochs": max(TRAINING["epochs"], 800 // n)}
        for n in SIZES
        for method in METHODS
    }
    return Cell(name=f"{kind}, {seed}", spec=spec, train=max(SIZES), test=TEST, variants=variants)


def curve(outcomes: Sequence[Mapping[str, Any]], method: str) -> list[dict[str, Any]]:
    """A point a number of slides: the mean over cohorts, its standard error, and every cohort's AUC."""
    points = []
    for n in SIZES:
        areas = np.array([outcome["variants"][f"{method}, {n}"]["auc"] for outcome in outcomes])
        error = float(areas.std(ddof=1) / np.sqrt(len(areas)))
        values = [round(float(a), 4) for a in areas]
        points.append({"slides": n, "mean": float(areas.mean()), "error": error, "values": values})
    return points


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="AUC against the number of slides, on two phantoms.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", type=Path, default=WORK / "learning_curve", help="what is done stays here")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    outcomes = run_cells([cell(kind, seed) for seed in SEEDS for kind in PHANTOMS], options.work, options.processes)
    curves = {
        kind: {method: curve([outcomes[cell(kind, seed).name] for seed in SEEDS], method) for method in METHODS}
        for kind in PHANTOMS
    }
    seconds = sum(variant["seconds"] for outcome in outcomes.values() for variant in outcome["variants"].values())
    result = {
        "command": COMMAND,
        "seeds": SEEDS,
        "test_slides": TEST,
        "phantoms": PHANTOMS,
        "curves": curves,
        "fit_seconds": round(seconds),
        **provenance(),
        "commits": commits(outcomes),
    }
    write(options.out, json.dumps(result, indent=1))
    for kind, by_method in curves.items():
        for method, points in by_method.items():
            told = ", ".join(f"{p['slides']}: {p['mean']:.3f} ± {p['error']:.3f}" for p in points)
            print(f"{kind}, {method}: {told}")
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
