"""What a result is of: the slides with their labels, and the features, so that no other ones are mixed in."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..bags.digest import digest
from ..cohort.cohort import Cohort

CONTENT, WHOLE = "content", "whole"
READ_AS = ("unit", "mpp", "patch_size")  # how the same files can be read in several ways


def fingerprint(cohort: Cohort) -> str:
    """Of what the labels and the features hold, without reading features."""
    rows = [[s.slide_id, s.patient_id, cohort.label_of(s), s.patches, *s.covariates] for s in cohort.slides]
    rows.sort()
    text = json.dumps([cohort.classes, cohort.task, cohort.dim, rows])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def features_record(cohort: Cohort) -> dict[str, Any]:
    """Of the features: how they were made and read, and a digest of their files; empty for bags in memory.

    The folder is not part of it: the same files are the same features wherever they lie."""
    slides = sorted((slide.slide_id, slide.survey) for slide in cohort.slides if slide.survey is not None)
    surveys = [survey for _, survey in slides]
    if not surveys or not all(survey.content for survey in surveys):
        return {}
    infos = [survey.info for survey in surveys]
    record = {
        "encoder": _one(info.encoder for info in infos),
        "weights": _one(info.encoding and info.encoding.mark for info in infos),
        "precision": _one(info.encoding.precision if info.encoding else info.dtype for info in infos),
        "unit": _one(info.unit for info in infos),
        "mpp": _one(info.mpp for info in infos),
        "patch_size": _one(info.patch_size for info in infos),
        CONTENT: digest(*(f"{name} {survey.content}".encode() for name, survey in slides)),
    }
    if all(survey.whole for survey in surveys):
        record[WHOLE] = digest(*(f"{name} {survey.whole}".encode() for name, survey in slides))
    return record


def features_changes(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """In words, what sets the features of a result apart from those that are wanted; nothing if they are the same."""
    same = found[CONTENT] == wanted[CONTENT] and found.get(WHOLE, "") in ("", wanted.get(WHOLE, found.get(WHOLE, "")))
    keys = [key for key in wanted if key not in (CONTENT, WHOLE) and (key in READ_AS or not same)]
    changes = [
        f"{key} was {found[key]}, is {wanted[key]}" for key in keys if key in found and found[key] != wanted[key]
    ]
    return changes if same else [*changes, "the content of feature files changed"]


def _one(values: Iterable[Any]) -> Any:
    """The value that all have; else a digest of all, in their order."""
    every = list(values)
    if len(set(every)) == 1:
        return every[0]
    return f"{len(set(every))} values ({digest(repr(every).encode())[:8]})"
