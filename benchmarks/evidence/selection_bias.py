"""What choosing the epoch on the test fold adds to an AUROC: `python -m benchmarks.evidence.selection_bias`.

Cross-validation without inner validation patients often stops, or keeps the weights, by the fold that it then reports.
Here one training per fold is judged by four rules, so all that differs is who chose the epoch:

- `inner patients`: the rule of this package. A fifth of the training patients is held back; the epoch with the best
  loss on them is kept, a gain counts from `margin` on, and training ends `patience` epochs after the last one.
- `test fold, loss`: the same rule, with the loss on the test fold in the place of that on the inner patients.
- `test fold, AUROC`: the epoch with the best AUROC on the test fold, the first of equals.
- `last epoch`: nobody chooses.

**Declared before anything was run.** Synthetic cohorts of three kinds, 30 or 60 slides, SEEDS below, 24 in all; each
once with its true labels and once with labels permuted over patients, where the truth is 0.5. Three folds; one slide
per patient. Method `graph-abmil` with default settings, but for k = 16 and 40 epochs (slides of 200 patches; time).
`noise` is that of `learning_curve.py`, so that true signals are neither lost nor perfect. A figure is the mean over
cohorts of the mean AUROC of the three folds, with Student's 95 % interval over cohorts; a difference is paired within
cohorts, against `inner patients`. All cohorts are reported.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.inner_splits import inner_split
from jigsawmil.cohort.splits import Fold, make_folds
from jigsawmil.nn.model import seeded_model
from jigsawmil.synthetic.phantom import make_phantom
from jigsawmil.tasks import get_task
from jigsawmil.train.feed import Feed
from jigsawmil.train.fit import evaluate, fit
from jigsawmil.train.progress import Epoch
from jigsawmil.train.seeds import fold_seed
from jigsawmil.train.settings import Settings

from .. import RESULTS, provenance, write
from .holdout import WORK, paired

COMMAND = "python -m benchmarks.evidence.selection_bias"
OUT = RESULTS / "selection_bias.json"
SEEDS = tuple(range(4001, 4005))
SIZES = (30, 60)  # slides
PHANTOMS: dict[str, dict[str, float]] = {"composition": {"noise": 3.0}, "arrangement": {}, "position": {}}
FOLDS = 3
LABELS = ("permuted", "true")
HONEST = "inner patients"
RULES = (HONEST, "test fold, loss", "test fold, AUROC", "last epoch")
SETTINGS = Settings(method="graph-abmil", k=16, epochs=40, device="cpu")
Trace = Mapping[str, Sequence[float]]  # of one training: `inner` and `loss` (of the test fold) and `auc`, by epoch


def stopped_at(losses: Sequence[float], patience: int, margin: float) -> int:
    """Index of the epoch that early stopping by these losses keeps."""
    best = 0
    for epoch, loss in enumerate(losses):
        if epoch - best > patience:  # as many epochs since the best one have been run
            break
        if epoch == 0 or loss < losses[best] - margin:
            best = epoch
    return best


def chosen(trace: Trace) -> dict[str, int]:
    """Index of the epoch that each rule keeps."""
    train = SETTINGS.train
    return {
        HONEST: stopped_at(trace["inner"], train.patience, train.margin),
        "test fold, loss": stopped_at(trace["loss"], train.patience, train.margin),
        "test fold, AUROC": int(np.argmax(trace["auc"])),
        "last epoch": len(trace["auc"]) - 1,
    }


def fold_trace(cohort: Cohort, feed: Feed, fold: Fold, seed: int, number: int) -> dict[str, list[float]]:
    """One training to its last epoch, watched by the inner patients and by the test fold; neither takes part in it."""
    rows = [np.flatnonzero(cohort.slide_ids == slide)[0] for slide in fold.train]
    patients, labels = list(cohort.patients[rows]), list(cohort.strata[rows])
    train, inner = inner_split(fold.train, patients, labels, fraction=SETTINGS.train.validation, seed=seed)
    own = fold_seed(seed, number)
    model = seeded_model(SETTINGS.model_config(cohort.dim, cohort.task, len(cohort.classes)), own)
    config = SETTINGS.replace(patience=0).train
    test, watched = feed.bags_of(fold.test), feed.bags_of(inner)
    trace: dict[str, list[float]] = {"inner": [], "loss": [], "auc": []}

    def watch(epoch: Epoch) -> None:
        loss, auc = evaluate(model, feed, test, config)
        for name, value in (("inner", epoch.val_loss), ("loss", loss), ("auc", auc)):
            trace[name].append(round(float(value), 5))

    fit(model, feed, feed.bags_of(train), watched, config, seed=own, on_epoch=watch)
    return trace


def run_cohort(kind: str, slides: int, seed: int, labels: str) -> dict[str, Any]:
    """The traces of all folds of one cohort."""
    started = time.process_time()
    knobs = {"patches": 200, "dim": 64, "two_slides": 0.0, **PHANTOMS[kind]}
    phantom = make_phantom(kind, slides=slides, seed=seed, **knobs)
    given = np.array(phantom.labels)
    if labels == "permuted":
        given = given[np.random.default_rng((seed, slides)).permutation(len(given))]
    cohort = Cohort.from_bags(phantom.bags, list(given), phantom.patients)
    assert cohort.task == get_task("binary").name
    feed = Feed(cohort, SETTINGS.graph, SETTINGS.model.raster)
    ids, patients = list(map(str, cohort.slide_ids)), list(map(str, cohort.patients))
    folds = make_folds(ids, patients, list(cohort.stratum_names), folds=FOLDS, seed=seed)
    traces = [fold_trace(cohort, feed, fold, seed, number) for number, fold in enumerate(folds)]
    asked = {"kind": kind, "slides": slides, "seed": seed, "labels": labels}
    return {**asked, "seconds": round(time.process_time() - started, 1), "folds": traces}


def judge(cohort: Mapping[str, Any]) -> dict[str, float]:
    """Mean AUROC of the folds under each rule."""
    kept = [(trace["auc"], chosen(trace)) for trace in cohort["folds"]]
    return {rule: float(np.mean([auc[epochs[rule]] for auc, epochs in kept])) for rule in RULES}


def table(cohorts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per group of cohorts and rule: mean AUROC and its gain over the honest one, with intervals over cohorts."""
    rows = []
    for labels in LABELS:
        for slides in (*SIZES, None):
            own = [judge(c) for c in cohorts if c["labels"] == labels and slides in (None, c["slides"])]
            honest = np.array([areas[HONEST] for areas in own])
            for rule in RULES:
                areas = np.array([found[rule] for found in own])
                row = {"labels": labels, "slides": slides, "rule": rule, "cohorts": len(own), "auc": paired(areas)}
                rows.append(row | ({} if rule == HONEST else {"bias": paired(areas - honest)}))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="The bias of choosing the epoch on the test fold.")
    parser.add_argument("--work", type=Path, default=WORK / "selection_bias", help="what is done stays here")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cohorts = []
    for seed in SEEDS:
        for kind in PHANTOMS:
            for slides in SIZES:
                for labels in LABELS:
                    path = options.work / f"{kind}-{slides}-{seed}-{labels}.json"
                    if not path.is_file():
                        write(path, json.dumps(run_cohort(kind, slides, seed, labels)))
                    cohorts.append(json.loads(path.read_text()))
                    print(f"{path.stem}: {cohorts[-1]['seconds']} s", flush=True)
    result = {
        "command": COMMAND,
        "seeds": SEEDS,
        "phantoms": PHANTOMS,
        "settings": {"method": SETTINGS.method, "k": SETTINGS.graph.k, "epochs": SETTINGS.train.epochs},
        "rows": table(cohorts),
        "cohorts": cohorts,
        "fits": FOLDS * len(cohorts),
        "fit_seconds": round(sum(cohort["seconds"] for cohort in cohorts)),
        **provenance(),
    }
    write(options.out, json.dumps(result))
    for row in result["rows"]:
        gain = row.get("bias")
        told = f", {gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]" if gain else ""
        print(f"{row['labels']}, {row['slides'] or 'all'} slides, {row['rule']}: {row['auc']['mean']:.3f}{told}")
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
