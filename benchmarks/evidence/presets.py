"""Do the presets differ? Synthetic cohorts fitted by `default`, by `paper`, and by one reading of the paper at a time:
`python -m benchmarks.evidence.presets`.

**Declared before any of it was run.** Arms are single models of `graph-abmil+jigsaw`: `default`, `paper`, and `default`
with each single setting in which the presets differ. (`imposter_loss` differs too; the position task does not read
it.) Six cohorts per kind of phantom, SEEDS below, all reported, none used before in this repository. Each cohort is
an independent draw: 40 slides to fit on, 100 others to test. The interval of an arm is Student's over its paired
differences of AUROC to `default`, over all 18 cohorts; p-values are Holm-adjusted over the six arms. An arm `helps` or
`hurts` by the rule of `jigsaw_cases.py`: its interval excludes 0, and the mean difference is beyond 0.01 in size.

**Difficulty** is that of `jigsaw_cases.py`, chosen there without a look at these arms. Slides are small (about 150
patches, 128 features), so 50 neighbours are a third of a slide. They are not square: tissue lies in one to three
pieces side by side, and the file of results states how much longer than wide a slide is.

**What a difference contains.** One training is one draw of a seed and of the slides held back, so a difference of two
trainings holds the luck of both. Arms without stopping also fit on all 40 slides; the others hold 8 of them back.

**Changed before any AUROC had been looked at.** For lack of time the design was shortened from 60 slides of 200 patches
and eight cohorts per kind (seeds from 4101, 4201 and 4301; one cohort had run). A further cut to four cohorts per kind
was declared and withdrawn, because there was time for all six.

**Seen beforehand.** One cohort of another size (`position`, seed 900, 50 slides) was fitted to measure the time; its
AUROC was 0.746 with `default` and 0.987 with `paper`. Arms, seeds and rules do not follow from it.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from jigsawmil.statistics.paired import holm
from jigsawmil.synthetic.phantom import phantom_slides
from jigsawmil.synthetic.phantom_options import PhantomSpec, phantom_spec

from .. import RESULTS, provenance, write
from .holdout import WORK, Cell, commits, paired, run_cells
from .jigsaw_cases import judge

COMMAND = "python -m benchmarks.evidence.presets"
OUT = RESULTS / "presets.json"
SEEDS = {"composition": range(4111, 4117), "arrangement": range(4211, 4217), "position": range(4311, 4317)}
KNOBS: dict[str, dict[str, float]] = {"composition": {"noise": 3.0}, "arrangement": {"clump": 5.0}, "position": {}}
TRAIN, TEST = 40, 100  # slides
SHAPE = {"slides": TRAIN + TEST, "patches": 150, "dim": 128, "two_slides": 0.0}
DEFAULT = "default"
ARMS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "paper": {"preset": "paper"},
    "ties exact": {"ties": "exact"},
    "normalise per-axis": {"normalise": "per-axis"},
    "attention_bias false": {"attention_bias": False},
    "clip 0": {"clip": 0.0},
    "20 epochs, patience 0": {"epochs": 20, "patience": 0},
}
SINGLE = {"method": "graph-abmil+jigsaw", "members": 1}


def cell(kind: str, seed: int) -> Cell:
    spec = phantom_spec(kind, seed=seed, **SHAPE, **KNOBS[kind])
    variants = {name: {**SINGLE, **own} for name, own in ARMS.items()}
    return Cell(name=f"{kind}, {seed}", spec=spec, train=TRAIN, test=TEST, variants=variants)


def elongation(spec: PhantomSpec) -> float:
    """Longer side of a slide's patches over the shorter one: the median of the slides to fit on."""
    spans = [np.ptp(slide.bag.coords.numpy(), axis=0) for slide in islice(phantom_slides(spec), TRAIN)]
    return float(np.median([span.max() / span.min() for span in spans]))


def rows_of(outcomes: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """One row per arm. outcomes: kind -> cohort -> what the cell found."""
    found = {kind: [cohort["variants"] for cohort in cohorts.values()] for kind, cohorts in outcomes.items()}
    rows = []
    for arm in ARMS:
        areas = {kind: np.array([one[arm]["auc"] for one in each]) for kind, each in found.items()}
        base = {kind: np.array([one[DEFAULT]["auc"] for one in each]) for kind, each in found.items()}
        every = [one[arm] for each in found.values() for one in each]
        row: dict[str, Any] = {
            "arm": arm,
            "settings": ARMS[arm],
            "auc": {kind: [round(float(a), 4) for a in values] for kind, values in areas.items()},
            "epochs": float(np.mean([len(one["mil"]) for one in every])),
            "mil": float(np.mean([one["mil"][-1] for one in every])),
        }
        if arm != DEFAULT:
            row["gains"] = {kind: paired(areas[kind] - base[kind]) for kind in areas}
            gain = paired(np.concatenate([areas[kind] - base[kind] for kind in areas]))
            row["gain"] = {**gain, "verdict": judge(gain)}
        rows.append(row)
    adjusted = holm([row["gain"]["p"] for row in rows[1:]])
    for row, p in zip(rows[1:], adjusted, strict=True):
        row["gain"]["p_holm"] = float(p)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Do the presets differ? Paired over phantom cohorts.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", type=Path, default=WORK / "presets", help="finished cells stay here; rerun to resume")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    cells = {kind: [cell(kind, seed) for seed in seeds] for kind, seeds in SEEDS.items()}
    in_turn = [each for cohorts in zip(*cells.values(), strict=True) for each in cohorts]
    outcomes = run_cells(in_turn, options.work, options.processes)
    rows = rows_of({kind: {each.name: outcomes[each.name] for each in own} for kind, own in cells.items()})
    fits = [variant for outcome in outcomes.values() for variant in outcome["variants"].values()]
    result = {
        "command": COMMAND,
        "seeds": {kind: list(seeds) for kind, seeds in SEEDS.items()},
        "train_slides": TRAIN,
        "test_slides": TEST,
        "shape": SHAPE,
        "knobs": KNOBS,
        "elongation": float(np.median([elongation(each.spec) for each in in_turn])),
        "rows": rows,
        "fits": len(fits),
        "fit_seconds": round(sum(fit["seconds"] for fit in fits)),
        **provenance(),
        "commits": commits(outcomes),
    }
    write(options.out, json.dumps(result, indent=1))
    for row in rows:
        gain = row.get("gain")
        against = f"; {gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}] {gain['verdict']}" if gain else ""
        means = ", ".join(f"{kind} {np.mean(values):.3f}" for kind, values in row["auc"].items())
        print(f"{row['arm']}: {means}{against}")
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
