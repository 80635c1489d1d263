"""Folds: no patient on both sides, every slide tested once, classes balanced, the same whatever the row order."""

import csv
import itertools
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from jigsawmil.cohort import splits
from jigsawmil.cohort.inner_splits import inner_split, member_splits
from jigsawmil.cohort.splits import Fold, check_folds, describe_splits, design_of
from jigsawmil.errors import SplitError

make_folds = partial(splits.make_folds, folds=3)
BRCA = Path(__file__).parents[2] / "../shared/data/clinical/tcga_brca_slides.csv"


def cohort(seed, *, classes=None, folds=3, slides_up_to=4):
    """(slide ids, patient ids, labels), at least `folds` patients a class; ids with leading zeros, rows shuffled."""
    rng = np.random.default_rng(seed)
    classes = classes or int(rng.integers(2, 6))
    label = [c for c in range(classes) for _ in range(folds + int(rng.integers(0, 20)))]
    rows = [
        (f"{p:04d}-{s}", f"{p:04d}", y)
        for p, y in zip(rng.permutation(len(label)), label, strict=True)
        for s in range(rng.integers(1, slides_up_to + 1))
    ]
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    slides, patients, labels = (list(column) for column in zip(*shuffled, strict=True))
    return slides, patients, labels


def patients_per_class(fold, patients, labels, part="test"):
    found = defaultdict(set)
    for slide in getattr(fold, part):
        found[labels[slide]].add(patients[slide])
    return {label: len(group) for label, group in found.items()}


@pytest.mark.parametrize("seed", range(60))
def test_folds_of_random_cohorts(seed):
    count = 2 + seed % 5
    slides, patients, labels = cohort(seed, folds=count)
    folds = make_folds(slides, patients, labels, folds=count, seed=seed)
    patient_of, label_of = dict(zip(slides, patients, strict=True)), dict(zip(slides, labels, strict=True))

    assert len(folds) == count
    assert sorted(s for fold in folds for s in fold.test) == sorted(slides)  # every slide is tested once
    for fold in folds:
        assert not {patient_of[s] for s in fold.train} & {patient_of[s] for s in fold.test}
        assert sorted(fold.train + fold.test) == sorted(slides)
    balance = [patients_per_class(fold, patient_of, label_of) for fold in folds]
    for label in set(labels):
        per_fold = [found[label] for found in balance]
        assert max(per_fold) - min(per_fold) <= 1
    totals = [sum(found.values()) for found in balance]
    assert max(totals) - min(totals) <= 1


def test_patients_with_many_slides_are_spread():
    """Three giants among patients with one slide: dealt blindly, two would share a fold in most draws."""
    patients = [f"p{i:02d}" for i in range(30)] + [f"giant{i}" for i in range(3) for _ in range(40)]
    slides = [f"s{i}" for i in range(len(patients))]
    labels = [p[-1] in "02468" for p in patients[:30]] + [True] * 120
    for seed in range(20):
        sizes = [len(fold.test) for fold in make_folds(slides, patients, labels, seed=seed)]
        assert max(sizes) - min(sizes) <= 2


@pytest.mark.parametrize("with_sites", [False, True])
def test_row_order_changes_nothing_and_the_seed_decides(with_sites):
    for seed in range(5):
        slides, patients, labels = cohort(seed, classes=2, folds=4)
        sites = [f"site{int(p) % 7}" for p in patients] if with_sites else None
        folds = make_folds(slides, patients, labels, folds=3, seed=seed, sites=sites)
        order = np.random.default_rng(seed + 1).permutation(len(slides))
        again = make_folds(
            *([column[i] for i in order] for column in (slides, patients, labels)),
            folds=3,
            seed=seed,
            sites=[sites[i] for i in order] if sites else None,
        )
        assert folds == again
        if not with_sites:  # whole sites may leave only one best way
            others = [make_folds(slides, patients, labels, folds=3, seed=other) for other in range(100, 110)]
            assert all(folds != other for other in others)


@pytest.mark.parametrize("seed", range(30))
def test_sites_stay_within_one_fold(seed):
    rng = np.random.default_rng(seed)
    slides, patients, labels = cohort(seed, folds=5)
    site = {p: f"site{rng.zipf(1.5) % 12}" for p in sorted(set(patients))}
    for label in set(labels):  # every class at two sites, else no site-preserving fold could train on it
        own = sorted({p for p, y in zip(patients, labels, strict=True) if y == label})
        site |= {own[0]: "first", own[1]: "second"}
    sites = [site[p] for p in patients]
    folds = make_folds(slides, patients, labels, folds=2 + seed % 2, seed=seed, sites=sites)
    site_of = dict(zip(slides, sites, strict=True))
    tested = [{site_of[s] for s in fold.test} for fold in folds]
    assert all(not one & other for one, other in itertools.combinations(tested, 2))
    assert all(tested)
    assert sorted(s for fold in folds for s in fold.test) == sorted(slides)


