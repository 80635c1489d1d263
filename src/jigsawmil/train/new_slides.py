"""A look at new slides before a model is applied to them: the same as `check` takes at those of a cohort."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..bags.formats import BagInfo
from ..bags.survey import Survey, survey_all
from ..cohort.audit import BAD, PROBLEMS
from ..cohort.feature_audit import Found, same_features, slide_faults
from ..cohort.labels import listed
from ..errors import FeatureError
from .apply import Group, OnFailure, check_fits, item_name
from .checkpoint import ModelCard


@dataclass(frozen=True)
class NewSlide:
    slide_id: str
    patient_id: str
    survey: Survey


@dataclass
class Look:
    """groups: those that can be predicted, without the slides that were left out. infos: of their files. left_out:
    slide -> why. notes: on slides that are used as they are."""

    groups: list[Group] = field(default_factory=list)
    infos: list[BagInfo] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def look_over(
    groups: Iterable[Group],
    card: ModelCard,
    on_failure: OnFailure,
    *,
    patient_of: Mapping[str, str],
    skip_bad: bool = False,
    **reading: Any,
) -> Look:
    """Tell apart slides that are sound and fit the model, and others. Of large files samples are read.

    groups: of feature files. on_failure: called with each group that holds a slide that cannot be used, and why.
    skip_bad: slides of the kinds in `BAD` are left out instead. reading: options of `survey_bag`.
    """
    files = [(name, [item for item in items if isinstance(item, str | Path)]) for name, items in groups]
    look, surveys = Look(), survey_all({item_name(file): Path(file) for _, own in files for file in own}, **reading)
    slides = [
        NewSlide(name, patient_of.get(name, name), survey)
        for name, survey in surveys.items()
        if isinstance(survey, Survey) and survey.info.n
    ]
    bad = _bad(surveys, slides, look, skip_bad)
    for name, items in files:
        kept = [item for item in items if item_name(item) not in look.left_out]
        infos = [survey.info for item in kept if isinstance(survey := surveys[item_name(item)], Survey)]
        try:
            for item in kept:
                if item_name(item) in bad:
                    raise bad[item_name(item)]
            for info in infos:
                check_fits(info, card)
        except FeatureError as error:
            on_failure(name, error)
        else:
            if kept:
                look.groups.append((name, kept))
                look.infos += infos
    return look


def _bad(
    surveys: Mapping[str, Survey | FeatureError], slides: list[NewSlide], look: Look, skip_bad: bool
) -> dict[str, FeatureError]:
    """Slides that must not be predicted, and why; those that may, or are left out, are written down in `look`."""
    bad = {name: survey for name, survey in surveys.items() if isinstance(survey, FeatureError)}
    if skip_bad:
        empty = [name for name, survey in surveys.items() if isinstance(survey, Survey) and not survey.info.n]
        look.left_out |= {name: str(error) for name, error in bad.items()} | dict.fromkeys(empty, BAD["empty"])
    for found in slide_faults(slides):
        details = found.details or [""] * len(found.names)
        words = {name: f" ({why})" * bool(why) for name, why in zip(found.names, details, strict=True)}
        if skip_bad and found.kind in BAD:
            look.left_out |= {name: BAD[found.kind] + why for name, why in words.items()}
        elif PROBLEMS[found.kind][0] == "error":
            what = BAD.get(found.kind, found.text)
            errors = {name: FeatureError(f"{name}: {what}{why}. {found.remedy}") for name, why in words.items()}
            bad = errors | bad  # unreadable ones keep their words
        else:
            look.notes.append(f"{_counted(found, [name + why for name, why in words.items()])} {found.remedy}".strip())
    sound = [slide for slide in slides if slide.slide_id not in bad and slide.slide_id not in look.left_out]
    for found in same_features(sound):
        look.notes.append(f"{_counted(found, found.names)} Is a file there twice, or in the place of another?")
    return bad


def _counted(found: Found, names: Sequence[str]) -> str:
    return f"{len(names)} {found.one}{'s' * (len(names) != 1)} {found.text}: {listed(names, 5)}."
