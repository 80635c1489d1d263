"""One model on all slides of a cohort, on disk, to be applied to new slides."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from ..cohort.cohort import Cohort
from ..cohort.splits import Fold
from ..errors import LabelError, StudyError
from ..files import writing_to
from ..nn.model import Model
from .checkpoint import CARD, save_model
from .feed import Feed
from .fit import Epoch, Progress
from .fold import fit_split, make_card
from .settings import Settings

OnEpoch = Callable[[Epoch], None]
Fit = Callable[[Feed, Fold, Settings, int, int, OnEpoch | None, Path | None], tuple[Model, Progress]]  # as `fit_split`


def train_model(
    cohort: Cohort,
    out: str | Path,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    memory_gb: float = 4.0,
    on_epoch: OnEpoch | None = None,
    fit: Fit = fit_split,
) -> Progress:
    """Train on all slides of a cohort and write the model to a folder; interrupted, it resumes when run again.

    memory_gb: for prepared slides. on_epoch: called after each epoch. fit: fits the model, by default in this process.

    Example: `train_model(Cohort.read("labels.csv", "features"), "model", Settings())`
    """
    out, settings = Path(out), settings or Settings()
    refuse_model(out)
    if settings.level == "patient":
        check_patients(cohort)
    graph = settings.graph if settings.needs_graph else None
    feed = Feed(cohort, graph, settings.model.raster, memory_gb=memory_gb, level=settings.level)
    everything = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
    state = out / f".training-{state_key(settings, seed, fingerprint(cohort))}.state"
    with writing_to(out):
        model, history = fit(feed, everything, settings, seed, 0, on_epoch, state)
        save_model(out, model, make_card(feed, model, settings, seed, history))
        state.unlink(missing_ok=True)
    return history


def refuse_model(out: Path) -> None:
    """Refuse a folder that holds a model already."""
    if (out / CARD).exists():
        raise StudyError(f"{out} holds a model already. Give another --out, or remove it.")


def check_patients(cohort: Cohort) -> None:
    """A patient can be one bag only if its slides have one label."""
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


def state_key(settings: Settings, seed: int, cohort: str) -> str:
    """A training resumes only under the settings and on the cohort it began with."""
    return hashlib.sha256(repr((sorted(settings.flat().items()), seed, cohort)).encode()).hexdigest()[:12]