def spread(folds, patient_of, label_of):
    """Chi-square distance of patients per class in the folds from even ones, all patients being one more class."""
    held = [patients_per_class(fold, patient_of, label_of) for fold in folds]
    classes = sorted(set(label_of.values()))
    counts = np.array([[found.get(c, 0) for c in classes] + [sum(found.values())] for found in held], dtype=float)
    even = counts.mean(axis=0)
    return ((counts - even) ** 2 / even).sum()


def test_sites_are_placed_as_evenly_as_an_exhaustive_search_places_them():
    best = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        patients = [f"p{i:02d}" for i in range(40)]
        labels = [int(y) for y in rng.integers(0, 2, 40)]
        sites = [f"site{s}" for s in rng.choice(6, 40, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05])]
        patient_of, label_of = {p: p for p in patients}, dict(zip(patients, labels, strict=True))
        names = sorted(set(sites))
        optimum = np.inf
        for placed in itertools.product(range(3), repeat=len(names)):
            if set(placed) != {0, 1, 2}:
                continue
            tests = [[p for p, s in zip(patients, sites, strict=True) if placed[names.index(s)] == f] for f in range(3)]
            optimum = min(optimum, spread([Fold((), tuple(test)) for test in tests], patient_of, label_of))
        found = spread(make_folds(patients, patients, labels, seed=seed, sites=sites), patient_of, label_of)
        assert found <= 1.2 * optimum + 1e-9
        best += found <= optimum + 1e-9
    assert best >= 19


def test_real_tcga_breast_cohort_by_site():
    if not BRCA.exists():
        pytest.skip(f"needs the TCGA-BRCA slide list at {BRCA}")
    with BRCA.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["oncotree_code"] in ("IDC", "ILC")]
    slides, patients, labels, sites = ([r[c] for r in rows] for c in ("slide_id", "case_id", "oncotree_code", "site"))
    folds = make_folds(slides, patients, labels, folds=3, sites=sites)
    patient_of, label_of = dict(zip(slides, patients, strict=True)), dict(zip(slides, labels, strict=True))
    site_of = dict(zip(slides, sites, strict=True))
    assert sum(len({site_of[s] for s in fold.test}) for fold in folds) == len(set(sites))
    share = [c["ILC"] / (c["ILC"] + c["IDC"]) for c in (patients_per_class(f, patient_of, label_of) for f in folds)]
    assert max(share) - min(share) < 0.01


def test_patients_with_slides_of_several_labels_keep_together_and_rare_labels_are_spread():
    """Nodes of CAMELYON17: most slides of every patient are normal, a few patients carry each kind of metastasis."""
    patients = [f"patient_{i:03d}" for i in range(30) for _ in range(5)]
    slides = [f"{p}_node_{i % 5}" for i, p in enumerate(patients)]
    labels = ["negative"] * 150
    for patient in range(12):
        labels[5 * patient] = "macro" if patient < 6 else "micro"
    label_of, patient_of = dict(zip(slides, labels, strict=True)), dict(zip(slides, patients, strict=True))
    for seed in range(20):
        for fold in make_folds(slides, patients, labels, folds=3, seed=seed):
            found = patients_per_class(fold, patient_of, label_of)
            assert found == {"negative": 10, "macro": 2, "micro": 2}


@pytest.mark.parametrize("seed", range(40))
def test_inner_split_by_patient_with_every_class_on_both_sides(seed):
    slides, patients, labels = cohort(seed, folds=2)
    patient_of, label_of = dict(zip(slides, patients, strict=True)), dict(zip(slides, labels, strict=True))
    fit, val = inner_split(slides, patients, labels, fraction=0.2, seed=seed)
    assert sorted(fit + val) == sorted(slides)
    assert not {patient_of[s] for s in fit} & {patient_of[s] for s in val}
    everyone = patients_per_class(Fold((), tuple(slides)), patient_of, label_of)
    held = patients_per_class(Fold((), val), patient_of, label_of)
    assert patients_per_class(Fold((), fit), patient_of, label_of).keys() == held.keys() == everyone.keys()
    assert all(abs(held[c] - 0.2 * n) <= 0.5 or held[c] == 1 for c, n in everyone.items())
    order = np.random.default_rng(seed).permutation(len(slides))
    rows = ([column[i] for i in order] for column in (slides, patients, labels))
    assert inner_split(*rows, fraction=0.2, seed=seed) == (fit, val)


