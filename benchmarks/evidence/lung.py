"""Real survival data: 285,412 cells in 247 images of 50 lung cancer patients, 33 of whom died.

    .venv/bin/python -m benchmarks.evidence.lung    # 3 x 5 folds of patients; resumes; about half an hour of one core
    .venv/bin/python -m benchmarks.evidence.lung --data lung_mif --repeats 1 --out /tmp/figures.json

Declared before any method was run on these data (VectraPolarisData, Johnson et al. 2021, as the R package mxfda has
them):

- **Question.** Do the places of cells tell something about survival, beyond age, sex and stage, and beyond which cells
  there are? With 33 events the interval of a C-index spans about 0.2: only a large effect could show. We expect none.
- **Data.** A cell is a patch, its six binary markers are the features, an image is a slide, and all images of a patient
  are one bag.
- **Folds.** Five folds of patients, stratified as the task does it, by event and time; repeated with the seeds 300 to
  302, on which nothing was tried. No repeat is begun that would end after --minutes, and in the first no method after
  it: time decides how many there are. (The machine was busier than expected: while the first networks ran, and before
  any figure was looked at, the committee was put last.)
- **Methods.** All learn by Cox's partial likelihood. `covariates`: age, sex and stage (as a number), in a regression
  whose ridge is chosen within the training patients. `composition`: the same regression on the mean markers
  (`mean-lr`), and with the covariates beside them. `abmil`, `graph-abmil`, `graph-abmil+jigsaw`, and the committee.
  `graph-abmil+jigsaw` with the covariates. The control: `graph-abmil+jigsaw` with places shuffled within each image.
- **Settings.** Those that `crc_codex.py` fixed for its 35 patients, unchanged: one SAGE layer (the committee has kinds
  of its own), width 16, k = 10, learning rate 0.01, weight decay 0.001, five epochs, no stopping. Nothing is tuned or
  chosen on these data, and no method is run a second time with other settings.
- **Figures.** The risk of a patient is its rank within the test fold, since models of different folds have different
  scales, averaged over the repeats. Of these risks: Harrell's C with an interval over 2,000 resamples of patients.
  Beside it the mean and standard deviation of the C of single repeats.
- **Tests.** Paired, over resampled patients, Holm-adjusted: each method against `covariates`, each network against
  `composition`, the jigsaw against `graph-abmil`, and true against shuffled places.
"""

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.splits import Fold, make_folds
from jigsawmil.errors import LabelError
from jigsawmil.statistics import c_difference, c_interval, harrell_c
from jigsawmil.statistics.paired import holm
from jigsawmil.train.settings import Settings

from .. import RESULTS, ROOT, provenance, write
from .codex_fits import Bench

DATA = ROOT / ".." / "shared" / "data" / "lung_mif"
MARKERS = ["ck", "cd8", "cd14", "other", "cd19", "cd4"]
CLINICAL = ["age", "gender", "stage"]
FIRST, REPEATS, FOLDS = 300, 3, 5
COVARIATES, COMPOSITION = "covariates", "composition"
ABMIL, GRAPH, COMMITTEE = "abmil", "graph-abmil", "committee"
JIGSAW, SHUFFLED = "graph-abmil+jigsaw", "graph-abmil+jigsaw, places shuffled"
NETWORKS = (ABMIL, GRAPH, JIGSAW, COMMITTEE)


def methods() -> dict[str, Settings]:
    """Name -> settings; SHUFFLED has those of the method that it controls."""
    base: dict[str, Any] = {"level": "patient", "loss": "cox", "layers": 1, "hidden": 16, "attention_dim": 16}
    base |= {"lr": 1e-2, "weight_decay": 1e-3, "epochs": 5, "patience": 0, "device": "cpu"}
    own = {"conv": "sage", "k": 10}

    def settings(method: str, **options: Any) -> Settings:
        return Settings(**{**base, **({} if method == COMMITTEE else own), "method": method, **options})

    return {
        COVARIATES: settings("covariates"),
        COMPOSITION: settings("mean-lr"),
        f"{COMPOSITION}+{COVARIATES}": settings("mean-lr", covariates=True),
        **{name: settings(name) for name in (ABMIL, GRAPH, JIGSAW)},
        SHUFFLED: settings(JIGSAW),
        f"{JIGSAW}+{COVARIATES}": settings(JIGSAW, covariates=True),
        COMMITTEE: settings(COMMITTEE),
    }


def pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """What is tested against what."""
    known = list(names)
    found = [(name, COVARIATES) for name in known if name != COVARIATES]
    found += [(name, COMPOSITION) for name in known if name in NETWORKS]
    return [pair for pair in [*found, (JIGSAW, GRAPH), (JIGSAW, SHUFFLED)] if {*pair} <= {*known}]


