"""`SlideClassifier`: one method as a scikit-learn estimator over bags."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..cohort.bag import Bag
from ..cohort.cohort import Cohort
from ..cohort.formats import read_bag
from ..cohort.splits import Fold
from ..errors import LabelError
from ..train.apply import apply_model
from ..train.checkpoint import load_model, save_model
from ..train.feed import Feed
from ..train.settings import Settings
from .run import fit_split, make_card


class SlideClassifier(ClassifierMixin, BaseEstimator):
    """Fit on bags (or paths of feature files) and one label each; predict on bags.

    Parameters are those of `Settings`; `positive` and `ordinal` those of `Cohort`; `seed` decides all randomness.
    Learned: `classes_` (the positive one last), `model_`, `card_`, `history_`.
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
        positive: str | None = None,
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
        cohort = Cohort.from_bags(_bags(X), y, patients, positive=self.positive, ordinal=self.ordinal)
        feed = Feed(cohort, settings.graph_config() if settings.needs_graph else None, settings.grid, memory_gb=1e3)
        split = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
        self.model_, progress = fit_split(feed, split, settings, self.seed, 0)
        self.card_ = make_card(feed, self.model_, settings, self.seed, progress)
        self.history_ = progress.epochs
        self.classes_ = np.array(cohort.classes)
        return self

    def predict_proba(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        """(bag, class), columns as `classes_`."""
        check_is_fitted(self)
        return np.stack([p.probabilities for p in apply_model(self.model_, self.card_, _bags(X), device=self.device)])

    def predict(self, X: Sequence[Bag | str | Path]) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X: Sequence[Bag | str | Path], y: Sequence[object], sample_weight: Any = None) -> float:
        """Accuracy, as for every scikit-learn classifier; labels are compared as text."""
        return float(np.average(self.predict(X) == np.array([str(v) for v in y]), weights=sample_weight))

    def attention(self, bag: Bag | str | Path) -> np.ndarray:
        """(patch,), in the order of the bag, summing to 1."""
        check_is_fitted(self)
        return next(iter(apply_model(self.model_, self.card_, _bags([bag]), device=self.device))).attention[0]

    def save(self, folder: str | Path) -> None:
        """Two files, safetensors and JSON, that `load` and `jigsawmil predict` read."""
        check_is_fitted(self)
        save_model(Path(folder), self.model_, self.card_)

    @classmethod
    def load(cls, folder: str | Path) -> "SlideClassifier":
        model, card = load_model(folder)
        known = cls._get_param_names()
        settings = (card.training or {}).get("settings", {})
        classifier = cls(**{name: value for name, value in settings.items() if name in known})
        classifier.model_, classifier.card_, classifier.classes_ = model, card, np.array(card.classes)
        return classifier

    def _settings(self) -> Settings:
        names = {field.name for field in fields(Settings)}
        return Settings(**{name: value for name, value in self.get_params().items() if name in names})


def _bags(items: Sequence[Bag | str | Path]) -> list[Bag]:
    if isinstance(items, Bag | str | Path):
        raise LabelError("expected a list of bags, found one. Write [bag].")
    return [item if isinstance(item, Bag) else read_bag(item) for item in items]
