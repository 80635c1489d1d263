"""Folds that cannot leak: patients, not slides, are split, and every fold is checked before it is used."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..bags.spelling import spellings
from ..errors import SplitError
from .by_patient import Label, is_id, labels_by_patient, patients_per_class, same_length, slides_by_patient, strata_of
from .options import FOLDS

PARTS = ("train", "val", "test")
Design = Literal["cross-validation", "hold-out", "repeated hold-out"]


@dataclass(frozen=True)
class Fold:
    """Slide ids of one fold, kept sorted, so that equal splits compare equal. An empty `val` means: none was given."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    val: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part in PARTS:
            object.__setattr__(self, part, tuple(sorted(getattr(self, part))))


def make_folds(
    slide_ids: Sequence[str],
    patient_ids: Sequence[str],
    labels: Sequence[Label],
    *,
    folds: int = FOLDS,
    seed: int = 0,
    sites: Sequence[str] | None = None,
    allow_similar: bool = False,
) -> list[Fold]:
    """Cross-validation folds: every slide is tested once, a patient's slides stay together, labels are stratified.

    The number of patients differs between folds by at most 1, in each class and in all, where a patient has one label.
    A patient with slides of several labels counts for the one that fewest patients carry.
    With `sites` (one per slide) all patients of a site share a fold, and labels are balanced as well as sites allow.
    allow_similar: take patients or sites whose ids differ only in spelling for different ones, instead of refusing.
    The same seed gives the same folds, whatever the order of the rows.

    Example: `make_folds(cohort.slide_ids, cohort.patients, cohort.labels, folds=5, seed=0)`
    """
    slides = slides_by_patient(slide_ids, patient_ids)
    carried = labels_by_patient(slide_ids, patient_ids, labels)
    if not allow_similar:
        _refuse_similar("patient", patient_ids)
        _refuse_similar("site", sites or ())
    _enough_patients(carried, folds)
    rng = np.random.default_rng(seed)
    if sites is None:
        fold_of = _deal_patients(slides, carried, folds, rng)
    else:
        fold_of = _place_sites(_site_by_patient(slide_ids, patient_ids, sites), carried, folds, rng)
    _trainable(fold_of, carried)
    members: list[list[str]] = [[] for _ in range(folds)]
    for patient, fold in fold_of.items():
        members[fold] += slides[patient]
    made = [Fold(train=tuple(s for m in members if m is not test for s in m), test=tuple(test)) for test in members]
    check_folds(made, slide_ids, patient_ids)
    return made


def _refuse_similar(what: str, ids: Sequence[str]) -> None:
    """Two spellings of one id would lie on both sides of a split."""
    if similar := [" / ".join(map(repr, names)) for names in spellings(ids)]:
        raise SplitError(
            f"{len(similar)} {what} ids are written in several ways: {'; '.join(similar)}; expected one spelling for "
            f"each {what}. Correct them, or, if they are different, give --allow-similar (allow_similar=True)."
        )


def check_folds(
    folds: Sequence[Fold],
    slide_ids: Sequence[str],
    patient_ids: Sequence[str],
    *,
    each_once: bool = True,
) -> None:
    """Refuse folds that leak or do not fit the cohort; one SplitError names everything that is wrong.

    each_once=False admits hold-outs, as CLAM, Patho-Bench and official splits have them: a slide may be tested in
    several folds or in none, and may be in no part of any fold.

    Example: `check_folds(folds, cohort.slide_ids, cohort.patients)`
    """
    slides_by_patient(slide_ids, patient_ids)
    patient_of = dict(zip(slide_ids, patient_ids, strict=True))
    problems = [] if folds else ["there are no folds"]
    for number, fold in enumerate(folds):
        problems += [f"fold {number}: {problem}" for problem in _fold_problems(fold, patient_of)]
    tests = Counter(slide for fold in folds for slide in set(fold.test))
    used = slides_in(folds)
    if each_once:
        if unused := sorted(patient_of.keys() - used):
            problems.append(f"in none of the folds: {', '.join(unused)} (leave them out of the labels, or add them)")
        if never := sorted((patient_of.keys() & used) - tests.keys()):
            problems.append(f"never tested: {', '.join(never)}")
        if often := sorted(slide for slide, times in tests.items() if times > 1):
            problems.append(f"tested in more than one fold: {', '.join(often)}")
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise SplitError(
            f"The folds cannot be used ({count}); expected every patient on one side only"
            f"{', every slide tested once' if each_once else ''} and only slides of the cohort. "
            "Correct the split, or make new folds.\n" + "\n".join(f"- {problem}" for problem in problems)
        )