def read_cells(folder: Path) -> Cohort:
    """One bag per image, with the covariates of its patient."""
    cells, patients = pd.read_csv(folder / "cells.csv.gz"), pd.read_csv(folder / "patients.csv")
    wanted = {"cells.csv.gz": (cells, ["patient", "image", "x", "y", *MARKERS])}
    wanted["patients.csv"] = (patients, ["patient", "survival_days", "event", *CLINICAL])
    for name, (table, columns) in wanted.items():
        if missing := [column for column in columns if column not in table]:
            raise LabelError(f"{name}: no column {', '.join(missing)}; expected {', '.join(columns)}.")
    rows = patients.set_index("patient")
    bags, labels, whose = [], [], []
    for (patient, image), own in cells.groupby(["patient", "image"]):
        row = rows.loc[patient]
        bags.append(
            Bag(
                slide_id=str(image),
                features=torch.from_numpy(own[MARKERS].to_numpy(np.float32)),
                coords=torch.from_numpy(own[["x", "y"]].to_numpy(np.float64)),
                covariates={name: row[name] for name in CLINICAL},
            )
        )
        labels.append((float(row["survival_days"]), int(row["event"])))
        whose.append(f"patient {patient}")
    return Cohort.from_bags(bags, labels, whose, task="survival")


def patient_folds(cohort: Cohort, seed: int, folds: int) -> list[Fold]:
    return make_folds(list(cohort.slide_ids), list(cohort.patients), cohort.stratum_names, folds=folds, seed=seed)


def risks(bench: Bench, name: str, settings: Settings, seed: int, folds: int) -> pd.DataFrame:
    """Out-of-fold risk of every patient, as its rank within the test fold from 0 to 1: patient_id, time, event, risk.

    The risk of a committee is the mean of those of its kinds: they are means of log hazards.
    """
    found = []
    for number, fold in enumerate(patient_folds(bench.cohort, seed, folds)):
        shuffle = seed if name == SHUFFLED else None
        tables = [bench.fit(own, fold, seed, number, shuffle) for own in settings.each_member()]
        risk = np.mean([table["risk"] for table in tables], axis=0)
        rank = (pd.Series(risk).rank() - 0.5) / len(risk)
        found.append(tables[0][["patient_id", "time", "event"]].assign(risk=rank.to_numpy()))
    return pd.concat(found, ignore_index=True).sort_values("patient_id", ignore_index=True)


def describe(name: str, each: Sequence[pd.DataFrame]) -> dict[str, Any]:
    single = [harrell_c(one["time"], one["event"], one["risk"]) for one in each]
    whole = mean_risk(each)
    interval = c_interval(whole["time"], whole["event"], whole["risk"], whole["patient_id"], 0)
    return {
        "name": name,
        "c_each": single,
        "c_mean": float(np.mean(single)),
        "c_std": float(np.std(single, ddof=1)) if len(single) > 1 else None,
        "c": interval.value,
        "c_low": interval.low,
        "c_high": interval.high,
    }


def mean_risk(each: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return each[0].assign(risk=np.mean([one["risk"] for one in each], axis=0))


def compare(found: dict[str, list[pd.DataFrame]]) -> list[dict[str, Any]]:
    lines = []
    for a, b in pairs(found):
        one, other = mean_risk(found[a]), mean_risk(found[b])
        test = c_difference(one["time"], one["event"], one["risk"], other["risk"], one["patient_id"], 0)
        lines.append({"a": a, "b": b, **test._asdict()})
    for line, adjusted in zip(lines, holm([line["p"] for line in lines]), strict=True):
        line["p_holm"] = float(adjusted)
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with cells.csv.gz and patients.csv")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "lung", help="finished fits, to resume from")
    parser.add_argument("--out", type=Path, default=RESULTS / "lung.json")
    options = parser.parse_args(arguments)
    if not (options.data / "cells.csv.gz").exists():
        print(f"skipped: no cells.csv.gz in {options.data}. The cells are no part of the project; --data names them.")
        return
    torch.set_num_threads(1)
    started, about = time.time(), provenance()
    cohort = read_cells(options.data)
    bench, found = Bench(cohort, options.work), dict[str, list[pd.DataFrame]]()
    longest = 0.0
    for repeat in range(options.repeats):
        begun = time.time()
        if repeat and begun - started + longest > 60 * options.minutes:
            print(f"{repeat} of {options.repeats} repeats: another would take {longest / 60:.0f} minutes", flush=True)
            break
        for name, settings in methods().items():
            late = time.time() - started > 60 * options.minutes
            if name not in found and found and (late or repeat):
                print(f"left out: {name}", flush=True)
                continue
            found.setdefault(name, []).append(risks(bench, name, settings, FIRST + repeat, options.folds))
            print(f"repeat {repeat}, {name}: {time.time() - begun:.0f} s", flush=True)
        longest = max(longest, time.time() - begun)
    outcome = next(iter(found.values()))[0]
    figures = {
        "rows": [describe(name, each) for name, each in found.items()],
        "comparisons": compare(found),
        "settings": {name: settings.flat() for name, settings in methods().items()},
        "data": {
            "cells": sum(slide.patches for slide in cohort.slides),
            "images": len(cohort),
            "patients": len(outcome),
            "events": int(outcome["event"].sum()),
        },
        "protocol": {"repeats": len(next(iter(found.values()))), "folds": options.folds, "first_seed": FIRST},
        "declared": __doc__,
        "left_out": [name for name in methods() if name not in found],
        "fits_made": bench.made,
        "seconds": time.time() - started,
    }
    write(options.out, json.dumps({**figures, **about}, indent=2))
    for row in figures["rows"]:
        print(f"{row['name']:40s} {row['c']:.3f} [{row['c_low']:.3f}, {row['c_high']:.3f}]")


if __name__ == "__main__":
    main()
