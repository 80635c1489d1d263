"""What choosing settings inside the training patients gains and costs: `python -m benchmarks.evidence.choosing`.

`--choose k=8,50 --choose conv=gat,sage` beside what a user could do instead with the same four candidates:

- `default`: the first candidate (k = 50, GAT), the settings of `graph-abmil`;
- `chosen`: each fold chooses by the rule of docs/choose.md, which leans towards the default;
- `lowest inner loss`: the same inner folds without that lean: the candidate with the lowest inner loss, default or not;
- `mean of candidates`: nobody chooses, and the four models of a fold answer by their mean logit;
- `best on test folds`: the candidate with the highest mean AUROC on the test folds of its cohort, as one reports it who
  tries all settings in the cross-validation itself. It is not a method but a bias.

**Declared before any of it was run.** Synthetic cohorts of three kinds, SEEDS below, 9 in all, each of 30 slides of
about 60 patches with 32 features, one slide per patient; three folds; default settings but for a width of 64, for time.
`noise` of composition is that of `learning_curve.py`. Sizes were set by the processor time of two cohorts of seed 5,
whose AUROC nobody looked at; what they chose was seen: the default, in all six folds. A figure is the mean over cohorts
of the mean AUROC of the three folds; differences to `default` are paired within cohorts, with Student's 95 % interval.
All cohorts are reported.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from jigsawmil.cli.progress import StudyProgress
from jigsawmil.statistics.metrics import auc
from jigsawmil.study.run import Run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import CHOSEN, Study, cohort_spec, with_choices
from jigsawmil.synthetic.phantom import phantom_slides, write_phantom
from jigsawmil.synthetic.phantom_options import phantom_spec
from jigsawmil.train.choice import Choice
from jigsawmil.train.settings import Settings

from .. import RESULTS, provenance, write
from .holdout import WORK, paired

COMMAND = "python -m benchmarks.evidence.choosing"
OUT = RESULTS / "choosing.json"
SHAPE: dict[str, Any] = {"slides": 30, "patches": 60, "dim": 32, "two_slides": 0.0}
KINDS: dict[str, dict[str, Any]] = {"composition": {"noise": 3.0}, "arrangement": {}, "position": {}}
SEEDS = {kind: range(9101 + 100 * row, 9104 + 100 * row) for row, kind in enumerate(KINDS)}
CHOICE = Choice(options={"k": [8, 50], "conv": ["gat", "sage"]})
SETTINGS = Settings(method="graph-abmil", hidden=64, members=1, device="cpu")
DEFAULT, RULE, LOWEST = "default", "chosen", "lowest inner loss"
MEAN, BEST = "mean of candidates", "best on test folds"
ARMS = (DEFAULT, RULE, LOWEST, MEAN, BEST)
FOLDS = 3


def run_cohort(kind: str, seed: int, work: Path) -> Run:
    """Every candidate as a variant of its own, and beside the default the variant that chooses among them."""
    folder = work / f"{kind}-{seed}"
    if not (folder / "cohort").exists():
        write_phantom(phantom_slides(phantom_spec(kind=kind, seed=seed, **(SHAPE | KINDS[kind]))), folder / "cohort")
    candidates = CHOICE.candidates(SETTINGS)
    source = cohort_spec({"labels": folder / "cohort" / "labels.csv", "features": folder / "cohort" / "features"})
    study = Study(cohorts={kind: source}, folds=FOLDS, **with_choices(candidates, {next(iter(candidates)): CHOICE}))
    with StudyProgress(Console()) as progress:
        run = cross_validate(study, folder / "run", listen=progress, on_plan=progress.plan)
    if run.failed:
        raise SystemExit(f"{len(run.failed)} jobs failed; nothing is written. Run the same command again.")
    return run


def judge(run: Run) -> dict[str, Any]:
    """AUROC per fold of every arm, how often each candidate was chosen, and the processor time of it."""
    default, *others = candidates = list(CHOICE.candidates(SETTINGS))
    [cohort] = run.cohorts
    table, positive = run.predictions, run.classes[cohort][-1]
    logit = np.log(table["probability"]) - np.log1p(-table["probability"])
    areas: dict[str, list[float]] = {arm: [] for arm in (*candidates, *ARMS[1:])}
    chose, lowest = dict.fromkeys(candidates, 0), dict.fromkeys(candidates, 0)
    for fold in range(FOLDS):
        own = (
            table[table["fold"] == fold].assign(logit=logit).pivot(index="slide_id", columns="variant", values="logit")
        )
        truth = table.drop_duplicates("slide_id").set_index("slide_id")["label"].reindex(own.index) == positive
        judged = run.choices[run.choices["fold"] == fold].set_index("candidate")
        lead = str(judged["loss"].idxmin())
        chose[str(judged["chosen"].idxmax())] += 1
        lowest[lead] += 1
        for name in candidates:
            areas[name].append(auc(truth, own[name]))
        areas[RULE].append(auc(truth, own[f"{default}, {CHOSEN}"]))
        areas[LOWEST].append(auc(truth, own[lead]))
        areas[MEAN].append(auc(truth, own[candidates].mean(axis=1)))
    areas[BEST] = max((areas[name] for name in (default, *others)), key=np.mean)  # the first of equals
    seconds = {
        "choosing": sum(processor_seconds(path) for path in (run.folder / "choose").rglob("job.json")),
        "default": sum(job.seconds["processor"] for job in run.jobs if job.variant == default),
    }
    rounded = {name: [round(float(value), 5) for value in values] for name, values in areas.items()}
    return {"auroc": {DEFAULT: rounded[default], **rounded}, "chose": chose, "lowest": lowest, "seconds": seconds}


def processor_seconds(path: Path) -> float:
    return float(json.loads(path.read_text())["seconds"]["processor"])


def table(cohorts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per arm and group of cohorts: mean AUROC, and its difference to the default."""
    names = [*ARMS, *list(CHOICE.candidates(SETTINGS))[1:]]
    rows = []
    for kind in (None, *KINDS):
        own = [cohort["auroc"] for cohort in cohorts if kind in (None, cohort["kind"])]
        first = np.array([np.mean(areas[DEFAULT]) for areas in own])
        for name in names:
            means = np.array([np.mean(areas[name]) for areas in own])
            gain = {} if name == DEFAULT else {"gain": paired(means - first)}
            rows.append({"kind": kind, "arm": name, "auc": float(means.mean()), **gain})
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="What choosing inside the training patients gains.")
    parser.add_argument("--work", type=Path, default=WORK / "choosing", help="what is done stays here")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cohorts = []
    for number in range(len(SEEDS["position"])):
        for kind, seeds in SEEDS.items():
            found = judge(run_cohort(kind, seeds[number], options.work))
            cohorts.append({"kind": kind, "seed": seeds[number], **found})
    values = {
        "command": COMMAND,
        "shape": SHAPE,
        "kinds": KINDS,
        "candidates": list(CHOICE.candidates(SETTINGS)),
        "inner": {"folds": CHOICE.folds, "repeats": CHOICE.repeats},
        "folds": FOLDS,
        "method": SETTINGS.method,
        "rows": table(cohorts),
        "cohorts": cohorts,
        **provenance(),
    }
    write(options.out, json.dumps(values))
    for row in values["rows"]:
        gain = row.get("gain")
        told = f", {gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]" if gain else ""
        print(f"{row['kind'] or 'all'}, {row['arm']}: {row['auc']:.3f}{told}")
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