def slides_in(folds: Sequence[Fold]) -> set[str]:
    """Slides that are in some part of some fold."""
    return {slide for fold in folds for part in PARTS for slide in getattr(fold, part)}


def design_of(tests: Sequence[Mapping[str, str]]) -> Design:
    """What folds amount to by their test sets, each slide -> patient.

    cross-validation: no two of them share a patient. hold-out: there is one, for however many trainings. repeated
    hold-out: they overlap, so that a patient may be tested several times.
    """
    if len({frozenset(test) for test in tests}) == 1:
        return "hold-out"
    tested = Counter(patient for test in tests for patient in set(test.values()))
    return "cross-validation" if max(tested.values(), default=1) == 1 else "repeated hold-out"


def describe_splits(folds: Sequence[Fold], slide_ids: Sequence[str], patient_ids: Sequence[str]) -> list[str]:
    """What a reader has to know of folds that are no cross-validation of the whole cohort; nothing of one that is."""
    patient_of = dict(zip(slide_ids, patient_ids, strict=True))
    tests = [{slide: patient_of[slide] for slide in fold.test} for fold in folds]
    tested = set().union(*tests)
    unused = sorted(patient_of.keys() - slides_in(folds))
    never = len(patient_of) - len(tested) - len(unused)
    words = {
        "cross-validation": f"{len(folds)} test sets that share no patient",
        "hold-out": "one test set" + (f", {len(folds)} trainings" if len(folds) > 1 else ""),
        "repeated hold-out": f"repeated hold-out, {len(folds)} test sets that share patients",
    }
    design = design_of(tests)
    if design == "cross-validation" and len(tested) == len(patient_of):
        return []
    said = f"Splits: {words[design]}; {len(tested)} of {len(patient_of)} slides are tested"
    said += f", {never} are used only for training or validation." if never else "."
    if unused:
        said += f" Not used, because no split contains them: {', '.join(unused)}."
    return [said]


def _enough_patients(carried: Mapping[str, set[Label]], folds: int) -> None:
    if folds < 2:
        raise SplitError(f"{folds} folds requested; cross-validation needs at least 2.")
    few = {label: n for label, n in patients_per_class(carried).items() if n < folds}
    if few:
        least = min(few.values())
        remedy = f"Use {least} folds, or merge" if least > 1 else "Merge"
        found = ", ".join(f"class {label!r} has {n} patient{'s' * (n > 1)}" for label, n in few.items())
        raise SplitError(
            f"{found}; {folds} folds need at least {folds} patients in every class, one to test in each fold. "
            f"{remedy} or leave out the small classes."
        )


def _trainable(fold_of: Mapping[str, int], carried: Mapping[str, set[Label]]) -> None:
    """A class within one fold would be tested by a model that never saw it. It takes few sites, or odd mixed labels."""
    for label, count in patients_per_class(carried).items():
        if len({fold_of[patient] for patient, labels in carried.items() if label in labels}) == 1:
            raise SplitError(
                f"All {count} patients of class {label!r} are in one fold, so no model is trained on the class there; "
                "expected two folds at least. Split without sites, use another seed, or leave the class out."
            )


def _deal_patients(
    slides: Mapping[str, Sequence[str]], carried: Mapping[str, set[Label]], folds: int, rng: np.random.Generator
) -> dict[str, int]:
    """Deal each class's patients, shuffled, in rounds of one a fold.

    A last, incomplete round goes to the folds that hold the fewest patients, so the totals stay within 1 as well.
    Patients with many slides go first, to the folds that hold the fewest, so slides are spread too.
    """
    fold_of: dict[str, int] = {}
    held_patients, held_slides = [0] * folds, [0] * folds
    for group in strata_of(carried).values():
        shuffled = sorted((group[i] for i in rng.permutation(len(group))), key=lambda p: -len(slides[p]))
        for start in range(0, len(shuffled), folds):
            dealt = shuffled[start : start + folds]
            order = sorted(rng.permutation(folds).tolist(), key=lambda f: (held_patients[f], held_slides[f]))
            for patient, fold in zip(dealt, order, strict=False):
                fold_of[patient] = fold
                held_patients[fold] += 1
                held_slides[fold] += len(slides[patient])
    return fold_of


