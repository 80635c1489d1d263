"""What a study will cost, before it runs: trainings, processor time, disk."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..nn.options import peek_method
from .patches import cohort_patches, standin_patches
from .study import Study

if TYPE_CHECKING:
    from ..bags.counts import PatchStatistics

# Processor seconds per patch and epoch of one core, measured as docs/studies.md says: 1,024 columns, 3,278 patches
WITH_GRAPH, WITHOUT = 0.135 / 3278, 0.084 / 3278


@dataclass(frozen=True)
class Cost:
    """Of one cohort. trainings: of models, each over at most its epochs. hours: of one core, if none stops early.
    gigabytes: of features that are drawn; 0 if they are there."""

    slides: int
    patches: int
    trainings: int
    hours: float
    gigabytes: float


def study_cost(study: Study, *, phantom: bool = False) -> dict[str, Cost]:
    """By the name of each cohort, from the headers of the feature files. phantom: on stand-ins, which are not drawn.

    An estimate to a factor of two or so. Choosing settings inside folds (`choose`) is not counted.

    Example: `study_cost(read_study("studies/table1-cancers.toml"), phantom=True)`
    """
    found = standin_patches(study) if phantom else cohort_patches(study)
    return {name: _cost(study, of, drawn=phantom) for name, of in found.items()}


def _cost(study: Study, of: "PatchStatistics", *, drawn: bool) -> Cost:
    repeats = study.folds * len(study.seeds)
    trainings, seconds = 0, 0.0
    for settings in study.variants.values():
        for member in settings.each_member():
            method = peek_method(member.method)
            times = repeats * (1 + study.shuffle_control)
            each = WITH_GRAPH if method.graph else WITHOUT
            trainings += times
            seconds += times * member.train.epochs * of.slides * of.mean * each * (1 - 1 / study.folds)
    patches = round(of.slides * of.mean)
    return Cost(of.slides, patches, trainings, seconds / 3600, patches * of.dim * 2 / 1e9 if drawn else 0.0)
