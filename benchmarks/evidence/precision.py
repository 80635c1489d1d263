"""Does bfloat16 change accuracy? The same trainings in float32 and in `auto`, on phantoms and on CODEX cells:
`python -m benchmarks.evidence.precision`.

**Declared before any of it was run.** Two methods, `graph-abmil+jigsaw` and `abmil`, as ensembles of three members
with default settings; each is fitted in float32 and in `auto`, with the same seeds and splits. 24 phantom cohorts,
eight per kind (SEEDS below, none used before in this repository, all reported), difficulty that of `jigsaw_cases.py`:
60 slides to fit on, 300 others to test. Beside them the CODEX cells of 35 patients: three fixed rows of `crc_codex.py`
in ten repeats of 5 folds, from seed 300 on, on which nothing was tried; a difference is of a repeat, so its interval
says what trainings and folds do, not what other patients would do.

**The rule.** Accuracy is `equal` if Student's 95 % interval of the paired difference of AUROC lies within 0.005 of 0;
`different` if it excludes 0 and the mean is beyond 0.005; else `open`. It is judged over the 24 cohorts, both methods
averaged within a cohort, and over the repeats, the three rows averaged within a repeat. The default becomes `auto` only
if both are `equal`. Each kind and method is stated beside it.

**What a difference contains.** Rounding takes a training another way, as another seed does, and where single trainings
depend on luck the difference holds that luck. Three members and 300 test slides make it small, and the interval says
how small.

**Seen beforehand.** The program was tried on six cohorts of 12 and 20 tiny slides; nothing follows from their AUROC.

On a device that has no bfloat16, `auto` is float32 and there is nothing to compare: the run refuses.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jigsawmil.synthetic.phantom_options import phantom_spec
from jigsawmil.train.config import AUTO
from jigsawmil.train.devices import pick_device, pick_precision

from .. import RESULTS, provenance, write
from .codex_data import read_cells
from .codex_fits import Bench
from .crc_codex import CELLS, aucs, rows
from .holdout import WORK, Cell, commits, paired, run_cells

COMMAND = "python -m benchmarks.evidence.precision"
OUT = RESULTS / "precision.json"
SEEDS = {"composition": range(7101, 7109), "arrangement": range(7201, 7209), "position": range(7301, 7309)}
KNOBS: dict[str, dict[str, float]] = {"composition": {"noise": 3.0}, "arrangement": {"clump": 5.0}, "position": {}}
TRAIN, TEST = 60, 300  # slides
SHAPE = {"slides": TRAIN + TEST, "patches": 200, "dim": 128, "two_slides": 0.0}
METHODS = ("graph-abmil+jigsaw", "abmil")
MEMBERS = 3
PRECISIONS = ("float32", AUTO)
CODEX = ("graph-mil + kinds", "graph-abmil+jigsaw, em", "abmil, 5 epochs")
REPEATS, FOLDS, FIRST = 10, 5, 300
BOUND = 0.005


def cell(kind: str, seed: int) -> Cell:
    variants = {
        f"{method}, {precision}": {"method": method, "members": MEMBERS, "precision": precision}
        for method in METHODS
        for precision in PRECISIONS
    }
    spec = phantom_spec(kind, seed=seed, **SHAPE, **KNOBS[kind])
    return Cell(name=f"{kind}, {seed}", spec=spec, train=TRAIN, test=TEST, variants=variants)


def judge(difference: Mapping[str, Any]) -> str:
    """By the rule above. difference: as `paired` gives it."""
    if difference["low"] >= -BOUND and difference["high"] <= BOUND:
        return "equal"
    beyond = difference["low"] > 0 or difference["high"] < 0
    return "different" if beyond and abs(difference["mean"]) > BOUND else "open"


def phantoms(outcomes: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """outcomes: kind -> cohort -> what the cell found."""
    areas = {
        (kind, method): np.array(
            [[one["variants"][f"{method}, {precision}"]["auc"] for precision in PRECISIONS] for one in cohorts.values()]
        )
        for kind, cohorts in outcomes.items()
        for method in METHODS
    }
    parts = [
        {
            "kind": kind,
            "method": method,
            "auc": dict(zip(PRECISIONS, found.mean(axis=0).tolist(), strict=True)),
            "difference": paired(found[:, 1] - found[:, 0]),
        }
        for (kind, method), found in areas.items()
    ]
    gaps = {key: found[:, 1] - found[:, 0] for key, found in areas.items()}
    whole = paired(np.concatenate([np.mean([gaps[kind, method] for method in METHODS], axis=0) for kind in outcomes]))
    return {"parts": parts, "difference": {**whole, "verdict": judge(whole)}}


def codex(cells: Path, work: Path, repeats: int) -> dict[str, Any] | None:
    """The same on the CODEX cells; None if they are not there."""
    if not cells.exists():
        print(f"skipped: {cells} is not there. The cells are no part of the project; --cells names another file.")
        return None
    cohort = read_cells(cells)
    bench = Bench(cohort, work)
    found: dict[str, np.ndarray] = {}
    for row in (row for row in rows(cohort.dim) if row.name in CODEX):
        (settings,) = row.candidates.values()
        each = []
        for repeat in range(FIRST, FIRST + repeats):
            tables = [bench.repeat({"": settings.replace(precision=one)}, repeat, FOLDS) for one in PRECISIONS]
            each.append([float(aucs(table.assign(seed=repeat)).iloc[0]) for table in tables])
            print(f"{row.name}, repeat {repeat}: {each[-1][0]:.3f}, {each[-1][1]:.3f}", flush=True)
        found[row.name] = np.array(each)
    gaps = {name: values[:, 1] - values[:, 0] for name, values in found.items()}
    parts = [
        {
            "row": name,
            "auc": dict(zip(PRECISIONS, values.mean(axis=0).tolist(), strict=True)),
            "difference": paired(gaps[name]),
        }
        for name, values in found.items()
    ]
    whole = paired(np.mean(list(gaps.values()), axis=0))
    return {"parts": parts, "repeats": repeats, "difference": {**whole, "verdict": judge(whole)}}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Does bfloat16 change accuracy?")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--work", type=Path, default=WORK / "precision", help="finished fits stay here; rerun to resume"
    )
    parser.add_argument("--cells", type=Path, default=CELLS)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of CODEX")
    parser.add_argument("--cohorts", type=int, default=8, help="per kind; fewer for a try")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    means = pick_precision(AUTO, pick_device(AUTO))
    if means == "float32":
        raise SystemExit(
            f"precision: {AUTO} means {means} on this device; expected bfloat16. Run it on another machine."
        )
    cells = {kind: [cell(kind, seed) for seed in list(seeds)[: options.cohorts]] for kind, seeds in SEEDS.items()}
    in_turn = [each for cohorts in zip(*cells.values(), strict=True) for each in cohorts]
    outcomes = run_cells(in_turn, options.work, options.processes)
    found = {
        "command": COMMAND,
        "auto": means,
        "bound": BOUND,
        "phantoms": phantoms({kind: {one.name: outcomes[one.name] for one in own} for kind, own in cells.items()}),
        "codex": codex(options.cells, options.work / "codex", options.repeats),
        "shape": {**SHAPE, "train": TRAIN, "test": TEST, "members": MEMBERS},
        "seeds": {kind: list(seeds) for kind, seeds in SEEDS.items()},
        **provenance(),
        "commits": commits(outcomes),
    }
    write(options.out, json.dumps(found, indent=1))
    for name in ("phantoms", "codex"):
        for part in (found[name] or {}).get("parts", []):
            print(f"{', '.join(part.get(key, '') for key in ('row', 'kind', 'method') if key in part)}: {_words(part)}")
        if found[name]:
            print(f"{name}: {_words(found[name])}: {found[name]['difference']['verdict']}")
    print(f"Written to {options.out}")


def _words(part: Mapping[str, Any]) -> str:
    gap = part["difference"]
    each = " against ".join(f"{value:.4f}" for value in reversed(part.get("auc", {}).values()))
    return f"{each + ', ' if each else ''}difference {gap['mean']:+.4f} [{gap['low']:+.4f}, {gap['high']:+.4f}]"


if __name__ == "__main__":
    main()
