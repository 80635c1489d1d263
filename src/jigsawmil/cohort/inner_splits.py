"""Patients of a training part that are held back, to stop by: of a single model, or of each member of an ensemble."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import SplitError
from .by_patient import Label, labels_by_patient, patients_per_class, slides_by_patient, strata_of


def inner_split(
    train_ids: Sequence[str],
    patients: Sequence[str],
    labels: Sequence[Label],
    *,
    names: Sequence[str] = (),
    fraction: float = 0.2,
    seed: int,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(slides to fit on, slides to validate on), by patient and stratified: `fraction` of each class's patients.

    Both sides get at least one patient of every class that has two; a class with one patient is only fitted.
    Where fewer than two classes can be validated there is no validation to speak of: SplitError.
    names: of the classes, if labels are numbers, for errors.

    Example: `fit, val = inner_split(ids, patients, labels, fraction=0.2, seed=0)`
    """
    if not 0 < fraction < 1:
        raise SplitError(f"The validation fraction is {fraction}; expected a number between 0 and 1, such as 0.2.")
    slides = slides_by_patient(train_ids, patients)
    carried = labels_by_patient(train_ids, patients, labels)
    rng = np.random.default_rng(seed)
    held: set[str] = set()
    for group in strata_of(carried).values():
        count = min(max(round(fraction * len(group)), 1), len(group) - 1)
        held.update(group[i] for i in rng.permutation(len(group))[:count])
    _enough_to_validate(held, carried, names)
    fit = tuple(sorted(s for patient in slides if patient not in held for s in slides[patient]))
    return fit, tuple(sorted(s for patient in held for s in slides[patient]))


def member_splits(
    train_ids: Sequence[str],
    patients: Sequence[str],
    labels: Sequence[Label],
    *,
    names: Sequence[str] = (),
    members: int,
    seed: int,
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(slides to fit on, slides to validate on) for each member of an ensemble, by patient and stratified.

    The patients of each class are dealt out to the members, so each patient is held out by one member and fitted by all
    others. In a class with fewer patients than members some are held out by several; one patient is only fitted.

    Example: `member_splits(ids, patients, labels, members=5, seed=0)[0]`
    """
    slides = slides_by_patient(train_ids, patients)
    carried = labels_by_patient(train_ids, patients, labels)
    rng = np.random.default_rng([seed, members])
    held: list[set[str]] = [set() for _ in range(members)]
    for group in strata_of(carried).values():
        order = [group[i] for i in rng.permutation(len(group))] if len(group) > 1 else []
        for number, own in enumerate(held):
            own.update(order[number::members] or order[number % max(len(order), 1) :][:1])
    for own in held:
        _enough_to_validate(own, carried, names)
    return [
        (
            tuple(sorted(s for patient in slides if patient not in own for s in slides[patient])),
            tuple(sorted(s for patient in own for s in slides[patient])),
        )
        for own in held
    ]


def _enough_to_validate(held: set[str], carried: Mapping[str, set[Label]], names: Sequence[str]) -> None:
    """Refuse patients to validate on that show fewer than two classes."""
    validated = {label for patient in held for label in carried[patient]}
    if len(validated) < 2:
        counts = ", ".join(f"{_name(label, names)!r}: {n}" for label, n in patients_per_class(carried).items())
        raise SplitError(
            f"The training part has too few patients for an inner validation (patients per class: {counts}); "
            "at least two classes need two patients each. Train for a fixed number of epochs, or use more patients."
        )


def _name(label: Label, names: Sequence[str]) -> Label:
    return label if isinstance(label, str) or not names else names[label]
