"""Phantoms: the planted signal is there, it is nowhere else, and the files are those of a real cohort."""

import csv
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from scipy.ndimage import distance_transform_edt
from scipy.ndimage import label as connected
from scipy.spatial import cKDTree
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from jigsawmil.bags.formats import read_bag
from jigsawmil.errors import ConfigError
from jigsawmil.synthetic import phantom as phantom_module
from jigsawmil.synthetic.phantom import Phantom, PhantomSlide, make_phantom, phantom_slides, write_phantom
from jigsawmil.synthetic.phantom_options import CLASSES, TYPES, PhantomSpec, phantom_spec
from jigsawmil.synthetic.phantom_slide import draw_outcomes, draw_patients

KINDS = list(CLASSES)
SPATIAL = ["arrangement", "position"]


def positive(phantom: Phantom) -> np.ndarray:
    return np.array(phantom.labels) == CLASSES[phantom.spec.kind][1]


def cells(slide: PhantomSlide) -> np.ndarray:
    """(patch, 2): column and row, read back from the level-0 coordinates."""
    corner = slide.bag.coords.numpy()
    return np.rint((corner - corner.min(axis=0)) / 512).astype(int)


def raster(slide: PhantomSlide) -> np.ndarray:
    at = cells(slide)
    out = np.zeros(at.max(axis=0) + 1, bool)
    out[at[:, 0], at[:, 1]] = True
    return out


def auc_of_mean_features(phantom: Phantom) -> float:
    means = np.stack([bag.features.numpy().mean(axis=0) for bag in phantom.bags])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    scores = cross_val_predict(model, means, positive(phantom), cv=5, method="decision_function")
    return roc_auc_score(positive(phantom), scores)


def same_type_neighbours(slide: PhantomSlide, k: int) -> float:
    ab = slide.types < 2
    at, types = cells(slide)[ab], slide.types[ab]
    near = cKDTree(at).query(at, k=k + 1)[1][:, 1:]
    return float((types[near] == types[:, None]).mean())


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- the label hangs on the planted thing


@pytest.mark.parametrize("k", [8, 50])
def test_arrangement_is_visible_to_whoever_sees_types_and_places(k: int) -> None:
    phantom = make_phantom("arrangement", slides=80, dim=16)
    assert roc_auc_score(positive(phantom), [same_type_neighbours(slide, k) for slide in phantom]) > 0.99


def test_position_is_visible_to_whoever_sees_types_and_places() -> None:
    phantom = make_phantom("position", slides=80, dim=16)
    a_below_b = [cells(s)[s.types == 0, 1].mean() - cells(s)[s.types == 1, 1].mean() for s in phantom]
    assert roc_auc_score(positive(phantom), a_below_b) > 0.99


def test_context_alone_tells_position_but_the_core_of_a_nest_does_not() -> None:
    phantom = make_phantom("position", slides=80, dim=16)
    context = []
    for slide in phantom:
        at, types = cells(slide), slide.types
        eight = cKDTree(at).query_ball_point(at, 1.5)
        pure = [len(near) == 9 and len(set(types[near])) == 1 for near in eight]
        assert all(np.any(pure & (types == nest)) for nest in (0, 1))  # a core whose neighbours are all nest
        around = types[cKDTree(at).query(at[types == 0], k=51)[1]]
        context.append(around[around >= 2].mean())  # mean layer among the 50 nearest of the patches of nest A
    assert roc_auc_score(positive(phantom), context) > 0.99


def test_composition_shows_in_the_mean_features() -> None:
    assert auc_of_mean_features(make_phantom("composition", slides=80, dim=64)) > 0.9


# ---- and on nothing else


@pytest.mark.parametrize("kind", SPATIAL)
def test_mean_features_tell_nothing_where_only_place_matters(kind: str) -> None:
    # One cohort's cross-validated AUROC scatters by 0.09 around chance: take five.
    aucs = [auc_of_mean_features(make_phantom(kind, slides=80, dim=64, patches=200, seed=seed)) for seed in range(5)]
    assert abs(np.mean(aucs) - 0.5) < 0.12


@pytest.mark.parametrize("kind", SPATIAL)
def test_the_other_label_would_have_had_the_very_same_patches(kind: str) -> None:
    """Only labels depend on `balance`; a slide whose label it flips keeps everything but the places of A and B."""
    one, two = (make_phantom(kind, slides=40, dim=32, patches=200, balance=b) for b in (0.3, 0.7))
    flipped = [(a, b) for a, b in zip(one, two, strict=True) if a.label != b.label]
    assert len(flipped) > 10
    for a, b in flipped:
        assert a.bag.coords.equal(b.bag.coords)
        x, y = a.bag.features.numpy(), b.bag.features.numpy()
        assert np.array_equal(x[np.lexsort(x.T)], y[np.lexsort(y.T)])
        moved = (x != y).any(axis=1)
        assert moved.any()
        assert (a.plant[moved] == 1).all()
        assert np.array_equal(a.plant, b.plant)
        assert (a.types == 0).sum() == (a.types == 1).sum() == (b.types == 0).sum() == (b.types == 1).sum()