def test_inner_split_fits_on_a_class_with_one_patient_and_refuses_when_nothing_can_be_validated():
    slides = patients = ["a", "b", "c", "d", "e"]
    fit, val = inner_split(slides, patients, [0, 0, 1, 1, 2], seed=0)
    assert "e" in fit
    assert len(val) == 2
    with pytest.raises(SplitError, match=r"too few patients .*'y': 1.*fixed number of epochs"):
        inner_split(["a", "b", "c"], ["a", "b", "c"], ["x", "x", "y"], seed=0)
    with pytest.raises(SplitError, match=r"fraction is 1\.5"):
        inner_split(slides, patients, [0, 0, 1, 1, 2], fraction=1.5, seed=0)


IDS, PATIENTS = ["01a", "01b", "02a", "03a", "04a"], ["01", "01", "02", "03", "04"]


def test_check_folds_names_everything_that_is_wrong_at_once():
    folds = [
        Fold(train=("01a", "03a"), test=("01b", "02a"), val=("04a",)),
        Fold(train=("02a", "ghost"), test=("02a",), val=("02a", "02a")),
    ]
    with pytest.raises(SplitError) as caught:
        check_folds(folds, [*IDS, "05a"], [*PATIENTS, "05"])
    message = str(caught.value)
    for line in (
        "fold 0: patient 01 is in train (01a) and in test (01b)",
        "fold 1: train has slides that are not in the cohort: ghost",
        "fold 1: val lists slides more than once: 02a",
        "fold 1: patient 02 is in train (02a) and in val (02a, 02a)",
        "fold 1: patient 02 is in train (02a) and in test (02a)",
        "fold 1: patient 02 is in val (02a, 02a) and in test (02a)",
        "in none of the folds: 05a",
        "never tested: 01a, 03a, 04a",
        "tested in more than one fold: 02a",
    ):
        assert f"- {line}" in message
    assert "9 problems" in message


def test_check_folds_admits_repeated_hold_out_only_when_told():
    folds = [Fold(train=("01a", "01b", "02a"), test=("03a", "04a")), Fold(train=("02a", "04a"), test=("03a",))]
    check_folds(folds, IDS, PATIENTS, each_once=False)
    with pytest.raises(SplitError, match=r"never tested: 01a, 01b, 02a\n.*more than one fold: 03a"):
        check_folds(folds, IDS, PATIENTS)
    with pytest.raises(SplitError, match="fold 0: test is empty"):
        check_folds([Fold(train=tuple(IDS), test=())], IDS, PATIENTS, each_once=False)
    with pytest.raises(SplitError, match="no folds"):
        check_folds([], IDS, PATIENTS, each_once=False)


def test_what_folds_amount_to_is_said_with_the_slides_that_are_not_used():
    halves = [Fold(train=("01a", "01b"), test=("02a", "03a", "04a")), Fold(train=("02a", "03a"), test=("01a", "01b"))]
    assert describe_splits(halves, IDS, PATIENTS) == []  # every slide is tested
    once = describe_splits(halves[:1], [*IDS, "05a"], [*PATIENTS, "05"])
    assert once == [
        "Splits: one test set; 3 of 6 slides are tested, 2 are used only for training or validation. Not used, because "
        "no split contains them: 05a."
    ]
    again = Fold(train=("01a", "01b"), test=("03a", "04a"))
    (said,) = describe_splits([halves[0], again], IDS, PATIENTS)
    assert "repeated hold-out, 2 test sets that share patients; 3 of 5" in said
    assert design_of([{"a": "p"}, {"b": "p"}]) == "repeated hold-out"  # two slides of one patient
    assert design_of([{"a": "p"}, {"a": "p"}]) == "hold-out"  # two trainings for one test set


