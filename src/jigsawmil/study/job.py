"""One job: fit one variant on one fold of one cohort, and leave a folder that is whole or not there."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from ..cohort.cohort import Cohort
from ..cohort.splits import Fold
from ..errors import LabelError, StudyError
from ..files import new_folder, remove, sweep, write_json
from ..graph import GraphConfig
from ..nn.model import Model
from ..tasks import get_task
from ..train.checkpoint import CARD, WEIGHTS, save_model
from ..train.feed import Feed
from ..train.fold import fit_split, make_card
from ..train.infer import run_model
from ..train.origin import origin
from ..train.progress import Epoch
from ..train.settings import Settings

IDLE = ("device",)  # settings that do not change what a job means
FILES = ("predictions.csv", "trace.csv", WEIGHTS, CARD, "job.json")  # of every job
ATTENTION = "attention.safetensors"  # of a job that keeps it


@dataclass(frozen=True)
class CohortSpec:
    """Where a cohort comes from; `options` are those of `Cohort.read`, as a sorted tuple so that it can be a key."""

    labels: str
    features: str
    options: tuple[tuple[str, Any], ...] = ()

    def read(self, memory_gb: float = 0.0) -> Cohort:
        return Cohort.read(self.labels, self.features, memory_gb=memory_gb, **dict(self.options))


@dataclass(frozen=True, kw_only=True)
class Job:
    """folder: where the results go. graph: what the slides are prepared with; None where no variant asks for one."""

    cohort: str
    source: CohortSpec
    fingerprint: str  # of the cohort: slides, patients, labels, patches
    variant: str
    settings: Settings
    graph: GraphConfig | None
    fold: int
    split: Fold = field(repr=False)
    seed: int
    shuffled: bool  # the control: places permuted within each slide
    attention: bool
    memory_gb: float
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.cohort} {self.variant} seed {self.seed} fold {self.fold}" + " shuffled" * self.shuffled

    @property
    def spec(self) -> dict[str, Any]:
        """What the results depend on; a folder with another one is never mixed in."""
        settings = {key: value for key, value in self.settings.flat().items() if key not in IDLE}
        split = {"train": list(self.split.train), "val": list(self.split.val), "test": list(self.split.test)}
        folds = hashlib.sha256(json.dumps(split).encode()).hexdigest()[:16]
        return {
            "cohort": self.fingerprint,
            "folds": folds,
            "seed": self.seed,
            "shuffled": self.shuffled,
            **settings,
        }

    @property
    def done(self) -> bool:
        return (self.folder / "job.json").is_file()


def run_job(job: Job, on_epoch: Callable[[Epoch], None] | None = None) -> None:
    """Fit, predict the test fold, write. Run again after a kill it goes on, to the bits it would have had.

    Two attempts at once, one of them on a node that was thought dead, do not disturb each other: the first that ends
    leaves the folder, and both succeed.
    """
    started = time.time()
    feed = _feed(job.source, job.graph, job.settings.model.grid, job.settings.level, job.shuffled, job.memory_gb)
    if fingerprint(feed.cohort) != job.fingerprint:
        raise StudyError(f"{job.source.labels}: the labels or features changed after the study was planned. Run again.")
    if job.folder.exists() and any(job.folder.iterdir()):
        raise StudyError(f"{job.folder} is not empty; a job needs it new. Remove that folder and run again.")
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(job.folder)  # of a process that was killed
    key = hashlib.sha256(json.dumps(job.spec, sort_keys=True).encode()).hexdigest()[:12]
    state = job.folder.with_name(f".{job.folder.name}.{key}.state")
    model, progress = fit_split(feed, job.split, job.settings, job.seed, job.fold, on_epoch, state)
    fitted = time.time()
    test = feed.bags_of(job.split.test)
    table, attention = predict_table(model, feed, test, job.settings)
    try:
        with new_folder(job.folder) as folder:
            table.to_csv(folder / "predictions.csv", index=False)
            trace = pd.DataFrame([asdict(epoch) for epoch in progress.epochs])
            trace.assign(kept=trace["epoch"] == progress.best).to_csv(folder / "trace.csv", index=False)
            save_model(folder, model, make_card(feed, model, job.settings, job.seed, progress))
            if job.attention:
                save_file(attention, folder / ATTENTION)
            times = {"fit": fitted - started, "predict": time.time() - fitted, "epochs": len(progress.epochs)}
            values = {"name": job.name, "spec": job.spec, "best_epoch": progress.best, "seconds": times}
            write_json(folder / "job.json", {**values, "variant": job.variant, "fold": job.fold, "origin": origin()})
            _check_whole(folder, [*FILES, *[ATTENTION] * job.attention])
    except OSError:
        if not job.done:  # else another attempt was first, which is as good
            raise
    for left in job.folder.parent.glob(f".{job.folder.name}.*.state"):  # this one, and any of settings given up
        remove(left)


def predict_table(
    model: Model, feed: Feed, bags: list[int], settings: Settings
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """One row per bag with its class probabilities; attention of every slide by its id, coordinates by `id/coords`."""
    cohort = feed.cohort
    task = get_task(cohort.task)
    rows: list[dict[str, Any]] = []
    attention: dict[str, np.ndarray] = {}
    coords: dict[str, np.ndarray] = {}
    found = run_model(model, feed.prepared(bags), device=settings.train.device, precision=settings.train.precision)
    for bag, seen in zip(bags, found, strict=True):
        first = cohort.slides[feed.members[bag][0]]
        row = {"slide_id": seen.name, "patient_id": first.patient_id, "label": cohort.label_of(first)}
        rows.append({**row, **task.row(seen.probabilities, cohort.classes)})
        attention |= zip(seen.batch.slide_ids, seen.attention, strict=True)
        coords |= {f"{slide}/coords": values for slide, values in zip(seen.batch.slide_ids, seen.coords, strict=True)}
    return pd.DataFrame(rows), attention | coords


def check_patients(cohort: Cohort) -> None:
    """A patient can be one bag only where its slides have one label."""
    mixed: dict[str, set[int]] = {}
    for patient, label in zip(cohort.patients, cohort.labels, strict=True):
        mixed.setdefault(str(patient), set()).add(int(label))
    wrong = [patient for patient, labels in mixed.items() if len(labels) > 1]
    if wrong:
        raise LabelError(
            f"{len(wrong)} patients have slides of several labels: {', '.join(wrong[:10])}; expected one label a "
            "patient at level patient. Use level slide, or correct the table."
        )


def fingerprint(cohort: Cohort) -> str:
    """Of what the labels and the features hold, without reading features."""
    rows = [[s.slide_id, s.patient_id, cohort.label_of(s), s.patches] for s in cohort.slides]
    rows.sort()
    text = json.dumps([cohort.classes, cohort.task, cohort.dim, rows])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def _cohort(source: CohortSpec) -> Cohort:
    return source.read()


@lru_cache(maxsize=1)
def _feed(
    source: CohortSpec, graph: GraphConfig | None, grid: int, level: str, shuffled: bool, memory_gb: float
) -> Feed:
    """Kept between the jobs of a process, so that slides are read and graphs built once."""
    return Feed(_cohort(source), graph, grid, memory_gb=memory_gb, level=level, shuffle=0 if shuffled else None)


def forget() -> None:
    """Let go of what is kept between jobs: the files may change before this process runs its next study."""
    _feed.cache_clear()
    _cohort.cache_clear()


def _check_whole(folder: Path, names: Sequence[str]) -> None:
    """Refuse to call a folder a finished job that lacks a file of one."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise StudyError(
            f"{folder}: {', '.join(missing)} vanished after being written; expected a folder that nothing else clears. "
            "Run again."
        )
