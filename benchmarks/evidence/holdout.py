"""Phantom cohorts split once: some slides to fit on, many others, never seen, to test on.

Each cell is a cohort and the variants fitted on it. Its jobs are those of a study (`study/run.py`); cross-validation
would fit three times as often for a test of fewer slides, and there is no need for it where slides cost nothing. A cell
that is whole is one JSON file, so running again does what is missing, and goes on within a cell that was cut short.
"""

import json
import multiprocessing
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from scipy.stats import t as student

from jigsawmil.cohort.splits import Fold
from jigsawmil.errors import StudyError
from jigsawmil.statistics.metrics import auc
from jigsawmil.study.executors import Event, run_local
from jigsawmil.study.job import LOGIT, Job, fingerprint
from jigsawmil.study.plan import refuse_other_settings
from jigsawmil.study.study import CohortSpec
from jigsawmil.synthetic.phantom import phantom_slides, write_phantom
from jigsawmil.synthetic.phantom_options import CLASSES, PhantomSpec
from jigsawmil.train.ensemble import splits_of_members
from jigsawmil.train.origin import origin
from jigsawmil.train.settings import Settings

from .. import ROOT, write

WORK = ROOT / "runs" / "evidence"
TRACED = ("mil", "jigsaw", "lambda_")
OWN = ("train", "trainings")  # what a variant states beside its settings


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A phantom cohort of one-slide patients: the first `train` slides fit, the last `test` are predicted once.

    variants: name -> settings, as a study file has them; with `train` among them, a variant fits on fewer slides, and
    with `trainings`, only the first so many members of an ensemble are fitted.
    """

    name: str
    spec: PhantomSpec
    train: int
    test: int
    variants: Mapping[str, Mapping[str, Any]]

    @property
    def asked(self) -> dict[str, Any]:
        """What the outcome depends on; a stored outcome of anything else is made anew."""
        knobs = {f.name: value for f in fields(self.spec) if (value := getattr(self.spec, f.name)) != f.default}
        variants = {name: dict(values) for name, values in self.variants.items()}
        return {"phantom": knobs, "train": self.train, "test": self.test, "variants": variants}


def run_cells(cells: Iterable[Cell], folder: Path, processes: int = 1) -> dict[str, dict[str, Any]]:
    """The outcome of every cell by its name, from its file where it is there; a line for each that ran."""
    cells = list(cells)
    found = {cell.name: kept for cell in cells if (kept := stored(cell, folder)) is not None}
    missing = [cell for cell in cells if cell.name not in found]
    print(f"{folder.name}: {len(found)} of {len(cells)} cells are done already.", flush=True)
    started = time.monotonic()
    for number, (name, outcome) in enumerate(_run(missing, folder, processes), start=1):
        found[name] = outcome
        spent = time.monotonic() - started
        left = spent / number * (len(missing) - number)
        print(
            f"{folder.name}: {len(found)} of {len(cells)}, {name}; {spent / 60:.0f} min, {left / 60:.0f} left",
            flush=True,
        )
    return {cell.name: found[cell.name] for cell in cells}


def _run(cells: list[Cell], folder: Path, processes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    if processes <= 1:
        for cell in cells:
            yield cell.name, run_cell(cell, folder)
        return
    context = multiprocessing.get_context("spawn")  # OpenMP does not survive a fork
    with ProcessPoolExecutor(processes, context, torch.set_num_threads, (1,)) as pool:
        futures = {pool.submit(run_cell, cell, folder): cell.name for cell in cells}
        for future in as_completed(futures):
            yield futures[future], future.result()


def stored(cell: Cell, folder: Path) -> dict[str, Any] | None:
    path = folder / f"{cell.name}.json"
    if not path.is_file():
        return None
    outcome = json.loads(path.read_text())
    return outcome if outcome["asked"] == json.loads(json.dumps(cell.asked)) else None


def run_cell(cell: Cell, folder: Path) -> dict[str, Any]:
    """Draw the cohort, fit every variant, score the test slides; the cohort itself is not kept."""
    work = folder / cell.name
    if not (work / "cohort" / "labels.csv").exists():
        write_phantom(phantom_slides(cell.spec), work / "cohort")
    jobs = holdout_jobs(cell, work)
    refuse_other_settings(jobs, {cell.name: jobs[0].source.read()}, work)
    failed: list[str] = []

    def note(event: Event) -> None:
        if event.error is not None:
            failed.append(f"{event.job.name}: {event.error}")

    run_local([job for job in jobs if not job.done], 1, note)
    if failed:
        raise StudyError(f"{len(failed)} of {len(jobs)} jobs failed; the first: {failed[0]}")
    outcome = {
        "asked": cell.asked,
        "commit": origin()["commit"],
        "variants": {
            name: read_variant([job for job in jobs if job.variant == name], CLASSES[cell.spec.kind][1])
            for name in cell.variants
        },
    }
    write(folder / f"{cell.name}.json", json.dumps(outcome))
    shutil.rmtree(work)
    return outcome


def holdout_jobs(cell: Cell, work: Path) -> list[Job]:
    """One job per variant, or per member of an ensemble, all on the same slides with the same seed."""
    if cell.spec.two_slides:
        raise StudyError(
            f"{cell.name}: two_slides={cell.spec.two_slides}; expected 0, or patients would be on both sides."
        )
    source = CohortSpec(str(work / "cohort" / "labels.csv"), str(work / "cohort" / "features"))
    cohort = source.read()
    ids = tuple(map(str, cohort.slide_ids))
    if cell.train + cell.test > len(ids):
        raise StudyError(f"{cell.name}: {len(ids)} slides; expected at least {cell.train} + {cell.test}. Raise slides.")
    plain = {name: {k: v for k, v in values.items() if k not in OWN} for name, values in cell.variants.items()}
    settings = {name: Settings.from_flat(values, name) for name, values in plain.items()}
    graphs = [chosen.graph for chosen in settings.values() if chosen.needs_graph]
    jobs = []
    for name, chosen in settings.items():
        split = Fold(train=ids[: cell.variants[name].get("train", cell.train)], val=(), test=ids[-cell.test :])
        parts = splits_of_members(cohort, split, chosen, cell.spec.seed)
        members = list(enumerate(zip(chosen.each_member(), parts, strict=True)))
        for member, (own, part) in members[: cell.variants[name].get("trainings")]:
            several = len(members) > 1
            job = Job(
                cohort=cell.name,
                source=source,
                fingerprint=fingerprint(cohort),
                variant=name,
                settings=own,
                graph=own.graph if own.needs_graph else (graphs or [None])[0],  # slides are prepared once
                fold=0,
                split=part,
                seed=cell.spec.seed,
                member=member if several else None,
                shuffled=False,
                attention=False,
                memory_gb=2.0,
                folder=work / "jobs" / (f"{name}-member{member}" if several else name),
            )
            jobs.append(job)
    return jobs


def read_variant(jobs: Sequence[Job], positive: str) -> dict[str, Any]:
    """Of one model: its outcome. Of several members: the AUROC of their mean logit, and `each` outcome."""
    each = [read_outcome(job, positive) for job in jobs]
    if jobs[0].member is None:
        return each[0]
    tables = [pd.read_csv(job.folder / "predictions.csv", dtype={"label": str}) for job in jobs]
    logit = np.mean([table[f"{LOGIT}0"] for table in tables], axis=0)
    seconds = sum(outcome["seconds"] for outcome in each)
    return {"auc": auc(tables[0]["label"] == positive, logit), "seconds": round(seconds, 2), "each": each}


def read_outcome(job: Job, positive: str) -> dict[str, Any]:
    """AUC of the test slides, seconds of fitting, the epoch kept, and the losses and lambda of every epoch."""
    table = pd.read_csv(job.folder / "predictions.csv", dtype={"label": str})
    trace = pd.read_csv(job.folder / "trace.csv")
    area = auc(table["label"] == positive, table["probability"])
    if np.isnan(area):
        raise StudyError(f"{job.name}: the test slides are all of one class; expected two. Raise test.")
    record = json.loads((job.folder / "job.json").read_text())
    fitted = {"auc": area, "seconds": round(record["seconds"]["fit"], 2), "kept": record["best_epoch"]}
    return {**fitted, **{c: trace[c].round(4).tolist() for c in TRACED}}


def commits(outcomes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Where the fits were made: a run that was resumed may have several."""
    return sorted({str(outcome["commit"]) for outcome in outcomes.values()})


def paired(differences: ArrayLike) -> dict[str, Any]:
    """Mean of independent differences with Student's 95 % interval and two-sided p; every one of them is kept."""
    d = np.asarray(differences, dtype=float)
    mean, error = float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d)))
    half = float(student.ppf(0.975, len(d) - 1)) * error
    p = float(2 * student.sf(abs(mean) / error, len(d) - 1)) if error > 0 else (1.0 if mean == 0 else 0.0)
    return {"mean": mean, "low": mean - half, "high": mean + half, "p": p, "values": [round(x, 4) for x in d.tolist()]}
