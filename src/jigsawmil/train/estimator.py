"""`SlideClassifier`: one method as a scikit-learn estimator over bags."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..bags.bag import Bag
from ..bags.formats import read_bag
from ..cohort.cohort import Cohort
from ..cohort.labels import sort_classes
from ..cohort.splits import Fold
from ..errors import FeatureError, StudyError
from .apply import apply_model
from .checkpoint import load_model, save_model
from .feed import Feed
from .fold import fit_split, make_card
from .settings import Settings


class SlideClassifier(ClassifierMixin, BaseEstimator):
    """Fit on bags (or paths of feature files) and one label each; predict on bags.

    Parameters are those of `Settings`; `positive` and `ordinal` those of `Cohort`; `seed` decides all randomness.
    Learned: `classes_` (as given to `fit`, or text after `load`; the positive one last), `model_`, `card_`, `history_`.
    scikit-learn's own AUC takes the last class in sorted order for positive: leave `positive` out there.
    """

    def __init__(
        self,
        method: str = "graph-abmil+jigsaw",
        *,
        graph: str = "knn",
        k: int = 50,
        radius: float = 500.0,
        sigma: str | float = "max-knn",
        conv: str = "gat",
        hidden: int = 256,
        layers: int = 2,
        heads: int = 1,
        attention_dim: int = 128,
        gated: bool = False,
        dropout: float = 0.0,
        jigsaw: str = "position",
        grid: int = 10,
        share: float = 0.9,
        kinds: int = 0,
        lambda_: str | float = "em",
        lambda_a: float = 1.0,
        lambda_b: float = 1.0,
        lambda_every: int = 1,
        epochs: int = 50,
        patience: int = 10,
        validation: float = 0.2,
        margin: float = 0.01,
        lr: float = 1e-4,
        weight_decay: float = 1e-5,
        batch_size: int = 1,
        clip: float = 5.0,
        class_weights: bool = False,
        device: str = "auto",
        precision: str = "float32",
        positive: str | int | None = None,
        ordinal: bool = False,
        seed: int = 0,
    ) -> None:
        arguments = locals()
        for name in self._get_param_names():
            setattr(self, name, arguments[name])

    def fit(
        self, X: Sequence[Bag | str | Path], y: Sequence[object], patients: Sequence[object] | None = None
    ) -> "SlideClassifier":
        """patients: keeps the slides of one on one side of the inner validation; read off TCGA barcodes by default."""
        settings = self._settings()
        positive = None if self.positive is None else str(self.positive)
        cohort = Cohort.from_bags(_bags(X), y, patients, positive=positive, ordinal=self.ordinal)
        feed = Feed(cohort, settings.graph_config() if settings.needs_graph else None, settings.grid, memory_gb=1e3)
        split = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
        self.model_, progress = fit_split(feed, split, settings, self.seed, 0)
        self.card_ = make_card(feed, self.model_, settings, self.seed, progress)
        self.history_ = progress.epochs
        given = {int(label): value for label, value in zip(cohort.labels, y, strict=True)}
        self.classes_ = np.array([given[label] for label in range(len(cohort.classes))])
        return self

    def predict_proba(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag, class), columns as `classes_`."""
        check_is_fitted(self, "model_")  # by its name, for the parameter lambda_ looks learned
        return np.stack([p.probabilities for p in apply_model(self.model_, self.card_, _bags(X), device=self.device)])

    def predict(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    def score(self, X: Sequence[Bag | str | Path], y: Sequence[object], sample_weight: Any = None) -> float:
        """Accuracy, as for every scikit-learn classifier; labels are compared as text."""
        right = [str(found) == str(true) for found, true in zip(self.predict(X), y, strict=True)]
        return float(np.average(right, weights=sample_weight))

    def attention(self, bag: Bag | str | Path) -> np.ndarray:
        """(patch,), in the order of the bag, summing to 1."""
        check_is_fitted(self, "model_")
        return next(iter(apply_model(self.model_, self.card_, _bags([bag]), device=self.device))).attention[0]

    def save(self, folder: str | Path) -> None:
        """Two files, safetensors and JSON, that `load` and `jigsawmil predict` read."""
        check_is_fitted(self, "model_")
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
        training, classes = card.training or {}, list(card.classes)
        settings = {name: value for name, value in training.get("settings", {}).items() if name != "device"}
        settings["seed"] = training.get("seed", 0)
        settings["ordinal"] = card.model.task == "ordinal"
        settings["positive"] = None if classes == sort_classes(classes) else classes[-1]
        classifier = cls(**{name: value for name, value in settings.items() if name in cls._get_param_names()})
        classifier.model_, classifier.card_, classifier.classes_ = model, card, np.array(card.classes)
        return classifier

    def _settings(self) -> Settings:
        names = {field.name for field in fields(Settings)}
        return Settings(**{name: value for name, value in self.get_params().items() if name in names})


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
