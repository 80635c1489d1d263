"""Two synthetic cohorts that nobody looked at while defaults were chosen: `python -m benchmarks.evidence.unseen`.

    jigsawmil phantom arrangement --seed 11 --dim 512       five methods, default settings, 3 folds
    jigsawmil phantom position --seed 12 --dim 384          the same
    the first with its labels permuted over patients        a check for leaks: every method belongs at 0.5

The runs are ordinary studies, kept in runs/evidence/unseen; running again does what is missing.
"""

import argparse
import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from jigsawmil.cli.progress import StudyProgress
from jigsawmil.nn.options import PAPER_METHODS
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import phantom_slides, write_phantom
from jigsawmil.synthetic.phantom_options import phantom_spec
from jigsawmil.train.settings import Settings

from .. import RESULTS, provenance, write
from .holdout import WORK

COMMAND = "python -m benchmarks.evidence.unseen"
OUT = RESULTS / "unseen.json"
COHORTS = {
    "arrangement, seed 11": {"kind": "arrangement", "seed": 11, "dim": 512},
    "position, seed 12": {"kind": "position", "seed": 12, "dim": 384},
}
FOLDS = 3
PERMUTED = "arrangement, seed 11, labels permuted"
PERMUTATION = 0  # seed


def permute_labels(table: Path, out: Path, seed: int) -> None:
    """The same slides and patients; the labels of patients dealt out anew."""
    rows = list(csv.DictReader(table.read_text().splitlines()))
    label_of = {row["patient_id"]: row["label"] for row in rows}
    dealt = np.random.default_rng(seed).permutation(list(label_of.values()))
    anew = dict(zip(label_of, map(str, dealt), strict=True))
    lines = ["slide_id,patient_id,label"]
    lines += [f"{row['slide_id']},{row['patient_id']},{anew[row['patient_id']]}" for row in rows]
    write(out, "\n".join(lines))


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON has them: what is not defined is null."""
    rows = table.to_dict("records")
    return [{str(k): None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows]


def make_study(work: Path) -> Study:
    """Draw the cohorts that are missing; three cohorts x five methods x three folds."""
    sources = {}
    for name, asked in COHORTS.items():
        folder = work / "cohorts" / name
        if not folder.exists():
            print(f"Drawing {name} ...", flush=True)
            write_phantom(phantom_slides(phantom_spec(**asked)), folder)
        sources[name] = {"labels": folder / "labels.csv", "features": folder / "features"}
    first = sources[next(iter(COHORTS))]
    permuted = work / "cohorts" / "permuted.csv"
    permute_labels(first["labels"], permuted, PERMUTATION)
    sources[PERMUTED] = {"labels": permuted, "features": first["features"]}
    return Study(
        cohorts={name: cohort_spec(source) for name, source in sources.items()},
        variants={name: Settings.from_flat({"method": name}) for name in PAPER_METHODS},
        folds=FOLDS,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Five methods on two cohorts that nobody had looked at.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", type=Path, default=WORK / "unseen", help="what is done stays here")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    study = make_study(options.work)
    with StudyProgress(Console()) as progress:
        result = cross_validate(
            study, options.work / "run", processes=options.processes, listen=progress, on_plan=progress.plan
        )
    if result.failed:
        raise SystemExit(f"{len(result.failed)} jobs failed; nothing is written. Run the same command again.")
    jobs = [json.loads(path.read_text()) for path in sorted((options.work / "run" / "jobs").glob("*/*/*/job.json"))]
    found = {
        "command": COMMAND,
        "cohorts": COHORTS,
        "permuted": PERMUTED,
        "summary": records(result.summary),
        "comparisons": records(result.comparisons),
        "fits": len(jobs),
        "fit_seconds": round(sum(job["seconds"]["fit"] for job in jobs)),
        **provenance(),
        "commits": sorted({str(job["origin"]["commit"]) for job in jobs}),
    }
    write(options.out, json.dumps(found, indent=1))
    print(result.summary[["cohort", "variant", "auc_mean", "auc_std", "auc_oof", "auc_low", "auc_high"]].to_string())
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