def test_grades_of_an_arrangement_differ_in_place_alone_and_by_degrees() -> None:
    even, most_mixed = ((0.25, 0.25, 0.25, 0.25), (0.7, 0.1, 0.1, 0.1))
    knobs = {"slides": 60, "two_slides": 0.2, "dim": 16, "patches": 300}
    one, two = (make_phantom("arrangement", balance=b, **knobs) for b in (even, most_mixed))
    assert sorted(set(one.labels)) == ["0", "1", "2", "3"]
    label_of = dict(zip(two.patients, two.labels, strict=True))
    assert [list(label_of.values()).count(grade) for grade in "0123"] == [35, 5, 5, 5]  # of 50 patients
    clumping = np.array([same_type_neighbours(slide, 8) for slide in one])
    means = [clumping[np.array(one.labels) == grade].mean() for grade in "0123"]
    assert (np.diff(means) > 0.03).all()
    regraded = [(a, b) for a, b in zip(one, two, strict=True) if a.label != b.label]
    assert len({(a.label, b.label) for a, b in regraded}) > 2
    for a, b in regraded:
        x, y = a.bag.features.numpy(), b.bag.features.numpy()
        assert a.bag.coords.equal(b.bag.coords)
        assert np.array_equal(x[np.lexsort(x.T)], y[np.lexsort(y.T)])
        assert (x != y).any()


@pytest.mark.parametrize("kind", SPATIAL)
def test_a_slide_whose_label_stays_is_the_same_slide(kind: str) -> None:
    one, two = (make_phantom(kind, slides=10, dim=16, patches=100, balance=b) for b in (0.3, 0.7))
    kept = [(a, b) for a, b in zip(one, two, strict=True) if a.label == b.label]
    assert kept
    assert all(a.bag.features.equal(b.bag.features) for a, b in kept)


def test_order_in_the_file_tells_nothing_about_place_or_type() -> None:
    for slide in make_phantom("position", slides=5, dim=16, patches=2000, spread=0.0):
        order, at = np.arange(len(slide.bag)), cells(slide)
        from_edge = distance_transform_edt(np.pad(raster(slide), 1))[at[:, 0] + 1, at[:, 1] + 1]
        for value in (*at.T, from_edge, slide.types):
            assert abs(np.corrcoef(order, value)[0, 1]) < 0.1


# ---- features


@pytest.mark.parametrize("kind", KINDS)
def test_types_can_be_recognised_but_not_without_error(kind: str) -> None:
    slides = make_phantom(kind, slides=6, spread=0.0).slides
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
    # Rare types are left out: a slide may hold fewer of them than there are folds.
    accuracy = []
    for slide in slides:
        common = np.isin(slide.types, np.flatnonzero(np.bincount(slide.types) >= 10))
        accuracy.append(cross_val_score(model, slide.bag.features.numpy()[common], slide.types[common], cv=3).mean())
    assert 0.9 < np.mean(accuracy) < 0.98


@pytest.mark.parametrize("knobs", [{}, {"noise": 3.0}, {"slide_effect": 2.0}, {"noise": 0.0, "slide_effect": 0.0}])
def test_features_have_about_unit_variance_whatever_the_knobs(knobs: dict[str, float]) -> None:
    bags = make_phantom("arrangement", slides=60, patches=60, dim=128, **knobs).bags
    variance = np.concatenate([bag.features.numpy() for bag in bags]).var(axis=0)
    assert 0.6 < variance.mean() < 1.5


def test_slide_effect_moves_whole_slides() -> None:
    def spread_of_slide_means(effect: float) -> float:
        bags = make_phantom("arrangement", slides=20, dim=64, slide_effect=effect).bags
        return float(np.stack([bag.features.numpy().mean(axis=0) for bag in bags]).std(axis=0).mean())

    assert spread_of_slide_means(1.0) > 3 * spread_of_slide_means(0.0)


# ---- shapes


