"""Tables 1, 3, 5 and 6 of the paper at their full size, on stand-ins: `python -m benchmarks.evidence.standins`.

The study files run as they are, with `--phantom`: numbers of slides, patches, dimensions and class balance as in the
paper, and artificial slides in place of TCGA's. They say nothing about TCGA. They show that the whole study runs, what
it takes, and what a spread over three folds of such cohorts looks like. Interrupted, the command resumes.

Time is processor time, which other programs on the machine change little, and which two idle cores halve. A job whose
record lacks it (it was run by an older version) is counted by the rate of its variant per epoch and slide.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from jigsawmil.cli.progress import StudyProgress
from jigsawmil.study.run import Run
from jigsawmil.study.run_folder import RunFolder
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import on_standins
from jigsawmil.study.study_file import read_study
from jigsawmil.synthetic.standins import write_standin

from .. import RESULTS, ROOT, provenance, write
from .holdout import WORK

COMMAND = "python -m benchmarks.evidence.standins"
TABLES = ("table1-cancers", "table3-lambda", "table5-k", "table6-convs")


def run_table(name: str, folder: Path, processes: int) -> Run:
    study = read_study(ROOT / "studies" / f"{name}.toml")
    standins = RunFolder(folder).standins
    for cohort, asked in study.standins.items():
        write_standin(asked, standins / cohort)
    with StudyProgress(Console()) as progress:
        run = cross_validate(
            on_standins(study, standins), folder, processes=processes, listen=progress, on_plan=progress.plan
        )
    if run.failed:
        raise SystemExit(f"{name}: {len(run.failed)} jobs failed; nothing is written. Run the same command again.")
    return run


def outcome(run: Run) -> dict[str, Any]:
    """Variants down, cohorts across, and what it took."""
    summary = run.summary
    rows = {
        variant: {
            str(row["cohort"]): [float(row["auc_mean"]), float(row["auc_std"])]
            for _, row in summary[summary["variant"] == variant].iterrows()
        }
        for variant in run.variants
    }
    slides = run.slides["cohort"].value_counts()
    passes = {job.folder: int(job.seconds["epochs"]) * int(slides[job.cohort]) for job in run.jobs}
    seconds = []
    for job in run.jobs:
        timed = [own for own in run.jobs if own.variant == job.variant and "processor" in own.seconds]
        rate = sum(own.seconds["processor"] for own in timed) / max(1, sum(passes[own.folder] for own in timed))
        seconds.append(job.seconds.get("processor", rate * passes[job.folder]))
    return {
        "cohorts": list(run.cohorts),
        "rows": rows,
        "jobs": len(run.jobs),
        "timed": sum("processor" in job.seconds for job in run.jobs),
        "processor_seconds": round(sum(seconds)),
        "epochs": sum(int(job.seconds["epochs"]) for job in run.jobs),
        "peak_mb": max((job.peak_mb for job in run.jobs if job.peak_mb), default=None),
        "commits": sorted({str(job.origin.get("commit"))[:10] for job in run.jobs}),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Tables 1, 3, 5 and 6 of the paper on stand-ins.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK / "standins", help="run folders; what is done stays there")
    parser.add_argument("--out", type=Path, default=RESULTS / "standins.json")
    options = parser.parse_args(arguments)
    found = {name: outcome(run_table(name, options.work / name, options.processes)) for name in TABLES}
    values = {"command": COMMAND, "processes": options.processes, "tables": found, **provenance()}
    values["commits"] = sorted({commit for table in found.values() for commit in table["commits"]})
    write(options.out, json.dumps(values, indent=1))
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
