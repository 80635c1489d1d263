"""What the viewer shows, without a word about pages: the table of slides, maps on demand, the arrays of a pane."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..bags.bag import Bag
from ..bags.formats import find_bags
from ..bags.names import slide_name
from ..bags.spacing import spacing
from ..errors import FeatureError, StudyError
from ..maps.geometry import check_slide, squares_of
from ..maps.patch_maps import PatchMaps
from ..maps.values import percentiles
from ..slides.slide import Slide
from ..study.cases import run_maps
from ..study.run import Run
from ..train.ensemble import SPREAD
from .slides import SlideFolder

Floats = NDArray[np.floating[Any]]
KEPT = 12  # maps; those of 50,000 patches with 50 neighbours take some 40 MB


class Key(NamedTuple):
    """Which map: a slide as the model saw it that never saw the slide in training."""

    cohort: str
    slide_id: str
    variant: str
    seed: int


@dataclass(frozen=True)
class Placement:
    """Where patches are drawn. coords: top-left corners, level-0 pixels (the bag's own unit where there is no slide).
    cell: edge of what is drawn of a patch, in its middle; smaller than `edge` where patches overlap."""

    coords: Floats  # (patch, 2)
    edge: float
    cell: float
    scale: float  # level-0 pixels a unit of the bag's coordinates


class Library:
    """A run with what is shown of it; shared by all pages, and safe to share between threads.

    attribution: compute that of the input patches with the other maps; it takes most of the time.
    """

    def __init__(
        self, run: Run, slides: Path | None = None, features: Path | None = None, *, attribution: bool = False
    ) -> None:
        if not run.jobs or run.predictions.empty:
            raise StudyError(
                f"{run.folder}: no job has finished, so there is nothing to show. Run the study to its end."
            )
        self.run = run if features is None else features_in(run, features)
        self.slides = None if slides is None else SlideFolder(slides)
        if not any(Path(path).exists() for path in self.run.slides["features"]):
            first = self.run.slides["features"].iloc[0]
            raise FeatureError(
                f"{run.folder}: none of its {len(run.slides)} feature files is where the study read it; looked for "
                f"{first} and others. Give their new folder with --features DIR."
            )
        self.attribution = attribution
        self._maps: OrderedDict[Key, PatchMaps] = OrderedDict()
        self._lock = threading.Lock()

    def table(self, cohort: str, variant: str, seed: int) -> pd.DataFrame:
        """slide_id, patient_id, label (for people), predicted, p (what is predicted, of classes the probability),
        spread (of an ensemble's members, else NaN), right (None if no class is predicted); one row per slide of the
        cohort.

        A slide that no finished job has tested has the prediction "" and p NaN.
        """
        run, classes = self.run, self.run.classes[cohort]
        table = run.slides[run.slides["cohort"] == cohort][["slide_id", "patient_id", "label"]].reset_index(drop=True)
        found = run.predictions
        found = found[(found["cohort"] == cohort) & (found["variant"] == variant) & (found["seed"] == seed)]
        task = run.deciding(cohort)
        p = task.matrix(found, classes)
        called = [task.called(own) for own in p]
        spread = found[SPREAD] if SPREAD in found else [np.nan] * len(found)
        rows = zip(found["slide_id"], called, p, spread, strict=True)
        best = {case: (task.brief(own, classes), float(own[i]), float(spread)) for case, i, own, spread in rows}
        cases = [best.get(case, ("", np.nan, np.nan)) for case in table[f"{run.level}_id"]]
        table["predicted"], table["p"], table["spread"] = (list(values) for values in zip(*cases, strict=True))
        right = table["predicted"] == table["label"]
        words = [task.label_words(str(label)) for label in table["label"]]
        return table.assign(label=words, right=right if task.of_classes else None)

    def maps(self, key: Key) -> PatchMaps:
        """Computed where they are not kept; features are let go of."""
        with self._lock:
            if key in self._maps:
                self._maps.move_to_end(key)
                return self._maps[key]
        which: dict[str, Any] = {"variant": key.variant, "cohort": key.cohort, "seed": key.seed}
        maps = run_maps(self.run, key.slide_id, **which, attribution=self.attribution)
        empty = torch.empty((len(maps), 0))
        maps = replace(maps, bag=replace(maps.bag, features=empty))
        with self._lock:
            self._maps[key] = maps
            while len(self._maps) > KEPT:
                self._maps.popitem(last=False)
        return maps


def features_in(run: Run, folder: Path) -> Run:
    """The run with its features in another folder."""
    found = {slide_name(stem): path for stem, path in find_bags(folder).items()}
    missing = [slide_id for slide_id in run.slides["slide_id"] if slide_id not in found]
    if len(missing) == len(run.slides):
        raise FeatureError(
            f"{folder}: none of its {len(found)} feature files is of a slide of {run.folder}; expected "
            f"{', '.join(missing[:3])}, ... Give the folder of the features that the study was run on."
        )
    elsewhere = [str(found.get(slide_id, folder / slide_id)) for slide_id in run.slides["slide_id"]]
    return replace(run, slides=run.slides.assign(features=elsewhere, digest=""))  # the user says which they are


def place(bag: Bag, slide: Slide | None, features: Path | None = None) -> Placement:
    """Patches on the slide, or on their own. A slide that cannot be that of the features is an error."""
    own = squares_of(bag)
    squares = own if slide is None else check_slide(bag, slide, features)
    return Placement(
        coords=squares.corners,
        edge=squares.edge,
        cell=min(squares.edge, spacing(squares.corners)),
        scale=squares.edge / own.edge,
    )


def columns(maps: PatchMaps, placement: Placement) -> dict[str, NDArray[np.float32]]:
    """What a pane draws and says, a value a patch. Ranks are percentiles / 100; evidence and attribution are ranked by
    their size."""
    evidence, attribution = evidence_of(maps), attribution_of(maps)
    shift = shifts(maps) * placement.scale
    values = {
        "x": placement.coords[:, 0],
        "y": placement.coords[:, 1],
        "attention": maps.attention,
        "attention_rank": percentiles(maps.attention) / 100,
        "evidence": evidence,
        "evidence_rank": percentiles(np.abs(evidence)) / 100,
        "attribution": attribution,
        "attribution_rank": percentiles(np.abs(attribution)) / 100,
        "shift": shift,
        "shift_rank": percentiles(shift) / 100,
    }
    return {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in values.items()}


def evidence_of(maps: PatchMaps) -> Floats:
    """(patch,): for the shown class; 0 if the model has none."""
    return np.zeros(len(maps)) if maps.evidence is None else maps.evidence_for()


def attribution_of(maps: PatchMaps) -> Floats:
    """(patch,): for the shown class; 0 unless it was asked for."""
    return np.zeros(len(maps)) if maps.attribution is None else maps.attribution_for()


def shifts(maps: PatchMaps) -> Floats:
    """(patch,): how far from its place the jigsaw puts a patch, in the unit of its coordinates; 0 without a jigsaw."""
    if maps.jigsaw is None:
        return np.zeros(len(maps))
    return np.hypot(*(maps.jigsaw - maps.coords).T)
