"""One method as a scikit-learn estimator over bags: `SlideClassifier`, `SlideRegressor` and `SlideSurvival`.

`SlideMultilabel` is in `multilabel.py`.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..bags.bag import Bag
from ..bags.formats import read_bag
from ..cohort.cohort import Cohort
from ..cohort.splits import Fold
from ..config import settings_of
from ..errors import FeatureError, LabelError, StudyError
from ..nn.options import DEFAULT_METHOD, peek_method
from ..tasks import OUTCOME, VALUE, Task, get_task, reading_options
from .apply import apply_model
from .checkpoint import load_model, save_model
from .covariates import check_covariates
from .places import check_places
from .possible import check_models
from .presets import DEFAULT_PRESET, preset_method
from .settings import Settings, base_values, settings_doc
from .train_model import together, train_members

_SETTINGS = {
    setting.name: setting for setting in settings_of(Settings) if setting.name != "level"
}  # a bag is what it is


Estimator = TypeVar("Estimator", bound="SlideEstimator")


class SlideEstimator(BaseEstimator):
    """What the estimators have in common; they differ in what they predict."""

    def _store(self, method: str | None, settings: dict[str, Any], **own: Any) -> None:
        """The parameters, as they were given; those that were not, as the preset has them."""
        preset = settings.pop("preset", DEFAULT_PRESET)
        method = preset_method(preset) if method is None else method
        given = {**base_values(preset, method), **settings, "method": method, **own}
        call = inspect.signature(type(self)).bind(**given)  # an unknown name is a TypeError
        call.apply_defaults()
        for name, value in call.arguments.items():
            setattr(self, name, value)

    def _fit(self, cohort: Cohort) -> None:
        """Learn `model_`, `card_` and `history_`."""
        settings = self._settings()
        settings.check_options()
        check_places(cohort, [settings])
        check_covariates(cohort, [settings])
        check_models(cohort, [settings])
        whole = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
        trained = train_members(cohort, whole, settings, self.seed, memory_gb=1e3)
        self.model_, self.card_ = together(cohort, trained, settings)
        self.history_ = [epoch for one in trained for epoch in one.progress.epochs]
        self.n_features_in_ = cohort.dim

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")  # by its name, for the parameter lambda_ looks learned

    def _answers(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag, output)"""
        check_is_fitted(self)
        return np.stack([p.probabilities for p in apply_model(self.model_, self.card_, as_bags(X), device=self.device)])

    def attention(self, bag: Bag | str | Path) -> np.ndarray:
        """(patch,), in the order of the bag, summing to 1."""
        check_is_fitted(self)
        return next(iter(apply_model(self.model_, self.card_, as_bags([bag]), device=self.device))).attention[0]

    def save(self, folder: str | Path) -> None:
        """Weights (safetensors), card (JSON) and the table of training slides, as `load` and `predict` read them."""
        check_is_fitted(self)
        save_model(Path(folder), self.model_, self.card_)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """As it was saved, but on any device there is here."""
        model, card = load_model(folder)
        if card.level != "slide":
            raise StudyError(
                f"{folder}: the model pools all slides of a {card.level}, a {cls.__name__} takes one bag at a time. "
                "Apply it with `jigsawmil predict`."
            )
        cls._check_task(get_task(card.model.task), str(folder))
        training = card.training or {}
        settings = {name: value for name, value in training.get("settings", {}).items() if name != "device"}
        kinds = len(peek_method(settings.get("method", DEFAULT_METHOD)).members) or 1
        settings |= {"seed": training.get("seed", 0), "members": max(1, len(card.members) // kinds)}
        settings |= reading_options(card.model.task, card.classes)
        found = cls(**{name: value for name, value in settings.items() if name in cls._get_param_names()})
        found.model_, found.card_, found.n_features_in_ = model, card, card.model.in_dim
        return found

    @classmethod
    def _check_task(cls, task: Task, where: str) -> None:
        """Refuse a model of a task that this estimator is not about."""

    def _settings(self) -> Settings:
        return Settings(**{name: getattr(self, name) for name in _SETTINGS})


def with_settings(estimator: type[Estimator]) -> type[Estimator]:
    """The class with all settings in its help and in the signature of its `__init__`."""
    estimator.__doc__ = inspect.cleandoc(estimator.__doc__ or "") + settings_doc("level")
    setattr(estimator.__init__, "__signature__", _signature(estimator))  # noqa: B010 (functions are not known to have it)
    return estimator


def _signature(estimator: type[SlideEstimator]) -> inspect.Signature:
    """What scikit-learn reads the parameters from: `self`, all settings, and those of `__init__` itself."""
    own = inspect.signature(estimator.__init__).parameters
    parameters = {name: own[name] for name in ("self", "method")}
    for name, setting in _SETTINGS.items():
        if name not in own:
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters[name] = inspect.Parameter(name, keyword, default=setting.default, annotation=setting.kind)
    rest = {name: parameter for name, parameter in own.items() if name != "settings" and name not in parameters}
    return inspect.Signature([*parameters.values(), *rest.values()])


@with_settings
class SlideClassifier(ClassifierMixin, SlideEstimator):
    """Fit on bags (or paths of feature files) and one label each; predict on bags.

    Parameters are the settings below; `positive`, `ordinal` and `task` are those of `Cohort`; `seed` decides all
    randomness. `preset="paper"` sets those that are not given as the preset does. The method is by
    default the committee, an ensemble of 15 models; `SlideClassifier("graph-abmil+jigsaw")` is one.
    Learned: `classes_` (as given to `fit`, or text after `load`; the positive one last), `model_`, `card_`, `history_`.
    scikit-learn's own AUROC takes the last class in sorted order for positive: leave `positive` out there.
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
        self._store(method, settings, positive=positive, ordinal=ordinal, task=task, seed=seed)

    def fit(
        self, X: Sequence[Bag | str | Path], y: Sequence[object], patients: Sequence[object] | None = None
    ) -> "SlideClassifier":
        """patients: keeps the slides of one on one side of the inner validation; read off TCGA barcodes by default."""
        self._settings().check_options()
        if self.task is not None:
            self._check_task(get_task(self.task), "task")
        _check_labels(y)
        positive = None if self.positive is None else str(self.positive)
        cohort = Cohort.from_bags(as_bags(X), y, patients, positive=positive, ordinal=self.ordinal, task=self.task)
        self._fit(cohort)
        given = {int(label): value for label, value in zip(cohort.labels, y, strict=True)}
        self.classes_ = np.array([given[label] for label in range(len(cohort.classes))])
        return self

    def predict_proba(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag, class), columns as `classes_`."""
        return self._answers(X)

    def decision_function(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag,) log-odds of the positive class; (bag, class) log-probabilities beyond two classes."""
        found = self.predict_log_proba(X)
        return found[:, 1] - found[:, 0] if found.shape[1] == 2 else found

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

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """As it was saved, but on any device there is here."""
        classifier = super().load(folder)
        classifier.classes_ = np.array(classifier.card_.classes)
        return classifier

    @classmethod
    def _check_task(cls, task: Task, where: str) -> None:
        require_task(task.of_classes, task, "classes", where)


@with_settings
class SlideRegressor(RegressorMixin, SlideEstimator):
    """Fit on bags (or paths of feature files) and one number each; predict numbers. `score` is R squared.

    Parameters are the settings below, and `seed`; learned as in `SlideClassifier`.
    """

    def __init__(self, method: str | None = None, *, seed: int = 0, **settings: Any) -> None:
        self._store(method, settings, seed=seed)

    def fit(
        self, X: Sequence[Bag | str | Path], y: Sequence[object], patients: Sequence[object] | None = None
    ) -> "SlideRegressor":
        """patients: keeps the slides of one on one side of the inner validation; read off TCGA barcodes by default."""
        _check_flat(np.asarray(y))
        self._fit(Cohort.from_bags(as_bags(X), y, patients, task=VALUE))
        return self

    def predict(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag,), in the unit of the target."""
        return self._answers(X)[:, 0]

    @classmethod
    def _check_task(cls, task: Task, where: str) -> None:
        require_task(task is get_task(VALUE), task, "a measured value", where)


@with_settings
class SlideSurvival(SlideEstimator):
    """Fit on bags (or paths of feature files) and their times and events; predict risks and curves.

    y: pairs of time and event, or the structured array of scikit-survival. Parameters are the settings below
    (`loss="cox"` for Cox's likelihood), and `seed`. Learned: as in `SlideClassifier`, and `unique_times_`, the horizons
    of the curves.
    """

    def __init__(self, method: str | None = None, *, seed: int = 0, **settings: Any) -> None:
        self._store(method, settings, seed=seed)

    def fit(
        self, X: Sequence[Bag | str | Path], y: Sequence[object], patients: Sequence[object] | None = None
    ) -> "SlideSurvival":
        """patients: keeps the slides of one on one side of the inner validation; read off TCGA barcodes by default."""
        self._fit(Cohort.from_bags(as_bags(X), y, patients, task=OUTCOME))
        return self

    @property
    def unique_times_(self) -> np.ndarray:
        """(horizon,)"""
        check_is_fitted(self)
        return np.array([float(name) for name in self.card_.classes[1:]])

    def predict(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag,): the higher, the earlier the event."""
        return self._answers(X)[:, 0]

    def predict_survival(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag, horizon): the probability of no event by each of `unique_times_`."""
        return self._answers(X)[:, 1:]

    def score(self, X: Sequence[Bag | str | Path], y: Sequence[object]) -> float:
        """Harrell's C."""
        task = get_task(OUTCOME)
        return task.area(task.values_of([task.text_of(own) for own in y], ()), self._answers(X))

    @classmethod
    def _check_task(cls, task: Task, where: str) -> None:
        require_task(task is get_task(OUTCOME), task, "time to an event", where)


def require_task(fits: bool, task: Task, wanted: str, where: str) -> None:
    if not fits:
        raise StudyError(
            f"{where}: the model is of the task {task.name}, expected one that predicts {wanted}. Load it with "
            "SlideClassifier, SlideRegressor, SlideSurvival or SlideMultilabel, whichever is of that task."
        )


def _check_labels(y: Sequence[object]) -> None:
    """One class for each bag."""
    labels = np.asarray(y)
    _check_flat(labels)
    check_classes("y", labels)


def check_classes(name: str, labels: np.ndarray) -> None:
    """Refuse measured values; NaN is a missing label."""
    if labels.dtype.kind == "f" and (fractions := labels[np.isfinite(labels) & (labels != np.floor(labels))]).size:
        raise LabelError(
            f"{name} is continuous ({fractions[0]:g}, ...), expected classes. Make classes of it, or use "
            "SlideRegressor, which predicts measured values."
        )


def _check_flat(y: np.ndarray) -> None:
    if y.ndim != 1:
        raise LabelError(f"y has the shape {y.shape}, expected {y.shape[:1]}: one value per bag. Use y.ravel().")


def as_bags(items: Sequence[Bag | str | Path]) -> list[Bag]:
    """Bags with a number in every cell; files are read."""
    if isinstance(items, Bag | str | Path):
        raise FeatureError("expected a list of bags, found a single one. Write [bag].")
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
