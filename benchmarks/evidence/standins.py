"""Tables 1, 3, 5 and 6 of the paper at their full size, on stand-ins: `python -m benchmarks.evidence.standins`.

The study files run as they are, with `--phantom`: numbers of slides, patches, dimensions and class balance as in the
paper, and artificial slides in place of TCGA's. They say nothing about TCGA. They show that the whole study runs, what
it takes, and what a spread over three folds of such cohorts looks like.

The four tables have the same three cohorts, and some of the same rows (`graph-abmil` with k = 50 is in three of them).
Each training is run once and stands in every table that has it. Cohorts are run one after the other, and the file of
results grows by one when a cohort is done. A cohort that the file has already is not run again; within a cohort, the
command resumes.

Processor time is changed little by other programs on the machine. Wall time is given beside it: of each variant, the
seconds of training and predicting of its jobs; of a cohort, from start to end, unless it had been begun before.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from jigsawmil.cli.progress import StudyProgress
from jigsawmil.study.run import Run
from jigsawmil.study.run_folder import RunFolder
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, on_standins
from jigsawmil.study.study_file import read_study
from jigsawmil.synthetic.standins import write_standin

from .. import RESULTS, ROOT, provenance, write
from .holdout import WORK

COMMAND = "python -m benchmarks.evidence.standins"
TABLES = ("table1-cancers", "table3-lambda", "table5-k", "table6-convs")


def read_tables() -> dict[str, Study]:
    return {name: read_study(ROOT / "studies" / f"{name}.toml") for name in TABLES}


def union(tables: Mapping[str, Study]) -> tuple[Study, dict[str, dict[str, str]]]:
    """One study with every variant of the tables once; of each table, its row -> the variant of that study."""
    first = next(iter(tables.values()))
    names: dict[str, str] = {}  # settings -> variant
    variants, rows = {}, {}
    for table, study in tables.items():
        same = (study.standins, study.folds, study.seeds) == (first.standins, first.folds, first.seeds)
        assert same, f"{table}.toml: the tables share cohorts, folds and seeds, or they cannot be run together"
        rows[table] = {}
        for name, settings in study.variants.items():
            key = json.dumps(settings.flat(), sort_keys=True)
            if key not in names:
                names[key] = name
                assert name not in variants, f"{table}.toml: {name} has other settings in another table"
                variants[name] = settings
            rows[table][name] = names[key]
    return replace(first, variants=variants, published=None), rows


def run_cohort(study: Study, cohort: str, folder: Path, processes: int) -> Run:
    standins = RunFolder(folder).standins
    write_standin(study.standins[cohort], standins / cohort)
    own = replace(study, cohorts={cohort: study.cohorts[cohort]}, standins={cohort: study.standins[cohort]}, file=None)
    with StudyProgress(Console()) as progress:
        run = cross_validate(
            on_standins(own, standins), folder, processes=processes, listen=progress, on_plan=progress.plan
        )
    if run.failed:
        raise SystemExit(f"{cohort}: {len(run.failed)} jobs failed; nothing is written. Run the same command again.")
    return run


def asked(study: Study, cohort: str) -> str:
    """What the results of a cohort depend on."""
    settings = {name: own.flat() for name, own in study.variants.items()}
    about = [asdict(study.standins[cohort]), settings, study.folds, study.seeds]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def outcome(run: Run) -> dict[str, Any]:
    """Of each variant: AUROC (mean and standard deviation over folds), and what it took."""
    found: dict[str, Any] = {}
    for _, row in run.summary.iterrows():
        jobs = [job for job in run.jobs if job.variant == row["variant"]]
        found[str(row["variant"])] = {
            "auc": [float(row["auc_mean"]), float(row["auc_std"])],
            "jobs": len(jobs),
            "processor_seconds": round(sum(job.seconds["processor"] for job in jobs)),
            "wall_seconds": round(sum(job.seconds["fit"] + job.seconds["predict"] for job in jobs)),
            "peak_mb": max((job.peak_mb for job in jobs if job.peak_mb), default=None),
        }
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Tables 1, 3, 5 and 6 of the paper on stand-ins.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK / "standins", help="run folders; what is done stays there")
    parser.add_argument("--out", type=Path, default=RESULTS / "standins.json")
    options = parser.parse_args(arguments)
    study, rows = union(read_tables())
    done = json.loads(options.out.read_text())["cohorts"] if options.out.is_file() else {}
    cohorts = {name: own for name, own in done.items() if name in study.cohorts and own["asked"] == asked(study, name)}
    for cohort in study.cohorts:
        if cohort in cohorts:
            print(f"{cohort}: already in {options.out}")
            continue
        folder, began = options.work / cohort, time.monotonic()
        whole = not folder.exists()
        run = run_cohort(study, cohort, folder, options.processes)
        cohorts[cohort] = {"asked": asked(study, cohort), "variants": outcome(run), **provenance()}
        cohorts[cohort]["elapsed_seconds"] = round(time.monotonic() - began) if whole else None
        cohorts[cohort]["commits"] = sorted({str(job.origin.get("commit"))[:10] for job in run.jobs})
        values = {"command": COMMAND, "processes": options.processes, "tables": rows, "cohorts": cohorts}
        values |= provenance() | {"commits": sorted({c for own in cohorts.values() for c in own["commits"]})}
        write(options.out, json.dumps(values, indent=1))
        print(f"{cohort}: written to {options.out}")


if __name__ == "__main__":
    main()
