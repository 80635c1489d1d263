"""Fits of a cohort that are made once: each leaves a small file of test predictions, whole or not at all."""

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.splits import Fold
from jigsawmil.graph import GraphConfig
from jigsawmil.nn.batch import Batch
from jigsawmil.study.job import IDLE, fingerprint, predict_table
from jigsawmil.train.feed import Feed
from jigsawmil.train.fold import fit_split
from jigsawmil.train.settings import Settings

from .. import write
from .codex_data import part, patient_folds

INNER = 2  # folds of the training patients that a choice rests on


class Bench:
    """A cohort and the folder of its fits, one for each content of the cohort.

    Running again reads what is there and makes what is missing.
    """

    def __init__(self, cohort: Cohort, folder: Path) -> None:
        self.cohort, self.folder, self.made = cohort, folder / contents(cohort), 0
        self.name = fingerprint(cohort)
        self.feed = lru_cache(maxsize=4)(self._feed)

    def _feed(self, graph: GraphConfig | None, grid: int, level: str, shuffle: int | None) -> "WholeFeed":
        return WholeFeed(self.cohort, graph, grid, level=level, shuffle=shuffle)

    def fit(self, settings: Settings, fold: Fold, seed: int, number: int, shuffle: int | None = None) -> pd.DataFrame:
        """Test predictions, a row a bag: slide_id, patient_id, label, probability."""
        own = {key: value for key, value in settings.flat().items() if key not in IDLE}
        about = [self.name, own, fold.train, fold.test, seed, number, shuffle]
        path = self.folder / f"{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:20]}.csv"
        if not path.exists():
            graph = settings.graph if settings.needs_graph else None
            feed = self.feed(graph, settings.model.raster, settings.level, shuffle)
            model, _ = fit_split(feed, fold, settings, seed, number)
            table = predict_table(model, feed, feed.bags_of(fold.test), settings).table
            write(path, table.to_csv(index=False))
            self.made += 1
        text = {"slide_id": str, "patient_id": str, "label": str}
        return pd.read_csv(StringIO(path.read_text()), dtype=text)

    def inner_loss(self, settings: Settings, fold: Fold, seed: int) -> float:
        """Log loss of patients in cross-validation among the training patients of a fold; the test is never touched."""
        inner = patient_folds(part(self.cohort, fold), seed, INNER)
        found = pd.concat([self.fit(settings, one, seed, number) for number, one in enumerate(inner)])
        whole = found.groupby("patient_id").agg({"label": "first", "probability": "mean"})
        p = whole["probability"].clip(1e-7, 1 - 1e-7)
        return float(-np.log(np.where(whole["label"] == self.cohort.classes[-1], p, 1 - p)).mean())

    def choose(self, candidates: dict[str, Settings], fold: Fold, seed: int) -> str:
        """The name of the candidate with the smallest inner loss; the first where only one is given."""
        if len(candidates) == 1:
            return next(iter(candidates))
        return min(candidates, key=lambda name: self.inner_loss(candidates[name], fold, seed))

    def repeat(
        self, candidates: dict[str, Settings], repeat: int, folds: int, shuffle: int | None = None
    ) -> pd.DataFrame:
        """Out-of-fold predictions of every patient, each fold by the candidate that its own training patients chose."""
        found = []
        for number, fold in enumerate(patient_folds(self.cohort, repeat, folds)):
            chosen = self.choose(candidates, fold, repeat)
            table = self.fit(candidates[chosen], fold, repeat, number, shuffle)
            found.append(table.assign(fold=number, chosen=chosen))
        return pd.concat(found, ignore_index=True)


def contents(cohort: Cohort) -> str:
    """Of every feature and place: a fingerprint alone does not look into the bags."""
    digest = hashlib.sha256()
    for index in range(len(cohort)):
        bag = cohort.bag(index)
        digest.update(bag.features.contiguous().numpy().tobytes() + bag.coords.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


class WholeFeed(Feed):
    """Keeps whole bags: here a patient's images fit into memory many times over, and joining them takes a while."""

    def __init__(
        self, cohort: Cohort, graph: GraphConfig | None, grid: int, *, level: str, shuffle: int | None
    ) -> None:
        super().__init__(cohort, graph, grid, level=level, shuffle=shuffle)
        self._whole: dict[tuple[int, ...], Batch] = {}

    def batch(self, bags: Sequence[int]) -> Batch:
        key = tuple(bags)
        if key not in self._whole:
            self._whole[key] = super().batch(key)
        return self._whole[key]
