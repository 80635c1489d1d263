"""Folds of the JSON split files of STAMP and slideflow, whose contents differ though both are called `splits.json`."""

from collections.abc import Sequence
from typing import Any, TypeGuard

from ..errors import SplitError
from .by_patient import slides_by_patient
from .splits import Fold

SLIDEFLOW = (
    'expected slideflow\'s [{"strategy": "k-fold", "patients": {patient: {"slides": [...]}}, "tfrecords": '
    '{"k-fold-1": [...], ...}}]'
)


def stamp_folds(name: str, splits: Any, slide_ids: Sequence[str], patient_ids: Sequence[str]) -> list[Fold]:
    """Of lists of patients. splits: what stands under "splits"."""
    slides = slides_by_patient(slide_ids, patient_ids)
    folds, unknown = [], set()
    for number, split in enumerate(splits if isinstance(splits, list) else [None]):
        sides = {}
        for part in ("train", "test"):
            patients = split.get(f"{part}_patients") if isinstance(split, dict) else None
            if not _texts(patients):
                raise SplitError(
                    f'{name}: split {number} has no list of text "{part}_patients"; expected STAMP\'s '
                    '{"splits": [{"train_patients": ["..."], "test_patients": ["..."]}, ...]}.'
                )
            unknown |= set(patients) - slides.keys()
            sides[part] = tuple(slide for patient in patients for slide in slides.get(patient, ()))
        folds.append(Fold(**sides))
    if unknown:
        raise SplitError(
            f"{name}: patients that are not in the cohort: {', '.join(sorted(unknown))}. "
            "Add their slides and labels, or take them out of the split."
        )
    return folds


def slideflow_folds(name: str, splits: list[Any]) -> tuple[list[Fold], dict[str, str]]:
    """Of lists of slides, and the patient of each slide as the file has it. The part on which slideflow validates is
    the test part: it reports its figures there."""
    if len(splits) != 1:
        raise SplitError(
            f"{name}: {len(splits)} splits, of which slideflow takes the one that fits the patients. Keep one of them "
            "in the list."
        )
    [split] = splits
    parts = split.get("tfrecords") if isinstance(split, dict) else None
    patients = split.get("patients") if isinstance(split, dict) else None
    if not isinstance(parts, dict) or not all(map(_texts, parts.values())) or not isinstance(patients, dict):
        raise SplitError(f"{name}: not a split of slideflow; {SLIDEFLOW}.")
    patient_of = {
        slide: patient
        for patient, known in patients.items()
        if isinstance(known, dict) and _texts(known.get("slides"))
        for slide in known["slides"]
    }
    if set(parts) == {"training", "validation"}:
        return [Fold(train=tuple(parts["training"]), test=tuple(parts["validation"]))], patient_of
    names = [f"k-fold-{number + 1}" for number in range(len(parts))]
    if len(parts) < 2 or set(parts) != set(names):
        raise SplitError(f"{name}: parts {', '.join(parts) or 'none'}; {SLIDEFLOW}, or training and validation.")
    folds = [
        Fold(train=tuple(slide for other in names if other != own for slide in parts[other]), test=tuple(parts[own]))
        for own in names
    ]
    return folds, patient_of


def _texts(values: Any) -> TypeGuard[list[str]]:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
