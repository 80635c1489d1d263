"""One job: fit one variant on one fold of one cohort, and leave a folder that is whole or not there."""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..cohort.cohort import Cohort
from ..cohort.splits import Fold
from ..errors import StudyError
from ..files import guarded, new_folder, remove, sweep
from ..graph import GraphConfig
from ..nn.model import Model
from ..tasks import get_task
from ..train.checkpoint import save_model
from ..train.decision import Decision, Inner
from ..train.feed import Feed
from ..train.fold import fit_split, make_card
from ..train.identity import features_changes, features_record, fingerprint
from ..train.infer import held_out_loss, run_model
from ..train.origin import origin
from ..train.progress import Epoch
from ..train.settings import Settings
from .attention import write_attention
from .records import JobRecord
from .run_folder import JobFolder
from .study import CohortSpec

LOGIT = "logit"  # column of a member's table, followed by the number of the logit
IDLE = ("device",)  # settings that do not change what a job means


@dataclass(frozen=True, kw_only=True)
class Job:
    """folder: where the results go. graph: what the slides are prepared with; None where no variant asks for one.
    settings: of one model. member: its number, if it belongs to an ensemble. choice: how its settings were chosen.
    inner: of a training by which settings are chosen: `split` then lies within the training patients of the fold."""

    cohort: str
    source: CohortSpec
    fingerprint: str  # of the cohort: slides, patients, labels, patches
    features: Mapping[str, Any] = field(default_factory=dict, repr=False)  # see `features_record`
    variant: str
    settings: Settings
    graph: GraphConfig | None
    fold: int
    split: Fold = field(repr=False)
    seed: int
    member: int | None = None
    choice: Decision | None = field(default=None, repr=False)
    inner: Inner | None = None
    shuffled: bool  # the control: places permuted within each slide
    attention: bool
    memory_gb: float
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.cohort} {self.variant} seed {self.seed} {self.part}" + " shuffled" * self.shuffled

    @property
    def part(self) -> str:
        """The fold, and which of its trainings this is."""
        if self.inner is not None:
            candidate, repeat, number = self.inner
            return f"fold {self.fold} try {candidate}, repeat {repeat}, inner fold {number}"
        return f"fold {self.fold}" + ("" if self.member is None else f" member {self.member}")

    @property
    def spec(self) -> dict[str, Any]:
        """What the results depend on; a folder with another one is never mixed in."""
        settings = {key: value for key, value in self.settings.flat().items() if key not in IDLE}
        split = {"train": list(self.split.train), "val": list(self.split.val), "test": list(self.split.test)}
        folds = hashlib.sha256(json.dumps(split).encode()).hexdigest()[:16]
        return {
            "cohort": self.fingerprint,
            **({"features": dict(self.features)} if self.features else {}),
            "folds": folds,
            "seed": self.seed,
            "shuffled": self.shuffled,
            **({} if self.member is None else {"member": self.member}),
            **({} if self.inner is None else {"inner": [self.fold, self.inner.repeat, self.inner.number]}),
            **settings,
        }

    @property
    def files(self) -> JobFolder:
        return JobFolder(self.folder)

    @property
    def done(self) -> bool:
        return self.files.done


class Worker:
    """Runs jobs one after the other. It keeps the last cohort and its prepared slides, so that consecutive jobs of a
    cohort read slides and build graphs once; a new study needs a new worker, since files may have changed."""

    def __init__(self) -> None:
        self._cohort: tuple[CohortSpec, Cohort] | None = None
        self._feed: tuple[tuple[object, ...], Feed] | None = None

    def feed(self, job: Job) -> Feed:
        key = (job.source, job.graph, job.settings.model.raster, job.settings.level, job.shuffled, job.memory_gb)
        if self._feed is None or self._feed[0] != key:
            self._feed = None  # its memory is free before the next one takes any
            shuffle = 0 if job.shuffled else None
            cohort, level = self._read(job.source), job.settings.level
            feed = Feed(
                cohort, job.graph, job.settings.model.raster, memory_gb=job.memory_gb, level=level, shuffle=shuffle
            )
            self._feed = (key, feed)
        return self._feed[1]

    def _read(self, source: CohortSpec) -> Cohort:
        if self._cohort is None or self._cohort[0] != source:
            self._cohort = (source, source.read())
        return self._cohort[1]