def _site_by_patient(slide_ids: Sequence[str], patient_ids: Sequence[str], sites: Sequence[str]) -> dict[str, str]:
    same_length(slide_ids, sites, "sites")
    if bare := [slide for slide, site in zip(slide_ids, sites, strict=True) if not is_id(site)]:
        raise SplitError(f"Slides without a site: {', '.join(bare)}. Fill the sites in, or split without them.")
    found: dict[str, set[str]] = defaultdict(set)
    for patient, site in zip(patient_ids, sites, strict=True):
        found[patient].add(site)
    if several := [f"{p} ({', '.join(sorted(s))})" for p, s in sorted(found.items()) if len(s) > 1]:
        raise SplitError(f"Patients with slides of several sites: {'; '.join(several)}. Expected one site per patient.")
    return {patient: site for patient, (site,) in found.items()}


def _place_sites(
    site_of: Mapping[str, str], carried: Mapping[str, set[Label]], folds: int, rng: np.random.Generator
) -> dict[str, int]:
    """Whole sites to folds, patients per class as even as can be: the best of 20 greedy starts, each improved by
    moving and swapping sites until nothing helps. A fold may still test without a class where sites are one-sided.
    """
    names = sorted(set(site_of.values()))
    if len(names) < folds:
        raise SplitError(
            f"{len(names)} sites ({', '.join(names)}) for {folds} folds; a site stays within one fold, so at least "
            f"{folds} are needed. Use {'fewer folds' if len(names) > 1 else 'more sites'}, or split without sites."
        )
    classes = list(patients_per_class(carried))
    row = {site: i for i, site in enumerate(names)}
    counts = np.zeros((len(names), len(classes) + 1))  # (site, class), and all patients in the last column
    for patient, labels in carried.items():
        counts[row[site_of[patient]]] += [label in labels for label in classes] + [True]
    placed = min((_even_out(counts, folds, rng) for _ in range(20)), key=lambda f: _uneven(counts, f, folds))
    return {patient: int(placed[row[site]]) for patient, site in site_of.items()}


def _uneven(counts: np.ndarray, fold_of: np.ndarray, folds: int) -> float:
    """Chi-square distance of the folds' class counts from even ones. counts: (site, class); fold_of: (site,)."""
    even = counts.sum(axis=0) / folds
    held = np.stack([counts[fold_of == fold].sum(axis=0) for fold in range(folds)])
    return float(((held - even) ** 2 / even).sum())


def _even_out(counts: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    """(site,) folds, greedily from the largest site on, then by moves and swaps. No fold stays empty:
    an empty one costs a site nothing, and emptying one never lowers the distance."""
    weight = 1 / counts.sum(axis=0)
    order = rng.permutation(len(counts))
    order = order[np.argsort(-counts[order, -1], kind="stable")]
    fold_of = np.zeros(len(counts), dtype=int)
    held = np.zeros((folds, counts.shape[1]))
    for site in order:
        fold_of[site] = np.argmin(held @ (weight * counts[site]))
        held[fold_of[site]] += counts[site]
    better = True
    while better:
        better = False
        for site in order:
            # change of the site's own fold when it leaves for each fold alone, or in exchange for each other site
            change = np.concatenate([np.zeros_like(held), counts]) - counts[site]
            to = np.concatenate([np.arange(folds), fold_of])
            gain = (weight * change * (held[fold_of[site]] - held[to] + change)).sum(axis=1)
            gain[to == fold_of[site]] = 0
            best = int(gain.argmin())
            if gain[best] < -1e-9:
                better = True
                old, new = fold_of[site], to[best]
                held[old] += change[best]
                held[new] -= change[best]
                if best >= folds:
                    fold_of[best - folds] = old
                fold_of[site] = new
    return fold_of


def _fold_problems(fold: Fold, patient_of: Mapping[str, str]) -> list[str]:
    problems = [f"{part} is empty" for part in ("train", "test") if not getattr(fold, part)]
    held: dict[str, dict[str, list[str]]] = {}  # {part: {patient: slides}}
    for part in PARTS:
        slides = getattr(fold, part)
        if unknown := sorted(set(slides) - patient_of.keys()):
            problems.append(f"{part} has slides that are not in the cohort: {', '.join(unknown)}")
        if twice := sorted(slide for slide, times in Counter(slides).items() if times > 1):
            problems.append(f"{part} lists slides more than once: {', '.join(twice)}")
        held[part] = _group([slide for slide in slides if slide in patient_of], patient_of)
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        for patient in sorted(held[one].keys() & held[other].keys()):
            problems.append(
                f"patient {patient} is in {one} ({', '.join(held[one][patient])}) "
                f"and in {other} ({', '.join(held[other][patient])})"
            )
    return problems


def _group(slides: Sequence[str], patient_of: Mapping[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for slide in slides:
        groups[patient_of[slide]].append(slide)
    return dict(sorted(groups.items()))
