"""Where does the jigsaw help? Synthetic cohorts with and without it: `python -m benchmarks.evidence.jigsaw_cases`.

**Design.** One factor at a time around a centre (`position`, 40 slides): the size of the slide effect, the number of
slides, and the strength of the position signal, which is how plainly a patch shows its layer (`noise`) and how many
patches carry the label (`nest`). Beside it `arrangement`, where neighbours tell the label and the place on the glass
tells nothing, and `composition`, where place tells nothing at all: there the jigsaw can only be in the way. A full
factorial of so many levels would take ten times as long; interactions are therefore not asked.

**Declared before any gain of the jigsaw was seen.** Eight cohorts a case, SEEDS below, all reported; seeds 0, 11 and 12
of earlier figures are not among them. A cohort is an independent draw, so the interval of a case is Student's over its
eight paired differences of AUC (with - without jigsaw), on 100 test slides a cohort that nothing has seen. A rule
`helps` or `hurts` in a case where the 95 % interval excludes 0 and the mean gain is beyond 0.01 in size; else it is
`neutral`, which means not shown, and not the same as none. Of so many intervals one in twenty excludes 0 by chance;
what survives Holm's correction over the whole table is marked.

**How difficulty and training were chosen.** By `graph-abmil` *without* jigsaw alone, on seeds 901 to 903: levels where
it lies between about 0.55 and 0.97, and a training that does not hang on its length (its AUC hardly moved between 15
and 40 epochs, or between learning rates of 5e-4 and 2e-3). Slides and networks are small (200 patches, 64 features, 64
wide, k = 16, batches of 4), so that the table takes less than an hour on one core. There is no early stopping: of 40
slides 8 would be left to decide it, and that lottery is larger than anything asked here.

**Asked afterwards.** 80 slides also mean twice the steps. AFTERWARDS, added when the table had been seen, gives 40
slides as many; it is reported apart and counts in no sum.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jigsawmil.statistics.paired import holm
from jigsawmil.synthetic.phantom_options import phantom_spec

from .. import RESULTS, provenance, write
from .holdout import TRACED, WORK, Cell, commits, paired, run_cells

COMMAND = "python -m benchmarks.evidence.jigsaw_cases"
OUT = RESULTS / "jigsaw_cases.json"
SEEDS = tuple(range(2001, 2009))
TEST = 100  # slides
LEAST = 0.01  # a gain below this is no help, however sure
TRAINING = {"k": 16, "hidden": 64, "attention_dim": 32, "lr": 1e-3, "epochs": 20, "batch_size": 4, "patience": 0}
RULES: dict[str, str | float] = {"0.1": 0.1, "0.5": 0.5, "2.0": 2.0, "em": "em", "balanced": "balanced"}
FIXED = ("0.1", "0.5", "2.0")
WITHOUT = "graph-abmil"
BLIND = ("abmil", "abmil+jigsaw")  # the latter with `balanced`


@dataclass(frozen=True)
class Case:
    """What differs from the centre: 40 slides, slide effect 0.3, noise 1, the largest nests that fit, 20 epochs."""

    name: str
    kind: str
    slides: int = 40
    knobs: Mapping[str, float] = field(default_factory=dict)
    epochs: int = 20


CASES = (
    Case("position, centre", "position"),
    Case("no slide effect", "position", knobs={"slide_effect": 0.0}),
    Case("slide effect 0.6", "position", knobs={"slide_effect": 0.6}),
    Case("slide effect 1.0", "position", knobs={"slide_effect": 1.0}),
    Case("20 slides", "position", slides=20),
    Case("80 slides", "position", slides=80),
    Case("noise 0.5", "position", knobs={"noise": 0.5}),
    Case("noise 1.5", "position", knobs={"noise": 1.5}),
    Case("nests of 5", "position", knobs={"nest": 5}),
    Case("arrangement, clumps of 5", "arrangement", knobs={"clump": 5.0}),
    Case("the same, slide effect 1.0", "arrangement", knobs={"clump": 5.0, "slide_effect": 1.0}),
    Case("composition, 20 slides, noise 3", "composition", slides=20, knobs={"noise": 3.0}),
    Case("the same, slide effect 1.5", "composition", slides=20, knobs={"noise": 3.0, "slide_effect": 1.5}),
)


AFTERWARDS = (Case("40 slides, 40 epochs", "position", epochs=40),)


def variants(case: Case) -> dict[str, dict[str, Any]]:
    """Without jigsaw, then a variant a rule; ABMIL where the label does not need a graph."""
    training = {**TRAINING, "epochs": case.epochs}
    found: dict[str, dict[str, Any]] = {WITHOUT: {"method": WITHOUT, **training}}
    found |= {name: {"method": f"{WITHOUT}+jigsaw", "lambda": value, **training} for name, value in RULES.items()}
    if case.kind == "composition":
        found |= {name: {"method": name, "lambda": "balanced", **training} for name in BLIND}
    return found


def cell(case: Case, seed: int) -> Cell:
    shape = {"slides": case.slides + TEST, "patches": 200, "dim": 64, "two_slides": 0.0}
    spec = phantom_spec(case.kind, seed=seed, **shape, **case.knobs)
    return Cell(name=f"{case.name}, {seed}", spec=spec, train=case.slides, test=TEST, variants=variants(case))


def judge(gain: Mapping[str, float]) -> str:
    """The rule fixed in advance: see the top."""
    if gain["low"] > 0 and gain["mean"] > LEAST:
        return "helps"
    if gain["high"] < 0 and gain["mean"] < -LEAST:
        return "hurts"
    return "neutral"


def judge_case(case: Case, outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Outcomes of the case's cohorts, in the order of SEEDS -> its row: AUC without, gain of every rule, traces."""
    areas = {name: np.array([outcome["variants"][name]["auc"] for outcome in outcomes]) for name in variants(case)}
    gains = {name: paired(areas[name] - areas[WITHOUT]) for name in RULES}
    row: dict[str, Any] = {"case": case.name, "kind": case.kind, "slides": case.slides, "knobs": dict(case.knobs)}
    row["auc"] = {name: [round(float(a), 4) for a in values] for name, values in areas.items()}
    row["gains"] = {name: {**gain, "verdict": judge(gain)} for name, gain in gains.items()}
    if BLIND[0] in areas:
        gain = paired(areas[BLIND[1]] - areas[BLIND[0]])
        row["abmil"] = {**gain, "verdict": judge(gain)}
    row["traces"] = {
        name: {c: np.mean([o["variants"][name][c] for o in outcomes], axis=0).round(4).tolist() for c in TRACED}
        for name in RULES
    }
    return row


