"""`SlideClassifier`: one method as a scikit-learn estimator over bags."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..bags.bag import Bag
from ..bags.formats import read_bag
from ..cohort.cohort import Cohort
from ..cohort.splits import Fold
from ..config import settings_of
from ..errors import FeatureError, LabelError, StudyError
from ..nn.options import DEFAULT_METHOD, peek_method
from ..tasks import get_task, reading_options
from ..tasks.classes import ClassTask
from .apply import apply_model
from .checkpoint import load_model, save_model
from .places import check_places
from .presets import DEFAULT_PRESET, preset_method
from .settings import Settings, base_values
from .train_model import together, train_members

_SETTINGS = {
    setting.name: setting for setting in settings_of(Settings) if setting.name != "level"
}  # a bag is what it is


class SlideClassifier(ClassifierMixin, BaseEstimator):
    """Fit on bags (or paths of feature files) and one label each; predict on bags.

    Parameters are the settings (docs/settings.md) but for `level`; `positive`, `ordinal` and `task` those of `Cohort`;
    `seed` decides all randomness. `preset="paper"` sets those that are not given as the preset does. The method is by
    default the committee, an ensemble of 15 models; `SlideClassifier("graph-abmil+jigsaw")` is one.
    Learned: `classes_` (as given to `fit`, or text after `load`; the positive one last), `model_`, `card_`, `history_`.
    scikit-learn's own AUC takes the last class in sorted order for positive: leave `positive` out there.
    """

    def __init__(
        self,
        method: str | None = None,
        *,
        positive: str | int | None = None,
        ordinal: bool = False,
        task: str | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        preset = settings.pop("preset", DEFAULT_PRESET)
        method = preset_method(preset) if method is None else method
        settings = base_values(preset, method) | settings | {"method": method}
        given = {**settings, "positive": positive, "ordinal": ordinal, "task": task, "seed": seed}
        call = inspect.signature(type(self)).bind(**given)  # an unknown name is a TypeError
        call.apply_defaults()
        for name, value in call.arguments.items():
            setattr(self, name, value)

    def fit(
        self, X: Sequence[Bag | str | Path], y: Sequence[object], patients: Sequence[object] | None = None
    ) -> "SlideClassifier":
        """patients: keeps the slides of one on one side of the inner validation; read off TCGA barcodes by default."""
        settings = self._settings()
        settings.check_options()
        _check_labels(y, continuous=self.task is not None and not isinstance(get_task(self.task), ClassTask))
        positive = None if self.positive is None else str(self.positive)
        cohort = Cohort.from_bags(_bags(X), y, patients, positive=positive, ordinal=self.ordinal, task=self.task)
        check_places(cohort, [settings])
        whole = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
        trained = train_members(cohort, whole, settings, self.seed, memory_gb=1e3)
        self.model_, self.card_ = together(cohort, trained, settings)
        self.history_ = [epoch for one in trained for epoch in one.progress.epochs]
        given = {int(label): value for label, value in zip(cohort.labels, y, strict=True)}
        self.classes_ = np.array([given[label] for label in range(len(cohort.classes))])
        self.n_features_in_ = cohort.dim
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")  # by its name, for the parameter lambda_ looks learned

    def predict_proba(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag, class), columns as `classes_`."""
        check_is_fitted(self)
        return np.stack([p.probabilities for p in apply_model(self.model_, self.card_, _bags(X), device=self.device)])

    def predict_log_proba(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag, class), columns as `classes_`."""
        return np.log(np.clip(self.predict_proba(X), np.finfo(float).tiny, None))

    def predict(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """At the threshold that training fixed, see `card_.threshold`; without one, the most probable class."""
        probabilities = self.predict_proba(X)
        return self.classes_[get_task(self.card_.model.task).at(self.card_.threshold).decision(probabilities)]

    def score(self, X: Sequence[Bag | str | Path], y: Sequence[object], sample_weight: Any = None) -> float:
        """Accuracy, as for every scikit-learn classifier; labels are compared as text."""
        right = [str(found) == str(true) for found, true in zip(self.predict(X), y, strict=True)]
        return float(np.average(right, weights=sample_weight))

    def attention(self, bag: Bag | str | Path) -> np.ndarray:
        """(patch,), in the order of the bag, summing to 1."""
        check_is_fitted(self)
        return next(iter(apply_model(self.model_, self.card_, _bags([bag]), device=self.device))).attention[0]

    def save(self, folder: str | Path) -> None:
        """Weights (safetensors), card (JSON) and the table of training slides, as `load` and `predict` read them."""
        check_is_fitted(self)
        save_model(Path(folder), self.model_, self.card_)

    @classmethod
    def load(cls, folder: str | Path) -> "SlideClassifier":
        """As it was saved, but on any device there is here."""
        model, card = load_model(folder)
        if card.level != "slide":
            raise StudyError(
                f"{folder}: the model pools all slides of a {card.level}, a SlideClassifier takes one bag at a time. "
                "Apply it with `jigsawmil predict`."
            )
        training = card.training or {}
        settings = {name: value for name, value in training.get("settings", {}).items() if name != "device"}
        kinds = len(peek_method(settings.get("method", DEFAULT_METHOD)).members) or 1
        settings |= {"seed": training.get("seed", 0), "members": max(1, len(card.members) // kinds)}
        settings |= reading_options(card.model.task, card.classes)
        classifier = cls(**{name: value for name, value in settings.items() if name in cls._get_param_names()})
        classifier.model_, classifier.card_, classifier.classes_ = model, card, np.array(card.classes)
        classifier.n_features_in_ = card.model.in_dim
        return classifier

    def _settings(self) -> Settings:
        return Settings(**{name: getattr(self, name) for name in _SETTINGS})


def _signature() -> inspect.Signature:
    """What scikit-learn reads the parameters from: `self`, all settings, and those of `__init__` itself."""
    own = inspect.signature(SlideClassifier.__init__).parameters
    parameters = {name: own[name] for name in ("self", "method")}
    for name, setting in _SETTINGS.items():
        if name not in own:
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters[name] = inspect.Parameter(name, keyword, default=setting.default, annotation=setting.kind)
    rest = {name: parameter for name, parameter in own.items() if name != "settings" and name not in parameters}
    return inspect.Signature([*parameters.values(), *rest.values()])


SlideClassifier.__init__.__signature__ = _signature()  # type: ignore[attr-defined]


def _check_labels(y: Sequence[object], *, continuous: bool) -> None:
    """One label for each bag. continuous: measured values are what the task predicts."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise LabelError(
            f"y has the shape {labels.shape}, expected {labels.shape[:1]}: one label per bag. Use y.ravel()."
        )
    if labels.dtype.kind == "f" and not continuous and (fractions := labels[labels != np.floor(labels)]).size:
        raise LabelError(
            f"y is continuous ({fractions[0]:g}, ...), expected classes. Make classes of it, or choose a task that "
            "predicts measured values."
        )


def _bags(items: Sequence[Bag | str | Path]) -> list[Bag]:
    """Bags with a number in every cell; files are read."""
    if isinstance(items, Bag | str | Path):
        raise FeatureError("expected a list of bags, found one. Write [bag].")
    if len(items) == 0:
        raise FeatureError("found no bag, expected at least one.")
    return list(map(_bag, items))


def _bag(item: Bag | str | Path) -> Bag:
    if isinstance(item, str | Path):
        return read_bag(item)
    if not isinstance(item, Bag):
        raise FeatureError(
            f"expected bags, or paths of feature files; found {type(item).__name__}. Bag(slide_id=..., features=..., "
            "coords=...) makes one of a slide's features and coordinates."
        )
    if not bool(torch.isfinite(item.features).all()):  # files are checked as they are read
        raise FeatureError(f"{item.slide_id}: some features are NaN or Inf. Extract the slide again.")
    return item
