"""Slides and labels by patient: what every split starts from."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import pandas as pd

from ..errors import SplitError

Label = int | str


def slides_by_patient(slide_ids: Sequence[str], patient_ids: Sequence[str]) -> dict[str, list[str]]:
    """{patient: slides}. Refuses ids that are missing, not text, or given twice."""
    same_length(slide_ids, patient_ids, "patient ids")
    for kind, ids in (("slide", slide_ids), ("patient", patient_ids)):
        if wrong := [f"row {row}: {value!r}" for row, value in enumerate(ids) if not is_id(value)]:
            raise SplitError(
                f"{len(wrong)} {kind} ids are empty or not text ({', '.join(wrong)}). "
                "Identifiers are strings, so that leading zeros survive: read the table as text and fill the gaps."
            )
    if twice := sorted(slide for slide, times in Counter(slide_ids).items() if times > 1):
        raise SplitError(f"Slides listed more than once: {', '.join(twice)}. Expected one row per slide.")
    slides = defaultdict(list)
    for patient, slide in zip(patient_ids, slide_ids, strict=True):
        slides[patient].append(slide)
    return dict(slides)


def labels_by_patient(
    slide_ids: Sequence[str], patient_ids: Sequence[str], labels: Sequence[Label]
) -> dict[str, set[Label]]:
    """{patient: labels its slides carry}. Two classes at least, and no slide without a label."""
    same_length(slide_ids, labels, "labels")
    if bare := [slide for slide, label in zip(slide_ids, labels, strict=True) if pd.isna(label) or label == ""]:
        raise SplitError(f"Slides without a label: {', '.join(bare)}. Leave them out, or label them.")
    carried: dict[str, set[Label]] = defaultdict(set)
    for patient, label in zip(patient_ids, labels, strict=True):
        carried[patient].add(label)
    classes = set().union(*carried.values()) if carried else set()
    if len(classes) < 2:
        found = f"the one class {classes.pop()!r}" if classes else "no slides"
        raise SplitError(f"Found {found}; a classifier needs at least two classes. Check the label column.")
    return dict(sorted(carried.items()))


def patients_per_class(carried: Mapping[str, set[Label]]) -> dict[Label, int]:
    """{label: patients with a slide of it}, rarest first."""
    count = Counter(label for labels in carried.values() for label in labels)
    return dict(sorted(count.items(), key=lambda item: (item[1], str(item[0]))))


def strata_of(carried: Mapping[str, set[Label]]) -> dict[Label, list[str]]:
    """{label: patients}, each patient once: under the rarest label it carries, the one hardest to spread."""
    strata: dict[Label, list[str]] = {label: [] for label in patients_per_class(carried)}
    for patient, labels in carried.items():
        strata[next(label for label in strata if label in labels)].append(patient)
    return {label: group for label, group in strata.items() if group}


def same_length(slide_ids: Sequence[str], other: Sequence[object], name: str) -> None:
    if len(slide_ids) != len(other):
        raise SplitError(f"{len(slide_ids)} slide ids and {len(other)} {name}; expected one for every slide.")


def is_id(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