def test_tissue_has_pieces_and_holes_and_one_lattice() -> None:
    pieces, holes = [], []
    for slide in make_phantom("arrangement", slides=30, dim=16):
        step = slide.bag.coords.numpy() - slide.bag.coords.numpy().min(axis=0)
        assert np.array_equal(step % 512, np.zeros_like(step))
        assert len(np.unique(step, axis=0)) == len(step)
        tissue = np.pad(raster(slide), 1)
        regions, count = connected(tissue, np.ones((3, 3)))
        pieces.append(np.sum(np.bincount(regions.ravel(), minlength=count + 1)[1:] >= 20))
        holes.append(connected(~tissue)[1] - 1)  # glass that the glass outside does not reach
        assert slide.bag.patch_size == 512
    assert {1, 2, 3} <= set(pieces)
    assert np.mean(np.array(holes) > 0) > 0.3
    offsets = [tuple(s.bag.coords.numpy().min(axis=0) % 512) for s in make_phantom("position", slides=10, dim=16)]
    assert len(set(offsets)) == 10


def test_patch_counts_spread_log_normally_around_their_median() -> None:
    counts = np.log([len(bag) for bag in make_phantom("composition", slides=300, dim=16, patches=200, spread=0.5).bags])
    assert np.exp(np.median(counts)) == pytest.approx(200, rel=0.15)
    assert counts.std() == pytest.approx(0.5, rel=0.2)
    assert {len(bag) for bag in make_phantom("composition", slides=5, dim=16, spread=0.0).bags} == {500}


def test_patch_counts_may_be_given_one_by_one() -> None:
    drawn = make_phantom("arrangement", slides=4, dim=16)
    counts = (*(len(bag) for bag in drawn.bags[:2]), 13, 900)
    given = make_phantom("arrangement", slides=4, dim=16, counts=counts)
    assert tuple(len(bag) for bag in given.bags) == counts
    assert all(a.features.equal(b.features) for a, b in zip(drawn.bags[:2], given.bags[:2], strict=True))


def test_a_second_cohort_of_a_feature_space_has_other_slides_whose_types_look_alike() -> None:
    knobs = {"slides": 8, "patches": 60, "dim": 16, "noise": 0.1, "slide_effect": 0.0}
    first, alien = make_phantom("composition", seed=11, **knobs), make_phantom("composition", seed=12, **knobs)
    second = make_phantom("composition", seed=12, encoder_seed=11, **knobs)

    def mean(phantom: Phantom) -> np.ndarray:
        stroma = [slide.bag.features.numpy()[slide.types == 1] for slide in phantom]
        return np.concatenate(stroma).mean(axis=0)

    assert [phantom.bags[0].encoder for phantom in (first, second, alien)] == ["phantom-11", "phantom-11", "phantom-12"]
    assert np.abs(mean(first) - mean(second)).max() < 0.1 < np.abs(mean(first) - mean(alien)).max()
    assert all(np.array_equal(a, b) for a, b in zip(second.types, alien.types, strict=True))  # the slides are seed 12's
    ids, patients = (
        ({bag.slide_id for bag in phantom.bags} for phantom in (first, second)),
        (first.patients, second.patients),
    )
    assert set.isdisjoint(*ids)
    assert set(patients[0]).isdisjoint(patients[1])
    same = make_phantom("composition", seed=11, encoder_seed=11, **knobs)
    assert [bag.slide_id for bag in same.bags] == [bag.slide_id for bag in first.bags]
    assert all(torch.equal(a.features, b.features) for a, b in zip(same.bags, first.bags, strict=True))


