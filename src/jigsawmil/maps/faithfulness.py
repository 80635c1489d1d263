"""Do the maps show what the model used? Patches are taken away, or given alone, in the order of a map.

Deletion: the strongest patches are removed first; if the map is right, the probability of the class that the whole
was given falls sooner than with patches removed at random. Insertion: only the strongest are given; it should rise
sooner. Removing is real: the bag is rebuilt without the patches, and so is its graph, whose edges then reach further.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.integrate import trapezoid
from scipy.stats import t as student

from ..bags.bag import Bag
from ..nn.model import Model
from ..tasks import get_task
from ..train.apply import apply_groups
from ..train.checkpoint import ModelCard
from ..train.ensemble import Ensemble
from .patch_maps import Floats, PatchMaps, explain_patient
from .values import attends

SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)  # of patches removed or given; as many below a half as above
RANDOM = "random"
ORDERS = 3  # random orders a slide, averaged
LEAST = 0.005  # of a gain in probability; a smaller one says nothing of a model, however narrow its interval


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Of one slide (or patient): probability of the predicted class, by ranking and `random`.

    deletion: at 0 and SHARES removed. insertion: at SHARES and 1 given.
    """

    name: str
    patches: int
    deletion: dict[str, Floats]
    insertion: dict[str, Floats]

    def areas(self, kind: str) -> dict[str, float]:
        """Mean height of each curve, in [0, 1]."""
        x = np.array([0, *SHARES] if kind == "deletion" else [*SHARES, 1])
        curves = self.deletion if kind == "deletion" else self.insertion
        return {ranking: float(trapezoid(curve, x) / (x[-1] - x[0])) for ranking, curve in curves.items()}


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Areas averaged over slides, and how far the ranking is better than random: mean and 95 % interval of the paired
    differences (Student's, over slides). Positive is better, for deletion and insertion alike."""

    area: float
    random: float
    gain: float
    low: float
    high: float

    @property
    def better(self) -> bool:
        return self.low > 0 and self.gain >= LEAST

    @property
    def worse(self) -> bool:
        return self.high < 0 and self.gain <= -LEAST


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Of one map of one model. The rule: trusted where both intervals lie above 0, and both gains reach `LEAST`."""

    ranking: str  # attention, evidence or attribution
    slides: int
    deletion: Gain
    insertion: Gain

    @property
    def trusted(self) -> bool:
        return self.deletion.better and self.insertion.better

    @property
    def misleads(self) -> bool:
        return self.deletion.worse or self.insertion.worse


def curves_of(
    model: Model | Ensemble,
    card: ModelCard,
    name: str,
    bags: Sequence[Bag],
    rng: np.random.Generator,
    *,
    device: str = "auto",
    attribution: bool = False,
    target: str | None = None,
) -> Curves:
    """Deletion and insertion curves of one slide, for every map of it and for random orders of its patches.

    bags: the slide, or all slides of the patient if the model pools patients. rng: draws the random orders.
    attribution: also of the map of input attribution. target: which one, of several.

    Example: `curves_of(model, card, "slide_1", [bag], np.random.default_rng(0))`
    """
    found = explain_patient(model, card, name, bags, device=device, neighbours=False, attribution=attribution)
    maps = [own.of_target(target) for own in found]
    scores = rankings(maps)
    total = sum(map(len, bags))
    counts = [min(max(round(share * total), 1), total) for share in SHARES]
    orders = [np.argsort(-score, kind="stable") for score in scores.values()]
    chance = [rng.permutation(total) for _ in range(ORDERS)]
    kept = [order[:count] for order in [*orders, *chance] for count in counts]  # given alone
    kept += [order[total - count :] for order in orders for count in counts]  # left when the others are removed
    index = maps[0].classes.index(maps[0].prediction)
    asked = get_task(card.model.task).find_target(card.classes, target)
    p = asked.probabilities(_probabilities(model, card, bags, kept, device))
    p = p[:, index].reshape(-1, len(SHARES))
    whole, n = maps[0].probabilities[index], len(orders)
    given, alone, left = p[:n], p[n : n + ORDERS].mean(axis=0), p[n + ORDERS :]
    insertion = {name: np.append(row, whole) for name, row in zip(scores, given, strict=True)}
    deletion = {name: np.append(row, whole)[::-1] for name, row in zip(scores, left, strict=True)}
    # a random share that is left is a random share that is given
    insertion[RANDOM] = np.append(alone, whole)
    deletion[RANDOM] = insertion[RANDOM][::-1]
    return Curves(name=name, patches=total, deletion=deletion, insertion=insertion)


def rankings(maps: Sequence[PatchMaps]) -> dict[str, Floats]:
    """Scores of all patches of a bag, as far as the maps have them: attention, unless all patches have the same while
    another map ranks them, and evidence and input attribution for the class it was given."""
    scores = {"attention": np.concatenate([part.attention for part in maps])}
    if maps[0].evidence is not None:
        scores["evidence"] = np.concatenate([part.evidence_for(part.prediction) for part in maps])
    if maps[0].attribution is not None:
        scores["attribution"] = np.concatenate([part.attribution_for(part.prediction) for part in maps])
    if len(scores) > 1 and not attends(scores["attention"]):
        del scores["attention"]
    return scores


def judge(curves: Sequence[Curves]) -> list[Verdict]:
    """A verdict for every ranking, over the slides.

    Example: `judge([curves_of(model, card, bag.slide_id, [bag], rng) for bag in bags])`
    """
    verdicts = []
    for ranking in curves[0].insertion:
        if ranking != RANDOM:
            gains = {kind: _gain(curves, kind, ranking) for kind in ("deletion", "insertion")}
            verdicts.append(Verdict(ranking=ranking, slides=len(curves), **gains))
    return verdicts


def faithfulness(curves: Sequence[Curves]) -> dict[str, Any]:
    """What a report needs, as JSON holds it: verdicts and the mean curves."""
    verdicts = judge(curves)
    mean = {
        kind: {
            ranking: np.mean([getattr(one, kind)[ranking] for one in curves], axis=0).tolist()
            for ranking in getattr(curves[0], kind)
        }
        for kind in ("deletion", "insertion")
    }
    return {
        "rule": "trusted where the 95 % intervals (Student, paired over slides) of both gains over random lie above 0, "
        f"and both gains are at least {LEAST:g}",
        "slides": [one.name for one in curves],
        "random_orders": ORDERS,
        "verdicts": {v.ranking: {**asdict(v), "trusted": v.trusted} for v in verdicts},
        "curves": {
            "deletion": {"removed": [0, *SHARES], **mean["deletion"]},
            "insertion": {"given": [*SHARES, 1], **mean["insertion"]},
        },
    }


def _gain(curves: Sequence[Curves], kind: str, ranking: str) -> Gain:
    areas = np.array([[one.areas(kind)[ranking], one.areas(kind)[RANDOM]] for one in curves])
    gains = (areas[:, 1] - areas[:, 0]) * (1 if kind == "deletion" else -1)
    n, mean = len(gains), float(gains.mean())
    half = float(student.ppf(0.975, n - 1) * gains.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
    area, random = areas.mean(axis=0).tolist()
    return Gain(area=area, random=random, gain=mean, low=mean - half, high=mean + half)


def _probabilities(
    model: Model | Ensemble, card: ModelCard, bags: Sequence[Bag], kept: Sequence[np.ndarray], device: str
) -> Floats:
    """(subset, class): each subset of the patches as a bag of its own; indices run through all slides of the bag."""
    starts = np.cumsum([0, *map(len, bags)])

    def rest(indices: np.ndarray) -> list[Bag]:
        inside = [indices[(indices >= a) & (indices < b)] - a for a, b in pairwise(starts)]
        return [_part(bag, own) for bag, own in zip(bags, inside, strict=True) if len(own)]

    groups = ((bags[0].slide_id, rest(indices)) for indices in kept)  # graphs are built ahead, in a thread
    return np.stack([seen.probabilities for seen in apply_groups(model, card, groups, device=device)])


def _part(bag: Bag, indices: np.ndarray) -> Bag:
    rows = torch.from_numpy(np.sort(indices))
    return dataclasses.replace(bag, features=bag.features[rows], coords=bag.coords[rows])