def run_job(job: Job, on_epoch: Callable[[Epoch], None] | None = None, worker: Worker | None = None) -> None:
    """Fit, predict the test fold, write. Resumable: a resumed job is bit-identical to an uninterrupted one.

    Two attempts at once, one of them on a node that was thought dead, do not disturb each other: the first that ends
    leaves the folder, and both succeed.
    """
    started, used = time.time(), time.process_time()
    feed = (worker or Worker()).feed(job)
    if fingerprint(feed.cohort) != job.fingerprint:
        raise StudyError(f"{job.source.labels}: the labels or features changed after the study started. Run again.")
    if job.features and (changes := features_changes(job.features, features_record(feed.cohort))):
        raise StudyError(
            f"{job.source.features}: features changed after the study started ({', '.join(changes)}). Run again once "
            "they no longer change."
        )
    if job.folder.exists() and any(job.folder.iterdir()):
        raise StudyError(f"{job.folder} is not empty; a job needs a new folder. Remove it and run again.")
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(job.folder)  # of a process that was killed
    key = hashlib.sha256(json.dumps(job.spec, sort_keys=True).encode()).hexdigest()[:12]
    state = job.files.state(key)
    seed, fold = (job.seed, job.fold) if job.inner is None else job.inner.draws(job.seed, job.fold)
    model, progress = fit_split(feed, job.split, job.settings, seed, fold, on_epoch, state, member=job.member)
    fitted = time.time()
    test = feed.bags_of(job.split.test)
    table, attention, losses = predict_table(model, feed, test, job.settings, scores=job.member is not None)
    try:
        with new_folder(job.folder) as folder:
            files = JobFolder(folder)
            guarded(table).to_csv(files.predictions, index=False)
            if job.member is not None and job.split.val:
                held = feed.bags_of(job.split.val)
                scores = predict_table(model, feed, held, job.settings, scores=True).table
                guarded(scores).to_csv(files.held_out, index=False)
            trace = pd.DataFrame([asdict(epoch) for epoch in progress.epochs])
            trace.assign(kept=trace["epoch"] == progress.best).to_csv(files.trace, index=False)
            if job.inner is None:
                card = make_card(feed, model, job.split, job.settings, job.seed, progress, job.choice)
                save_model(folder, model, card)
            if job.attention:
                write_attention(files.attention, attention)
            record = JobRecord(
                name=job.name,
                spec=job.spec,
                best_epoch=progress.best,
                seconds={
                    "fit": fitted - started,
                    "predict": time.time() - fitted,
                    "processor": time.process_time() - used,  # of all threads; waiting does not count
                    "epochs": len(progress.epochs),
                },
                peak_mb=peak_memory_mb(),
                variant=job.variant,
                fold=job.fold,
                member=job.member,
                choice=None if job.choice is None else job.choice.record(),
                scored=None if job.inner is None else _scored(table, feed, test, losses),
                origin=origin(),
            )
            record.write(files.record)
            if missing := files.missing(job.attention, model=job.inner is None):
                raise StudyError(
                    f"{folder}: {', '.join(missing)} missing after writing. Is another process deleting files here? "
                    "Run again."
                )
    except OSError:
        if not job.done:  # else another attempt was first, which is as good
            raise
    for left in job.folder.parent.glob(job.files.state("*").name):  # this one, and any of settings given up
        remove(left)


def peak_memory_mb() -> float | None:
    """The most memory that this process has held so far; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _scored(table: pd.DataFrame, feed: Feed, bags: list[int], losses: np.ndarray) -> dict[str, float]:
    """The validation loss and score of the task on the cases that were predicted."""
    cohort = feed.cohort
    task = get_task(cohort.task).of(cohort.classes)
    loss, score = task.validation(feed.labels[bags].numpy(), task.matrix(table, cohort.classes), losses)
    return {"loss": loss, "score": score}


class Predicted(NamedTuple):
    """table: one row per bag. attention: of every slide by its id, coordinates by `id/coords`. losses: (bag,)"""

    table: pd.DataFrame
    attention: dict[str, np.ndarray]
    losses: np.ndarray


def predict_table(model: Model, feed: Feed, bags: list[int], settings: Settings, *, scores: bool = False) -> Predicted:
    """scores: of an ensemble's members, which averages them; in columns LOGIT0, LOGIT1, ..."""
    cohort = feed.cohort
    task = get_task(cohort.task).of(cohort.classes)
    rows: list[dict[str, Any]] = []
    attention: dict[str, np.ndarray] = {}
    coords: dict[str, np.ndarray] = {}
    losses: list[float] = []
    device, precision = settings.train.device, settings.train.precision
    found = run_model(model, feed.prepared(bags, device), device=device, precision=precision)
    for bag, seen in zip(bags, found, strict=True):
        first = cohort.slides[feed.members[bag][0]]
        row: dict[str, Any] = {"slide_id": seen.name, "patient_id": first.patient_id, "label": cohort.label_of(first)}
        own = {f"{LOGIT}{i}": value for i, value in enumerate(seen.scores)} if scores else {}
        row |= task.truth(first.label, cohort.classes)
        rows.append({**row, **task.row(seen.probabilities, cohort.classes), **own})
        losses.append(held_out_loss(model, seen, feed.labels[bag : bag + 1]))
        attention |= zip(seen.batch.slide_ids, seen.attention, strict=True)
        coords |= {f"{slide}/coords": values for slide, values in zip(seen.batch.slide_ids, seen.coords, strict=True)}
    return Predicted(pd.DataFrame(rows), attention | coords, np.array(losses))