def test_any_slide_moved_to_the_other_side_is_refused():
    slides, patients, labels = cohort(3, slides_up_to=3)
    patient_of = dict(zip(slides, patients, strict=True))
    several = {p for p, n in Counter(patients).items() if n > 1}
    fold = make_folds(slides, patients, labels)[0]
    for slide in [s for s in fold.test if patient_of[s] in several]:
        moved = Fold(train=(*fold.train, slide), test=tuple(s for s in fold.test if s != slide))
        with pytest.raises(SplitError, match=rf"patient {patient_of[slide]} is in train \({slide}\) and in test"):
            check_folds([moved], slides, patients, each_once=False)
    assert several & {patient_of[s] for s in fold.test}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["a"] * 8}, "one class 'a'.*at least two"),
        ({"labels": ["a"] * 6 + ["b"] * 2}, r"class 'b' has 2 patients; 3 folds need at least 3.*Use 2 folds"),
        ({"labels": ["a"] * 7 + ["b"]}, r"class 'b' has 1 patient; .*Merge or leave out"),
        ({"labels": ["a"] * 4 + ["b"] * 2 + ["c"] * 2}, "class 'b' has 2 patients, class 'c' has 2 patients"),
        ({"labels": ["a"] * 4 + ["b"] * 3 + [None]}, "without a label: s7"),
        ({"labels": ["a", "b"]}, "8 slide ids and 2 labels"),
        ({"folds": 1}, "1 folds requested.*at least 2"),
        ({"patient_ids": [1, 2, 3, 4, 5, 6, 7, 8]}, "patient ids are empty or not text .*leading zeros"),
        ({"slide_ids": ["s0"] * 2 + [f"s{i}" for i in range(2, 8)]}, "more than once: s0"),
        ({"sites": ["A", "B"] * 4}, r"2 sites \(A, B\) for 3 folds"),
        ({"sites": ["A", "B", "C", ""] * 2}, "without a site: s3, s7"),
        ({"sites": ["A"] * 4 + ["B"] * 2 + ["C"] * 2, "patient_ids": list("ppqqrstu")}, "3 folds need"),
        ({"sites": ["A", "B", "C", "C"] + ["D"] * 4}, "All 4 patients of class 'b' are in one fold"),
        ({"sites": [*"ABCDABC", "D"], "patient_ids": [*"01234566"]}, r"several sites: 6 \(C, D\)"),
    ],
)
def test_impossible_folds_say_found_expected_and_what_to_do(change, message):
    table = {
        "slide_ids": [f"s{i}" for i in range(8)],
        "patient_ids": [f"p{i}" for i in range(8)],
        "labels": ["a"] * 4 + ["b"] * 4,
    }
    with pytest.raises(SplitError, match=message):
        make_folds(**(table | change))


def test_a_fold_is_a_set_of_ids_not_an_order():
    assert Fold(("b", "a"), ("c",)) == Fold(("a", "b"), ("c",), ())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("members", [2, 3, 5])
@pytest.mark.parametrize("counts", [(2, 2), (7, 3), (4, 9, 5), (2, 9)])
def test_every_member_holds_out_its_own_patients_of_every_class(
    counts: tuple[int, ...], members: int, seed: int
) -> None:
    """A class with as many patients as members: each patient is held out once, and fitted by all other members."""
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    patients = [f"p{number}" for number in range(len(labels))]
    slides = [f"{patient}-{half}" for patient in patients for half in "ab"]  # two slides each
    of_slide = [patient for patient in patients for _ in "ab"]
    both = [label for label in labels for _ in "ab"]
    parts = member_splits(slides, of_slide, both, members=members, seed=seed)
    assert len(parts) == members
    held = Counter()
    for fit, val in parts:
        assert sorted([*fit, *val]) == sorted(slides)
        inside = {slide[:-2] for slide in val}
        assert not inside & {slide[:-2] for slide in fit}  # no patient on both sides
        assert {labels[patients.index(patient)] for patient in inside} == set(labels)
        held.update(inside)
    for label, count in enumerate(counts):
        times = [held[patient] for patient, own in zip(patients, labels, strict=True) if own == label]
        assert times == [1] * count if count >= members else max(times) - min(times) <= 1
    assert parts == member_splits(slides, of_slide, both, members=members, seed=seed)


def test_members_fit_a_lone_patient_of_a_class_and_never_hold_it_out() -> None:
    ids = [f"p{number}" for number in range(9)]
    labels = [0] * 4 + [1] * 4 + [2]
    for fit, val in member_splits(ids, ids, labels, members=3, seed=0):
        assert "p8" in fit
        assert "p8" not in val
    with pytest.raises(SplitError, match="too few patients for an inner validation"):
        member_splits(ids, ids, [0] * 8 + [1], members=3, seed=0)
    with pytest.raises(SplitError, match=r"per class: 'pos': 1, 'neg': 8"):
        member_splits(ids, ids, [*np.repeat([0, 1], [8, 1])], names=["neg", "pos"], members=3, seed=0)


@pytest.mark.parametrize(
    ("patients", "sites"), [(["p1", "P1", "q", "r"], None), (["a", "b", "c", "d"], ["6", "06", "7", "8 "])]
)
def test_two_spellings_of_a_patient_or_a_site_are_refused_unless_allowed(
    patients: list[str], sites: list[str] | None
) -> None:
    given = (["s1", "s2", "s3", "s4"], patients, ["x", "y", "x", "y"])
    with pytest.raises(SplitError, match=r"written in several ways: .*--allow-similar"):
        make_folds(*given, folds=2, sites=sites)
    assert len(make_folds(*given, folds=2, sites=sites, allow_similar=True)) == 2