def mark_survivors(rows: Sequence[dict[str, Any]]) -> None:
    """Holm's adjusted p of every gain of the graph method, over all cases and rules together."""
    gains = [gain for row in rows for gain in row["gains"].values()]
    for gain, p in zip(gains, holm([gain["p"] for gain in gains]), strict=True):
        gain["p_holm"] = float(p)


def best_elsewhere(areas: Mapping[str, Sequence[float]]) -> np.ndarray:
    """(cohort,): AUC of the fixed lambda that was best, on average, on the other cohorts of the case."""
    table = np.array([areas[name] for name in FIXED])  # (value, cohort)
    others = (table.sum(axis=1, keepdims=True) - table) / (table.shape[1] - 1)
    return np.take_along_axis(table, others.argmax(axis=0)[None], axis=0)[0]


def contrasts(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Over all cases: the unit is a seed, its differences averaged over the cases first, since cases share seeds."""

    def over(kinds: Sequence[str], difference: Any) -> dict[str, Any]:
        chosen = [row for row in rows if row["kind"] in kinds]
        each = [np.asarray(difference({k: np.array(v) for k, v in row["auc"].items()})) for row in chosen]
        return {**paired(np.mean(each, axis=0)), "cases": len(chosen)}

    everywhere, position = ("position", "arrangement", "composition"), ("position",)
    found = {f"{name} - without": over(everywhere, lambda a, name=name: a[name] - a[WITHOUT]) for name in RULES}
    found |= {
        f"{name} - without, position": over(position, lambda a, name=name: a[name] - a[WITHOUT]) for name in RULES
    }
    found["balanced - best fixed, chosen on other cohorts"] = over(
        everywhere, lambda a: a["balanced"] - best_elsewhere(a)
    )
    for one, other in (("em", "0.5"), ("balanced", "em"), ("2.0", "0.1")):
        found[f"{one} - {other}"] = over(everywhere, lambda a, one=one, other=other: a[one] - a[other])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Where does the jigsaw help? A table over phantoms.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", type=Path, default=WORK / "jigsaw_cases", help="what is done stays here")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    every = (*CASES, *AFTERWARDS)
    asked = [cell(case, seed) for seed in SEEDS for case in every]  # cut short, all cases have as many cohorts
    outcomes = run_cells(asked, options.work, options.processes)
    rows = [judge_case(case, [outcomes[cell(case, seed).name] for seed in SEEDS]) for case in every]
    rows, afterwards = rows[: len(CASES)], rows[len(CASES) :]
    mark_survivors(rows)
    seconds = sum(variant["seconds"] for outcome in outcomes.values() for variant in outcome["variants"].values())
    result = {
        "command": COMMAND,
        "seeds": SEEDS,
        "test_slides": TEST,
        "training": TRAINING,
        "cases": rows,
        "afterwards": afterwards,
        "contrasts": contrasts(rows),
        "fits": sum(len(outcome["variants"]) for outcome in outcomes.values()),
        "fit_seconds": round(seconds),
        **provenance(),
        "commits": commits(outcomes),
    }
    write(options.out, json.dumps(result, indent=1))
    for row in rows + afterwards:
        told = ", ".join(f"{name} {gain['mean']:+.3f} {gain['verdict']}" for name, gain in row["gains"].items())
        print(f"{row['case']}: {np.mean(row['auc'][WITHOUT]):.3f} without; {told}")
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