def test_another_dimension_is_another_view_of_the_same_slides() -> None:
    one, two = (make_phantom("position", slides=6, dim=dim, patches=80) for dim in (32, 100))
    assert (one.labels, one.patients) == (two.labels, two.patients)
    assert all(a.coords.equal(b.coords) for a, b in zip(one.bags, two.bags, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(one.types, two.types, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("patches", "dim"), [(10, 2560), (50_000, 16)])
def test_any_size_and_dimension(kind: str, patches: int, dim: int) -> None:
    for slide in make_phantom(kind, slides=2, patches=patches, dim=dim, spread=0.0):
        assert slide.bag.features.shape == (patches, dim)
        assert slide.bag.features.isfinite().all()
        assert 0 < slide.plant.sum() < patches
        assert slide.types.max() < len(TYPES[kind])


# ---- patients


def test_two_slides_of_a_patient_share_the_label_and_ids_keep_their_zeros() -> None:
    phantom = make_phantom("composition", slides=60, dim=16, patches=20, two_slides=0.5, balance=0.25)
    by_patient: dict[str, list[str]] = {}
    for patient, label in zip(phantom.patients, phantom.labels, strict=True):
        by_patient.setdefault(patient, []).append(label)
    assert len(by_patient) == 40
    assert sorted(map(len, by_patient.values())) == [1] * 20 + [2] * 20
    assert all(len(set(labels)) == 1 for labels in by_patient.values())
    assert sum(labels[0] == "tumour" for labels in by_patient.values()) == 10
    assert phantom.bags[6].slide_id == "0007"
    assert phantom.patients[0] == "0001"


# ---- files


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(kind: str, tmp_path: Path) -> None:
    knobs = {"slides": 4, "dim": 32, "patches": 50}
    write_phantom(make_phantom(kind, seed=3, **knobs), tmp_path / "memory")
    write_phantom(phantom_slides(PhantomSpec(kind=kind, seed=3, **knobs)), tmp_path / "streamed")
    write_phantom(make_phantom(kind, seed=4, **knobs), tmp_path / "other")
    memory, streamed, other = (files(tmp_path / name) for name in ("memory", "streamed", "other"))
    assert memory == streamed
    assert len(memory) == 5
    assert all(memory[name] != other[name] for name in memory if name.endswith(".h5"))


def test_the_number_of_threads_changes_no_bit() -> None:
    bags = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            bags.append(make_phantom("arrangement", slides=2, patches=5000, dim=512, spread=0.0).bags[0])
    assert bags[0].features.equal(bags[1].features)


def test_files_read_back_as_trident_with_the_truth_beside(tmp_path: Path) -> None:
    phantom = make_phantom("position", slides=4, dim=32, patches=50)
    out = write_phantom(phantom, tmp_path / "deep" / "cohort")
    with open(out / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["slide_id"], r["patient_id"], r["label"]) for r in rows] == [
        (s.bag.slide_id, s.patient, s.label) for s in phantom
    ]
    for slide in phantom:
        path = out / "features" / f"{slide.bag.slide_id}.h5"
        bag = read_bag(path)
        assert bag.source == "trident"
        assert (bag.slide_id, bag.patch_size, bag.encoder) == (slide.bag.slide_id, 512, "phantom-0")
        assert bag.features.equal(slide.bag.features)
        assert bag.coords.equal(slide.bag.coords)
        with h5py.File(path) as file:
            attrs = file["coords"].attrs
            assert (attrs["patch_size"], attrs["patch_size_level0"]) == (256, 512)
            assert (attrs["level0_magnification"], attrs["target_magnification"]) == (40, 20)
            assert (file["coords"][:].max(axis=0) + 512 <= (attrs["level0_width"], attrs["level0_height"])).all()
            assert np.array_equal(file["phantom_type"], slide.types)
            assert np.array_equal(file["phantom_plant"], slide.plant)
            assert file["phantom_type"].attrs["names"].split(",") == list(TYPES["position"])


def test_half_precision_halves_the_files_and_keeps_three_digits(tmp_path: Path) -> None:
    phantom = make_phantom("position", slides=2, dim=64, patches=500)
    whole, half = (write_phantom(phantom, tmp_path / name, half=name == "half") for name in ("whole", "half"))
    for slide in phantom:
        name = f"features/{slide.bag.slide_id}.h5"
        assert (half / name).stat().st_size < 0.65 * (whole / name).stat().st_size
        bag = read_bag(half / name)
        assert bag.features.dtype == slide.bag.features.dtype
        assert np.allclose(bag.features, slide.bag.features, rtol=1e-3, atol=1e-3)
        assert bag.coords.equal(slide.bag.coords)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    phantom = make_phantom("composition", slides=2, dim=16, patches=10)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    (tmp_path / "file").write_text("keep")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"full: a folder that is not empty.*new or empty folder"):
        write_phantom(phantom, tmp_path / "full")
    with pytest.raises(ConfigError, match="file: a file"):
        write_phantom(phantom, tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_phantom(phantom, tmp_path / "file" / "below")
    assert files(tmp_path) == {"full/mine.txt": b"keep", "file": b"keep"}
    assert (write_phantom(phantom, tmp_path / "empty") / "labels.csv").exists()


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(slide: PhantomSlide, path: Path, half: bool) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(phantom_module, "_write_slide", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_phantom(make_phantom("composition", slides=2, dim=16, patches=10), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# ---- wrong knobs


@pytest.mark.parametrize(
    ("kind", "knobs", "message"),
    [
        (
            "arangement",
            {},
            "found 'arangement', expected one of composition, arrangement, position. Did you mean 'arrangement'",
        ),
        ("xyz", {}, "found 'xyz', expected one of composition, arrangement, position"),
        (
            "position",
            {"slide": 10},
            "found 'slide', expected one of slides, seed, encoder_seed, dim, patches, spread, counts, noise, "
            "slide_effect, balance, two_slides, clump, nest, task, effect. Did you mean 'slides'",
        ),
        ("position", {"slides": 1}, "slides=1 is impossible; expected a whole number from 2"),
        ("position", {"slides": 2.5}, "slides=2.5 is impossible; expected a whole number"),
        ("position", {"seed": -1}, "seed=-1"),
        ("position", {"dim": 8}, "dim=8 is impossible; expected a whole number from 16"),
        ("position", {"patches": 9}, "patches=9 is impossible; expected a whole number from 10"),
        ("position", {"spread": -0.1}, "spread=-0.1"),
        ("position", {"noise": float("nan")}, "noise=nan"),
        ("position", {"slide_effect": "big"}, "slide_effect='big' is impossible; expected a number"),
        ("position", {"balance": 1.5}, "balance=1.5 is impossible; expected a number from 0 to 1"),
        ("position", {"balance": 0.001}, "balance=0.001 leaves a class without any of the 91 patients"),
        ("position", {"balance": (0.2, 0.3, 0.5)}, "shares of three or more grades are for arrangement"),
        ("arrangement", {"balance": (0.2, 0.8)}, "Else give one number: the share of the second class"),
        ("arrangement", {"balance": (0.2, 0.3, 0.4)}, "sums to 0.9; expected 1"),
        ("arrangement", {"balance": (0.2, 0.3, -0.5)}, "balance=-0.5 is impossible"),
        ("arrangement", {"balance": (0.6, 0.001, 0.399)}, "leaves a class without any"),
        ("position", {"counts": (20, 30)}, "counts has 2 numbers for 100 slides"),
        ("position", {"slides": 2, "counts": (20, 3)}, "counts=3 is impossible; expected a whole number from 10"),
        ("position", {"two_slides": 2}, "two_slides=2"),
        ("position", {"clump": 0}, "clump=0"),
        ("position", {"nest": True}, "nest=True"),
        ("position", {"task": "survivel"}, "phantom task: found 'survivel'"),
    ],
)
def test_wrong_knobs_are_named(kind: str, knobs: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_phantom(kind, **knobs)
    assert message in str(error.value)


# ---- survival times and measured values


def outcomes(slides: int, **knobs: object) -> tuple[np.ndarray, ...]:
    """Class and columns of the outcome, without the slides."""
    spec = phantom_spec("composition", slides=slides, two_slides=0.0, **knobs)
    patient, label = draw_patients(np.random.default_rng((spec.seed, 1)), spec)
    found = draw_outcomes(np.random.default_rng((spec.seed, 3)), spec, patient, label)
    return label == 1, *(np.array([one[name] for one in found]) for name in found[0])


@pytest.mark.parametrize(("task", "columns"), [("survival", ["time", "event"]), ("regression", ["value"])])
def test_outcomes_are_more_columns_for_the_very_same_slides(task: str, columns: list[str], tmp_path: Path) -> None:
    knobs = {"slides": 6, "patches": 20, "dim": 16, "two_slides": 0.5}
    plain = files(write_phantom(make_phantom("arrangement", **knobs), tmp_path / "plain"))
    other = files(write_phantom(make_phantom("arrangement", task=task, **knobs), tmp_path / task))
    tables = [list(csv.DictReader(one.pop("labels.csv").decode().splitlines())) for one in (plain, other)]
    assert plain == other
    assert list(tables[1][0]) == ["slide_id", "patient_id", "label", *columns]
    assert [{name: row[name] for name in tables[0][0]} for row in tables[1]] == tables[0]
    assert len({tuple(row[name] for name in ("patient_id", *columns)) for row in tables[1]}) == 4  # patients


@pytest.mark.parametrize("effect", [0.0, 3.0])
def test_outcomes_hang_on_the_class_as_strongly_as_asked_for(effect: float) -> None:
    late, time, event = outcomes(3000, task="survival", effect=effect)
    hazard = [event[side].sum() / time[side].sum() for side in (late, ~late)]
    assert np.log(hazard[0] / hazard[1]) == pytest.approx(effect, abs=0.1)
    assert time.min() > 0
    assert set(event) == {0, 1}
    late, value = outcomes(3000, task="regression", effect=effect)
    assert (value[late].mean() - value[~late].mean()) / 10 == pytest.approx(effect, abs=0.1)
    assert value[late].std() == pytest.approx(10, rel=0.05)


def test_more_slides_leave_the_outcomes_of_the_first_patients_as_they_are() -> None:
    few, many = (outcomes(n, task="survival", effect=0)[1] for n in (10, 20))
    assert few.tolist() == many[:10].tolist()
