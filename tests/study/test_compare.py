"""Tests between methods against the definition, published examples and their own promises under the null."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, kstest, norm
from scipy.stats import t as student
from sklearn.datasets import make_moons
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.svm import SVC

from jigsawmil.errors import StudyError
from jigsawmil.statistics.intervals import component_variance, delong_interval, placements
from jigsawmil.statistics.metrics import patient_level
from jigsawmil.statistics.paired import corrected_t_test, delong_test, holm
from jigsawmil.study.compare import compare_methods, summarise

# DeLong, DeLong & Clarke-Pearson 1988: 43 complete patients. Albumin, total protein, K-G score; surgery succeeded (1).
ALBUMIN = """3.0 3.2 3.9 2.8 3.2 0.9 2.5 1.6 3.8 3.7 3.2 3.8 4.1 3.6 4.3 3.6 2.3 4.2 4.0 3.5 3.8 3.0 4.5 3.7 3.1 4.1 4.3
    4.3 3.2 2.6 3.3 1.7 3.7 3.3 4.2 3.5 2.9 2.1 2.8 4.0 3.3 3.7 3.6"""
PROTEIN = """5.8 6.3 6.8 4.8 5.8 4.0 5.7 5.6 5.7 6.7 5.4 6.6 6.6 5.7 7.0 6.7 4.4 7.6 6.6 5.8 6.8 4.7 7.4 7.4 6.6 8.2 7.0
    6.5 5.1 4.7 6.8 4.0 6.1 6.3 7.7 6.2 5.7 4.8 6.2 7.0 5.7 6.9 6.6"""
KG_SCORE = "10 5 3 6 3 5 8 5 5 6 4 6 5 5 4 4 6 4 6 6 7 8 5 5 6 6 5 4 5 6 6 7 5 7 6 5 9 7 8 7 6 5 5"
SUCCESS = "0 1 1 0 1 0 0 1 1 1 1 1 1 1 1 0 1 0 0 1 1 0 1 1 1 1 1 1 1 1 0 0 1 1 1 1 0 1 0 1 1 1 1"


def ovarian() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    albumin, protein, kg, y = (np.array(text.split(), float) for text in (ALBUMIN, PROTEIN, KG_SCORE, SUCCESS))
    return y.astype(int), albumin, protein, -kg  # a low K-G score is the good one


def predictions(
    skill: dict[str, float], slides: int = 90, folds: int = 3, seeds: int = 1, per_patient: int = 1, seed: int = 0
) -> pd.DataFrame:
    """Binary out-of-fold table; every method sees the same difficulty of a slide, plus noise of its own."""
    rng = np.random.default_rng(seed)
    patient = np.arange(slides) // per_patient
    label = patient % 2
    base = rng.normal(size=slides)
    tables = []
    for method, strength in skill.items():
        own = rng.normal(size=slides)
        for s in range(seeds):
            z = strength * label + base + own + 0.5 * rng.normal(size=slides)
            tables.append(
                pd.DataFrame(
                    {
                        "variant": method,
                        "fold": (patient // 2) % folds,
                        "seed": s,
                        "slide_id": [f"{i:03}" for i in range(slides)],
                        "patient_id": [f"{i:03}" for i in patient],
                        "label": label,
                        "probability": 1 / (1 + np.exp(-z)),
                    }
                )
            )
    return pd.concat(tables, ignore_index=True)


def multiclass(names: tuple[str, ...] = ("a", "b", "c"), seed: int = 0) -> pd.DataFrame:
    frame = predictions({"weak": 0.0, "strong": 0.0}, seed=seed)
    rng = np.random.default_rng(seed)
    y = np.tile(np.arange(90) // 3 % 3, 2)
    z = rng.normal(size=(180, 3)) + np.where(frame["variant"] == "strong", 2.0, 0.3)[:, None] * np.eye(3)[y]
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    columns = {f"probability_{name}": p[:, i] for i, name in enumerate(names)}
    return frame.drop(columns="probability").assign(label=np.array(names)[y], **columns)


def test_delong_test_equals_the_definition() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [31, 24])
    base = y + rng.normal(size=55)
    a, b = np.round(base + rng.normal(size=55)), np.round(base + 0.5 * rng.normal(size=55))
    kernels = [(s[y == 1][:, None] > s[y == 0]) + 0.5 * (s[y == 1][:, None] == s[y == 0]) for s in (a, b)]
    cov = np.cov([k.mean(1) for k in kernels]) / 24 + np.cov([k.mean(0) for k in kernels]) / 31
    difference = kernels[0].mean() - kernels[1].mean()
    z = difference / np.sqrt(cov[0, 0] + cov[1, 1] - 2 * cov[0, 1])
    assert delong_test(y, a, b) == pytest.approx((difference, z, 2 * norm.sf(abs(z))))
    assert delong_test(y, b, a) == pytest.approx((-difference, -z, 2 * norm.sf(abs(z))))


def test_delongs_own_example() -> None:
    """As the SAS/STAT manual prints it (PROC LOGISTIC, ROCCONTRAST): areas, errors, and chi-square 2.5340, p 0.2817."""
    y, albumin, protein, kg = ovarian()
    scores, errors = (albumin, protein, kg), []
    for s, area, error in zip(scores, (0.7366, 0.6478, 0.7258), (0.0927, 0.1000, 0.1028), strict=True):
        errors.append(np.sqrt(component_variance(y, placements(y, s))))
        assert round(delong_interval(y, s).value, 4) == area
        assert round(errors[-1], 4) == error
    gap, z, p = delong_test(y, protein, kg)
    assert (round(gap, 4), round(z**2, 4), round(p, 4)) == (-0.0780, 0.5554, 0.4561)
    gap, z, p = delong_test(y, albumin, kg)
    assert (round(gap, 4), round(z**2, 4), round(p, 4)) == (0.0108, 0.0127, 0.9102)
    # the joint contrast, its covariance rebuilt from the variances of the pairwise differences
    gaps = np.array([delong_test(y, s, kg).difference for s in (albumin, protein)])
    v_a, v_p = ((delong_test(y, s, kg).difference / delong_test(y, s, kg).z) ** 2 for s in (albumin, protein))
    between = delong_test(y, albumin, protein)
    shared = (v_a + v_p - (between.difference / between.z) ** 2) / 2
    statistic = gaps @ np.linalg.solve([[v_a, shared], [shared, v_p]], gaps)
    assert (round(statistic, 4), round(chi2.sf(statistic, 2), 4)) == (2.5340, 0.2817)


def test_delong_test_of_the_same_ranking_is_no_difference() -> None:
    y, albumin, *_ = ovarian()
    assert delong_test(y, albumin, np.exp(albumin)) == (0, 0, 1)
    assert delong_test(y, np.zeros(43), np.ones(43)) == (0, 0, 1)


def test_delong_test_without_variance_is_careful() -> None:
    y = np.repeat([0, 1], 10)
    gap, z, p = delong_test(y, y, np.zeros(20))  # perfect against constant: DeLong would say p = 0
    assert gap == 0.5
    assert np.isnan(z)
    assert p == pytest.approx(2 * np.exp(-10 * 0.25 / 2))
    assert delong_test([0, 1], [0, 1], [1, 0])[2] == 1  # one pair proves nothing
    assert np.isnan(delong_test([1, 1], [0.2, 0.3], [0.4, 0.1])).all()


def test_delong_p_is_uniform_under_the_null() -> None:
    rng, y = np.random.default_rng(11), np.repeat([0, 1], [40, 50])
    p = []
    for _ in range(300):
        base = y + rng.normal(size=90)
        p.append(delong_test(y, base + rng.normal(size=90), base + rng.normal(size=90)).p)
    assert kstest(p, "uniform").pvalue > 0.01
    assert 0.015 < np.mean(np.array(p) < 0.05) < 0.1


def test_clustered_delong_keeps_its_level_where_the_plain_one_does_not() -> None:
    rng, patients = np.random.default_rng(12), np.repeat(np.arange(40), 5)
    y = patients % 2
    plain, clustered = [], []
    for _ in range(150):
        a, b = (y + 1.5 * rng.normal(size=40)[patients] + 0.3 * rng.normal(size=200) for _ in range(2))
        plain.append(delong_test(y, a, b).p)
        clustered.append(delong_test(y, a, b, patients).p)
    assert np.mean(np.array(plain) < 0.05) > 0.2
    assert np.mean(np.array(clustered) < 0.05) < 0.1


def test_corrected_t_by_hand() -> None:
    """Differences 0.02, 0.04, 0.06 over 3 folds of 100 of 300: mean 0.04, var 0.0004, factor 1/3 + 1/2."""
    t, p, df = corrected_t_test([0.02, 0.04, 0.06], n_train=200, n_test=100)
    assert t == pytest.approx(0.04 / np.sqrt(5 / 6 * 0.0004))
    assert df == 2
    assert p == pytest.approx(1 - t / np.sqrt(2 + t**2))  # Student's with 2 degrees of freedom, in closed form


def test_corrected_t_on_scikit_learns_example() -> None:
    """Its gallery (model comparison by grid search) prints t 0.750 and a one-sided p 0.227 for rbf against linear."""
    x, y = make_moons(noise=0.352, random_state=1, n_samples=100)
    folds = RepeatedStratifiedKFold(n_splits=10, n_repeats=10, random_state=0)
    rbf, linear = (
        cross_val_score(SVC(kernel=kernel, random_state=0), x, y, scoring="roc_auc", cv=folds)
        for kernel in ("rbf", "linear")
    )
    t, p, df = corrected_t_test(rbf - linear, n_train=90, n_test=10)
    assert (round(t, 3), round(p / 2, 3), df) == (0.750, 0.227, 99)


def test_corrected_t_where_it_cannot_be() -> None:
    assert corrected_t_test([0.0, 0.0, 0.0], 2, 1)[:2] == (0, 1)
    assert np.isnan(corrected_t_test([0.1, 0.1, 0.1], 2, 1)[:2]).all()
    assert np.isnan(corrected_t_test([0.1], 2, 1)[:2]).all()
    assert np.isnan(corrected_t_test([], 2, 1)[:2]).all()
    assert np.isnan(corrected_t_test([0.1, 0.2], 0, 1)[:2]).all()


def test_corrected_t_keeps_its_level_where_the_plain_t_does_not() -> None:
    """Resamples correlated as Nadeau and Bengio assume, n_test / (n_test + n_train) = 1 / 5."""
    rng = np.random.default_rng(13)
    d = np.sqrt(0.2) * rng.normal(size=(1000, 1)) + np.sqrt(0.8) * rng.normal(size=(1000, 5))
    assert np.mean([corrected_t_test(row, 4, 1).p < 0.05 for row in d]) == pytest.approx(0.05, abs=0.02)
    assert np.mean([corrected_t_test(row, 4, 0).p < 0.05 for row in d]) > 0.1


def test_holm_gives_published_values() -> None:
    np.testing.assert_allclose(holm([0.50, 0.003, 0.32, 0.054, 0.0003]), [0.64, 0.012, 0.64, 0.162, 0.0015])  # pingouin
    np.testing.assert_allclose(holm([0.319, 0.201, 0.4, 0.374, 0.113]), [0.957, 0.804, 0.957, 0.957, 0.565])  # stdlib
    np.testing.assert_allclose(holm([0.02, np.nan, 0.03]), [0.04, np.nan, 0.04])
    assert holm([]).size == 0
    assert holm([0.9, 0.8]).max() == 1


def test_comparison_equals_its_parts() -> None:
    frame = predictions({"abmil": 0.0, "graph": 3.0, "jigsaw": 3.0})
    got = compare_methods(frame)
    assert list(zip(got["variant_a"], got["variant_b"], strict=True)) == [
        ("abmil", "graph"),
        ("abmil", "jigsaw"),
        ("graph", "jigsaw"),
    ]
    assert set(got["level"]) == {"slide"}
    wide = frame.pivot(index="slide_id", columns="variant", values="probability")
    y = frame.drop_duplicates("slide_id").set_index("slide_id")["label"].loc[wide.index].to_numpy()
    row = got.iloc[0]
    assert row["auc_a"] == pytest.approx(roc_auc_score(y, wide["abmil"]))
    assert row["difference"] == pytest.approx(row["auc_a"] - row["auc_b"])
    want = delong_test(y, wide["abmil"], wide["graph"])
    assert tuple(row[["difference", "delong_z", "delong_p"]]) == pytest.approx(want)
    areas = frame.groupby(["variant", "fold"]).apply(lambda g: roc_auc_score(g["label"], g["probability"]))
    gaps = (areas["abmil"] - areas["graph"]).to_numpy()
    assert tuple(row[["t", "t_p"]]) == pytest.approx(corrected_t_test(gaps, n_train=60, n_test=30)[:2])
    assert row["fold_difference"] == pytest.approx(gaps.mean())
    np.testing.assert_allclose(got["delong_p_holm"], holm(got["delong_p"]))
    np.testing.assert_allclose(got["t_p_holm"], holm(got["t_p"]))
    assert got["delong_p_holm"].iloc[:2].max() < 0.001 < got["delong_p_holm"].iloc[2]  # planted, and not planted


def test_several_slides_of_a_patient_are_judged_by_patient() -> None:
    frame = predictions({"a": 0.5, "b": 1.0}, per_patient=2)
    got = compare_methods(frame).iloc[0]
    assert got["level"] == "patient"
    whole = compare_methods(patient_level(frame)).iloc[0]  # one row a patient to begin with
    assert whole["level"] == "slide"
    figures = ["auc_a", "auc_b", "delong_p", "t_p"]
    assert tuple(got[figures]) == pytest.approx(tuple(whole[figures]))
    assert got["auc_a"] == pytest.approx(summarise(frame, resamples=10).set_index("variant").loc["a", "auc_patient"])


def test_patients_with_slides_of_both_labels_are_clustered() -> None:
    frame = predictions({"a": 0.5, "b": 1.0}, per_patient=2)
    frame["label"] = frame["slide_id"].astype(int) % 2
    got = compare_methods(frame).iloc[0]
    assert got["level"] == "slide, clustered"
    a, b = (frame[frame["variant"] == m] for m in "ab")
    want = delong_test(a["label"], a["probability"], b["probability"], a["patient_id"])
    assert tuple(got[["difference", "delong_z", "delong_p"]]) == pytest.approx(want)
    assert np.isnan(summarise(frame, resamples=10)["auc_patient"]).all()


def test_seeds_are_averaged_and_do_not_pass_for_new_folds() -> None:
    frame = predictions({"a": 0.5, "b": 1.0}, seeds=3)
    got = compare_methods(frame).iloc[0]
    mean = frame.groupby(["variant", "slide_id"], as_index=False).agg({"label": "first", "probability": "mean"})
    a, b = (mean[mean["variant"] == m] for m in "ab")
    assert got["delong_p"] == pytest.approx(delong_test(a["label"], a["probability"], b["probability"]).p)
    areas = frame.groupby(["variant", "fold", "seed"]).apply(lambda g: roc_auc_score(g["label"], g["probability"]))
    gaps = (areas["a"] - areas["b"]).groupby("fold").mean()
    assert got["resamples"] == 3
    assert got["t_p"] == pytest.approx(corrected_t_test(gaps, 60, 30).p)


def test_seeds_that_draw_their_own_folds_are_resamples_each() -> None:
    frame = predictions({"a": 0.5, "b": 1.0}, seeds=2)
    patient = frame["patient_id"].astype(int)
    frame["fold"] = np.where(frame["seed"] == 0, patient // 2 % 3, patient // 6 % 3)
    got = compare_methods(frame).iloc[0]
    areas = frame.groupby(["variant", "seed", "fold"]).apply(lambda g: roc_auc_score(g["label"], g["probability"]))
    assert got["resamples"] == 6
    assert got["t_p"] == pytest.approx(corrected_t_test(areas["a"] - areas["b"], 60, 30).p)


def test_multiclass_has_the_corrected_t_only() -> None:
    frame = multiclass()
    got = compare_methods(frame).iloc[0]
    assert np.isnan(got[["delong_z", "delong_p", "delong_p_holm"]].astype(float)).all()
    columns = ["probability_a", "probability_b", "probability_c"]

    def macro(g: pd.DataFrame) -> float:
        return roc_auc_score(g["label"], g[columns].to_numpy(), multi_class="ovr", labels=["a", "b", "c"])

    areas = frame.groupby(["variant", "fold"]).apply(macro)
    want = corrected_t_test(areas["weak"] - areas["strong"], 60, 30)
    assert (got["t"], got["t_p"]) == pytest.approx(want[:2])
    assert got["difference"] < -0.2


def test_order_of_classes_changes_names_and_not_figures() -> None:
    frame = multiclass()
    plain = summarise(frame, resamples=50)
    turned = summarise(frame, classes=["c", "a", "b"], resamples=50)
    for column in ("auc_oof", "auc_mean", "auprc", "brier", "f1", "ece"):
        np.testing.assert_allclose(plain[column], turned[column])
    grades = summarise(frame, task="ordinal", resamples=50)
    assert "quadratic_kappa" not in plain
    other = summarise(frame, ["c", "a", "b"], "ordinal", resamples=50)
    assert (grades["quadratic_kappa"] != other["quadratic_kappa"]).all()  # for grades the order is the meaning


def test_string_labels_need_an_order_and_have_one_by_default() -> None:
    frame = predictions({"m": 1.0})
    named = frame.assign(label=frame["label"].map({0: "wild", 1: "mutant"}))
    right = summarise(named, classes=["wild", "mutant"], resamples=50).iloc[0]
    assert right["positive"] == "mutant"
    assert right["auc_oof"] == summarise(frame, resamples=50).iloc[0]["auc_oof"]
    default = summarise(named, resamples=50).iloc[0]  # sorted: the last is positive
    assert default["positive"] == "wild"
    assert default["auc_oof"] == pytest.approx(1 - right["auc_oof"])


def test_summary_equals_its_parts() -> None:
    frame = predictions({"a": 0.8, "b": 1.0}, seeds=2, per_patient=2)
    got = summarise(frame, resamples=200)
    first = "variant folds auc_mean auc_std auc_oof auc_low auc_high boot_low boot_high auc_patient auprc"
    assert list(got.columns[:11]) == first.split()
    row, mine = got.iloc[0], frame[frame["variant"] == "a"]
    areas = mine.groupby(["seed", "fold"]).apply(lambda g: roc_auc_score(g["label"], g["probability"]))
    assert (row["auc_mean"], row["auc_std"]) == pytest.approx((areas.mean(), areas.std(ddof=1)))
    slides = mine.groupby("slide_id", as_index=False)
    pooled = slides.agg({"patient_id": "first", "label": "first", "probability": "mean"})
    want = delong_interval(pooled["label"], pooled["probability"], clusters=pooled["patient_id"])
    assert (row["auc_oof"], row["auc_low"], row["auc_high"]) == pytest.approx(want)
    assert row["boot_low"] < row["auc_oof"] < row["boot_high"]
    patients = pooled.groupby("patient_id").agg({"label": "first", "probability": "mean"})
    assert row["auc_patient"] == pytest.approx(roc_auc_score(patients["label"], patients["probability"]))
    assert (row["folds"], row["seeds"], row["slides"], row["patients"], row["undefined_folds"]) == (3, 2, 90, 45, 0)
    pd.testing.assert_frame_equal(got, summarise(frame, resamples=200))
    shuffled = frame.sample(frac=1, random_state=0).sort_values("variant", kind="stable")
    pd.testing.assert_frame_equal(got, summarise(shuffled, resamples=200))


def training(frame: pd.DataFrame, number: int) -> pd.DataFrame:
    """Of each fold, the first so many slides that it does not test."""
    parts = []
    for (seed, fold), rows in frame.groupby(["seed", "fold"]):
        rest = frame.loc[~frame["patient_id"].isin(rows["patient_id"]), ["slide_id", "patient_id"]].drop_duplicates()
        parts.append(rest.head(number).assign(seed=seed, fold=fold))
    return pd.concat(parts)


def test_one_test_set_has_delongs_figures_and_no_t() -> None:
    frame = predictions({"a": 0.8, "b": 1.6})
    test = frame[frame["fold"] == 0]
    row, mine = summarise(test, resamples=50).iloc[0], test[test["variant"] == "a"]
    want = delong_interval(mine["label"], mine["probability"])
    assert row["design"] == "hold-out"
    assert (row["auc_oof"], row["auc_low"], row["auc_high"]) == pytest.approx(want)
    got = compare_methods(test, training=training(frame, 40)[lambda t: t["fold"] == 0]).iloc[0]
    wanted = delong_test(mine["label"], mine["probability"], test.loc[test["variant"] == "b", "probability"])
    assert (got["difference"], got["delong_z"], got["delong_p"]) == pytest.approx(wanted)
    assert np.isnan(got["t_p"])
    assert got["resamples"] == 1
    twice = pd.concat([test, test.assign(fold=1, probability=test["probability"] ** 2)])  # the model trained twice
    assert summarise(twice, resamples=50).iloc[0][["design", "slides"]].tolist() == ["hold-out", 30]
    assert compare_methods(twice).iloc[0]["resamples"] == 1


def test_nothing_is_pooled_over_test_sets_that_overlap() -> None:
    frame = predictions({"a": 0.8, "b": 1.2}, slides=120, folds=4)
    moved = frame.assign(fold=10 + (frame["patient_id"].astype(int) // 4) % 4)
    moved = moved.assign(probability=moved["probability"] ** 2)
    both = pd.concat([frame, moved[moved["fold"] != 10]])
    sizes = training(both, 60)
    rows = summarise(both, training=sizes).set_index("variant")
    areas = both.groupby(["variant", "fold"]).apply(lambda g: roc_auc_score(g["label"], g["probability"]))
    assert (rows["design"] == "repeated hold-out").all()
    assert rows["auc_mean"].to_dict() == pytest.approx(areas.groupby("variant").mean().to_dict())
    assert rows[["auc_oof", "auc_low", "boot_low", "boot_high"]].isna().all(axis=None)
    n_test = len(both) / 2 / 7
    half = student.ppf(0.975, 6) * np.sqrt((1 / 7 + n_test / 60) * areas["a"].var(ddof=1))
    assert rows.loc["a", "auc_mean"] - rows.loc["a", "mean_low"] == pytest.approx(half)
    briers = both[both["variant"] == "a"].groupby("fold").apply(lambda g: ((g["label"] - g["probability"]) ** 2).mean())
    assert rows.loc["a", "brier"] == pytest.approx(briers.mean())
    got = compare_methods(both, training=sizes).iloc[0]
    assert np.isnan(got["delong_p"])
    assert got["difference"] == pytest.approx(got["fold_difference"])
    want = corrected_t_test(areas["a"] - areas["b"], n_train=60, n_test=n_test)
    assert (got["t"], got["t_p"], got["resamples"]) == pytest.approx((want.t, want.p, 7))
    with pytest.raises(StudyError, match="more than once by one method in one fold"):
        summarise(pd.concat([both, both.head(1)]))


def test_a_fold_of_one_class_is_left_out_and_counted() -> None:
    frame = predictions({"a": 0.8, "b": 1.0})
    frame.loc[frame["label"] == 1, "fold"] = frame["fold"].where(frame["fold"] != 2, 0)  # fold 2 keeps negatives only
    row = summarise(frame, resamples=50).iloc[0]
    assert row["undefined_folds"] == 1
    assert np.isfinite([row["auc_mean"], row["auc_std"], row["auc_oof"]]).all()
    got = compare_methods(frame).iloc[0]
    assert (got["resamples"], got["undefined_folds"]) == (2, 1)


def test_a_single_fold_has_no_spread_and_no_t() -> None:
    frame = predictions({"a": 0.8, "b": 1.0}, folds=1)
    assert np.isnan(summarise(frame, resamples=50)["auc_std"]).all()
    assert np.isnan(compare_methods(frame)["t_p"]).all()


def test_one_method_has_nothing_to_compare() -> None:
    got = compare_methods(predictions({"a": 1.0}))
    assert len(got) == 0
    assert "delong_p_holm" in got


def spoil(frame: pd.DataFrame, row: int, column: str, value: object) -> pd.DataFrame:
    return frame.astype({column: object}).assign(**{column: lambda f: f[column].where(f.index != row, value)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: spoil(f, 7, "probability", np.nan), "Slides 007 have no valid probability"),
        (lambda f: spoil(f, 7, "probability", 1.5), "Slides 007 have no valid probability"),
        (lambda f: spoil(f, 7, "probability", "high"), "Slides 007 have no valid probability"),
        (lambda f: spoil(f, 8, "patient_id", None), "Slides 008 lack one of"),
        (lambda f: spoil(f, 9, "label", 0), "Slides 009 have differing labels"),
        (lambda f: spoil(f, 9, "label", "x"), "expected two classes"),
        (lambda f: pd.concat([f, f.head(1)]), "Slides 000 are predicted more than once"),
        (lambda f: f.drop(index=[3, 4]), "a and b differ in the slides they predicted.*: 003, 004"),
        (lambda f: f.head(90).assign(label="x"), "expected two classes"),
        (lambda f: f.drop(columns="fold"), "expected variant, fold, seed"),
        (lambda f: f.drop(columns="probability"), "either `probability`"),
        (lambda f: f.assign(probability_a=0.5), "either `probability`"),
        (lambda f: f.head(0), "has no rows"),
    ],
)
def test_a_wrong_table_is_refused_by_name(change, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        compare_methods(change(predictions({"a": 0.5, "b": 1.0})))


def test_a_label_outside_the_classes_and_sums_off_one_are_refused() -> None:
    with pytest.raises(StudyError, match=r"Slides 000.* have a label that is none of x, y"):
        summarise(predictions({"a": 1.0}), classes=["x", "y"])
    with pytest.raises(StudyError, match="the classes are a, b"):
        summarise(multiclass(), classes=["a", "b"])
    with pytest.raises(StudyError, match=r"Slides 005 have no valid probability"):
        summarise(spoil(multiclass(), 5, "probability_a", 0.999))
