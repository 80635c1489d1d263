"""What is damaged beside feature files: a model, the folder of a run, and the attention that it keeps."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.report.tables import comparison_table, summary_table
from jigsawmil.study.attention import read_attention, write_attention
from jigsawmil.study.run import open_run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.train.apply import apply_model
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_model

from .targets import Answer, Target, copy_files

SMALL: dict[str, Any] = {"epochs": 1, "patience": 0, "hidden": 4, "attention_dim": 2}


def projects(folder: Path) -> list[Target]:
    """folder: for samples, which are made when they are first asked for."""
    cohort = folder / "cohort"

    def sample(make: Callable[[Path], object], name: str, target: Path) -> None:
        if not cohort.exists():
            write_phantom(make_phantom("composition", seed=0, slides=16, dim=16, patches=10, two_slides=0.2), cohort)
        if not (folder / name).exists():
            (folder / name).mkdir()
            make(folder / name)
        copy_files(folder / name, target)

    def model(place: Path) -> None:
        train_model(read_cohort(), place / "model", Settings(method="abmil", **SMALL))

    def run(place: Path) -> None:
        spec = cohort_spec({"labels": cohort / "labels.csv", "features": cohort / "features"})
        variants = {name: Settings(method="abmil", lr=lr, **SMALL) for name, lr in (("a", 1e-3), ("b", 1e-2))}
        cross_validate(Study(cohorts={"c": spec}, variants=variants, folds=2), place / "run")

    def read_cohort() -> Cohort:
        return Cohort.read(cohort / "labels.csv", cohort / "features")

    def probabilities(root: Path) -> Answer:
        trained, card = load_model(root / "model")
        [found] = apply_model(trained, card, [read_cohort().bag(0)])
        return {"probabilities": found.probabilities, "classes": list(card.classes)}

    def attention(place: Path) -> None:
        rng = np.random.default_rng(0)
        arrays = {"a": rng.random(24, np.float32), "a/coords": 512.0 * rng.integers(0, 90, (24, 2)).astype(np.float32)}
        write_attention(place / "attention.safetensors", arrays)

    kinds: dict[str, tuple[Callable[[Path], object], Callable[[Path], Answer]]] = {
        "model": (model, probabilities),
        "run": (run, _read_run),
        "attention": (attention, _read_attention),
    }
    return [Target(f"our {name}", partial(sample, make, name), read) for name, (make, read) in kinds.items()]


def _read_attention(root: Path) -> Answer:
    slide, coords, weights = read_attention(root / "attention.safetensors", ["a"]) or ("", None, None)
    return {"slide": slide, "coords": coords, "weights": weights}


def _read_run(root: Path) -> Answer:
    """As the report does: the tables, and what is printed of them."""
    run = open_run(root / "run")
    shown = (summary_table(run.summary), comparison_table(run.comparisons))
    return {
        "variants": run.variants,
        "predictions": run.predictions.astype(str).to_dict("list"),
        "slides": run.slides.astype(str).to_dict("list"),
        "tables": repr(shown),
    }
