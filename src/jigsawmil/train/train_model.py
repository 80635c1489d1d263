"""One model on all slides of a cohort, on disk, to be applied to new slides."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, Protocol

from ..cohort.cohort import Cohort
from ..cohort.splits import Fold
from ..errors import LabelError, StudyError
from ..files import LOCK, alone_in, remove, writing_to
from ..nn.model import Model
from ..tasks import get_task
from .checkpoint import CARD, ModelCard, ensemble_of, load_model, save_model
from .choice import Choice
from .choosing import choose_settings
from .covariates import check_covariates
from .decision import Decision
from .ensemble import Ensemble, splits_of_members
from .feed import Feed, cohort_groups
from .fit import Epoch, Progress
from .fold import fit_split, make_card
from .identity import features_record, fingerprint
from .out_of_fold import Held, assess, predict_held_out
from .places import check_places
from .possible import check_models
from .settings import Settings
from .weights import learn_weights

OnEpoch = Callable[[Epoch], None]
ASKED = "asked"  # in a card: digest of the settings, seed, choice, slides, labels and features of the training


class Fit(Protocol):
    """`fit_split`, or what does the same in several processes."""

    def __call__(
        self, feed: Feed, split: Fold, settings: Settings, seed: int, fold: int, on_epoch: OnEpoch | None = None,
        state: Path | None = None, *, member: int | None = None,
    ) -> tuple[Model, Progress]: ...  # fmt: skip


def train_model(
    cohort: Cohort,
    out: str | Path,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    memory_gb: float = 4.0,
    on_epoch: OnEpoch | None = None,
    fit: Fit = fit_split,
    choice: Choice | None = None,
    on_choice: Callable[[Decision], None] = lambda decision: None,
) -> tuple[Progress, ...]:
    """Train on all slides of a cohort and write the model to a folder; interrupted, it resumes when run again.

    memory_gb: for prepared slides. on_epoch: called after each epoch. fit: fits a model, by default in this process.
    choice: settings that are chosen first, by cross-validation over the patients; on_choice: called with what was.
    Returns how the model, or each member of an ensemble, was trained; nothing if the folder holds this very model.

    Example: `train_model(Cohort.read("labels.csv", "features"), "model", Settings(members=5))`
    """
    out, settings = Path(out), settings or Settings()
    check_places(cohort, [settings])
    check_covariates(cohort, [settings])
    check_models(cohort, choice.candidates(settings).values() if choice is not None else [settings])
    if settings.level == "patient":
        check_patients(cohort)
    whole = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
    decision = None
    features = features_record(cohort)
    mark = f"{fingerprint(cohort)} {json.dumps(features)}"
    key = state_key(settings, seed, f"{mark} {choice}")
    asked = key if features else None  # features in memory may be others
    holds_model(out, asked)
    trained: list[Trained] = []
    with writing_to(out), alone_in(out, "another training is writing there"):
        if not holds_model(out, asked):  # of another training that has just ended
            if choice is not None:
                kept = out / f".choosing-{key}.json"
                decision = choose_settings(
                    cohort, whole, settings, choice, seed, memory_gb=memory_gb, on_epoch=on_epoch, fit=fit, kept=kept
                )
                settings = choice.candidates(settings)[decision.chosen]
                on_choice(decision)
            keys = [state_key(own, seed, mark, number) for number, own in enumerate(settings.each_member())]
            states = [out / f".training-{own}.state" for own in keys]
            trained = train_members(
                cohort,
                whole,
                settings,
                seed,
                memory_gb=memory_gb,
                on_epoch=on_epoch,
                fit=fit,
                states=states,
                choice=decision,
            )
            model, card = together(cohort, trained, settings)
            save_model(out, model, replace(card, training={**(card.training or {}), ASKED: asked}))
        for left in [*out.glob(".training-*.state"), *out.glob(".choosing-*.json"), out / LOCK]:  # of others, too
            remove(left)
    return tuple(one.progress for one in trained)


class Trained(NamedTuple):
    """A model, and what it predicted of the patients it held out if it is a member of an ensemble."""

    model: Model
    card: ModelCard
    progress: Progress
    held_out: Held


def together(cohort: Cohort, trained: Sequence[Trained], settings: Settings) -> tuple[Model | Ensemble, ModelCard]:
    """The single model, or the ensemble with its out-of-fold performance and the threshold that this fixes.

    settings: of all together.
    """
    held_out, task = [one.held_out for one in trained], get_task(cohort.task).of(cohort.classes)
    truth = {bag: cohort.labels[rows[0]] for bag, (_, rows) in enumerate(cohort_groups(cohort, settings.level))}
    weights = learn_weights(settings.each_member(), held_out, truth, task, len(cohort.classes))
    model, card = ensemble_of([(one.model, one.card) for one in trained], weights)
    if len(trained) == 1:
        return model, card
    figures, threshold = assess(cohort, settings.level, held_out, weights)
    training = {**(card.training or {}), "settings": settings.flat()}
    return model, replace(card, training=training, performance=figures, threshold=threshold)


def train_members(
    cohort: Cohort,
    split: Fold,
    settings: Settings,
    seed: int,
    *,
    memory_gb: float,
    on_epoch: OnEpoch | None = None,
    fit: Fit = fit_split,
    states: Sequence[Path] | None = None,
    choice: Decision | None = None,
) -> list[Trained]:
    """The single model, or each member of an ensemble, one after the other. states: files to resume each from.

    choice: how the settings were chosen."""
    each, splits = settings.each_member(), splits_of_members(cohort, split, settings, seed)
    feeds = lru_cache(maxsize=1)(partial(Feed, cohort))  # members of one graph share the prepared slides
    trained = []
    for number, own in enumerate(each):
        graph = own.graph if own.needs_graph else None
        feed = feeds(graph, own.model.raster, memory_gb=memory_gb, level=own.level)
        state, member = states[number] if states else None, number if len(each) > 1 else None
        model, progress = fit(feed, splits[number], own, seed, 0, on_epoch, state, member=member)
        card = make_card(feed, model, splits[number], own, seed, progress, choice)
        held = splits[number].val if member is not None else ()
        trained.append(Trained(model, card, progress, predict_held_out(model, feed, held, own) if held else {}))
    return trained


def holds_model(out: Path, asked: str | None) -> bool:
    """Whether a folder holds the model that is asked for; another one is refused, and one that cannot be used."""
    if not (out / CARD).exists():
        return False
    try:
        _, card = load_model(out)
    except StudyError as error:
        raise StudyError(
            f"{out} holds a model that cannot be used ({error}). Remove it, or give another --out."
        ) from error
    if asked is None or (card.training or {}).get(ASKED) != asked:
        raise StudyError(
            f"{out} holds a model already, of other settings, slides or features. Give another --out, or remove it."
        )
    return True


def check_patients(cohort: Cohort) -> None:
    """A patient can be one bag only if its slides have one label."""
    mixed: dict[str, set[str]] = {}
    for slide in cohort.slides:
        mixed.setdefault(slide.patient_id, set()).add(cohort.label_of(slide))
    wrong = [patient for patient, labels in mixed.items() if len(labels) > 1]
    if wrong:
        raise LabelError(
            f"{len(wrong)} patients have slides of several labels: {', '.join(wrong[:10])}; expected one label "
            "per patient at level patient. Use level slide, or correct the table."
        )


def state_key(settings: Settings, seed: int, cohort: str, member: int = 0) -> str:
    """A training resumes only under the settings and on the cohort it began with. member: of an ensemble."""
    return hashlib.sha256(repr((sorted(settings.flat().items()), seed, cohort, member)).encode()).hexdigest()[:12]
