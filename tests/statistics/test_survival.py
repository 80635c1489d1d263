"""Survival figures against scikit-survival, lifelines and what R's survival package prints of its own examples."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from lifelines.datasets import load_lung
from lifelines.statistics import multivariate_logrank_test
from sksurv import metrics as reference
from sksurv.util import Surv

from jigsawmil.errors import StudyError
from jigsawmil.statistics import (
    at_risk,
    brier,
    brier_gain_interval,
    brier_of_kaplan_meier,
    c_difference,
    c_interval,
    dynamic_auc,
    dynamic_auc_intervals,
    event_horizons,
    harrell_c,
    integrated_brier,
    integrated_brier_interval,
    kaplan_meier,
    log_rank,
    mean_auc_interval,
    uno_c,
)
from jigsawmil.statistics.intervals import any_patients

# R: survival::aml
MAINTAINED = ([9, 13, 13, 18, 23, 28, 31, 34, 45, 48, 161], [1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0])
NOT_MAINTAINED = ([5, 5, 8, 8, 12, 16, 23, 27, 30, 33, 43, 45], [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1])


@pytest.fixture(scope="module")
def lung() -> pd.DataFrame:
    table = load_lung()
    return table.assign(died=(table["status"] == table["status"].max()).astype(int))


def draw(seed: int, n: int = 80, ties: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    risk, censored = rng.normal(size=n), rng.exponential(2, size=n)
    failed = rng.exponential(np.exp(-risk))
    time, risk = np.minimum(failed, censored), risk + rng.normal(size=n)
    if ties:
        time, risk = np.ceil(time * 3), np.round(risk)
    return time, (failed <= censored).astype(int), risk


def test_kaplan_meier_is_what_r_prints_of_aml() -> None:
    """summary(survfit(Surv(time, status) ~ x, data = aml)): survival, its bounds, medians and their bounds."""
    curve = kaplan_meier(*MAINTAINED)
    failed = curve.events > 0
    assert curve.time[failed].tolist() == [9, 13, 18, 23, 31, 34, 48]
    assert curve.at_risk[failed].tolist() == [11, 10, 8, 7, 5, 4, 2]
    assert curve.survival[failed].round(3).tolist() == [0.909, 0.818, 0.716, 0.614, 0.491, 0.368, 0.184]
    assert curve.low[failed].round(4)[[0, 3, 6]].tolist() == [0.7541, 0.3769, 0.0359]
    assert curve.high[failed].round(3)[[0, 3, 5, 6]].tolist() == [1, 0.999, 0.875, 0.944]
    assert tuple(curve.median)[:2] == (31, 18)
    assert np.isnan(curve.median.high)
    other = kaplan_meier(*NOT_MAINTAINED)
    expected = [0.8333, 0.6667, 0.5833, 0.4861, 0.3889, 0.2917, 0.1944, 0.0972, 0.0]
    assert other.survival[other.events > 0].round(4).tolist() == expected
    assert tuple(other.median)[:2] == (23, 8)
    assert np.isnan([other.low[-1], other.median.high]).all()
    assert curve.at([0, 8.9, 9, 1000]).round(3).tolist() == [1, 1, 0.909, 0.184]
    assert curve.before([9, 13]).round(3).tolist() == [1, 0.909]
    assert at_risk(MAINTAINED[0], [0, 9, 9.1, 200]).tolist() == [11, 11, 10, 0]


def test_medians_are_what_r_prints_of_lung(lung: pd.DataFrame) -> None:
    """survfit(Surv(time, status) ~ sex, data = lung)."""
    medians = [tuple(kaplan_meier(rows["time"], rows["died"]).median) for _, rows in lung.groupby("sex")]
    assert medians == [(270, 212, 310), (426, 348, 550)]


def test_log_rank_is_what_r_prints(lung: pd.DataFrame) -> None:
    """survdiff of aml by x and of lung by sex."""
    both = [np.concatenate(pair) for pair in zip(MAINTAINED, NOT_MAINTAINED, strict=True)]
    found = log_rank(*both, np.repeat([0, 1], [11, 12]))
    assert (found.expected.round(2).tolist(), round(found.chi2, 1), round(found.p, 4)) == ([10.69, 7.31], 3.4, 0.0653)
    found = log_rank(lung["time"], lung["died"], lung["sex"])
    assert (found.observed.tolist(), found.expected.round(1).tolist()) == ([112, 53], [91.6, 73.4])
    assert (round(found.chi2, 1), found.df, round(found.p, 3)) == (10.3, 1, 0.001)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of lifelines
@pytest.mark.parametrize("seed", range(3))
def test_log_rank_of_several_groups_is_that_of_lifelines(seed: int) -> None:
    time, event, risk = draw(seed, ties=True)
    group = np.clip(risk, -1, 1)
    theirs = multivariate_logrank_test(time, group, event)
    ours = log_rank(time, event, group)
    assert (ours.chi2, ours.p) == pytest.approx((theirs.test_statistic, theirs.p_value))


def test_log_rank_of_one_group_is_not_defined() -> None:
    assert np.isnan(log_rank([1, 2], [1, 1], [0, 0]).p)
    assert np.isnan(log_rank([1, 2], [0, 0], [0, 1]).p)


def test_c_is_what_r_prints_of_lung(lung: pd.DataFrame) -> None:
    """coxph(Surv(time, status) ~ sex) has Concordance= 0.579 (se = 0.021), ~ age + sex 0.603 (se = 0.025)."""
    risk = 0.017045 * lung["age"] - 0.513219 * lung["sex"]
    for score, c, error in ((-lung["sex"], 0.579, 0.021), (risk, 0.603, 0.025)):
        found = c_interval(lung["time"], lung["died"], score, np.arange(len(lung)), seed=0)
        assert round(found.value, 3) == c
        assert (found.high - found.low) / 3.92 == pytest.approx(error, abs=0.0015)


@pytest.mark.parametrize("ties", [False, True])
def test_figures_are_those_of_scikit_survival(ties: bool) -> None:
    for seed in range(4):
        time, event, risk = draw(seed, ties=ties)
        train_time, train_event, _ = draw(seed + 100, n=200)
        train_time = train_time * time.max() / train_time.max() + 0.01
        train, test = Surv.from_arrays(train_event, train_time), Surv.from_arrays(event, time)
        assert harrell_c(time, event, risk) == reference.concordance_index_censored(event == 1, time, risk)[0]
        tau, horizons = np.quantile(time, 0.7), np.unique(np.quantile(time, [0.3, 0.5, 0.7]))
        theirs = reference.concordance_index_ipcw(train, test, risk, tau=tau)[0]
        assert uno_c(train_time, train_event, time, event, risk, tau) == pytest.approx(theirs)
        theirs = reference.cumulative_dynamic_auc(train, test, risk, horizons)[0]
        assert dynamic_auc(train_time, train_event, time, event, risk, horizons) == pytest.approx(theirs)
        survival = np.exp(-np.exp(risk)[:, None] * horizons / 3)
        theirs = reference.brier_score(train, test, survival, horizons)[1]
        assert brier(train_time, train_event, time, event, survival, horizons) == pytest.approx(theirs)
        theirs = reference.integrated_brier_score(train, test, survival, horizons)
        assert integrated_brier(train_time, train_event, time, event, survival, horizons) == pytest.approx(theirs)


def test_censored_cases_stay_at_risk_beyond_an_event_at_their_time() -> None:
    assert harrell_c([1, 1], [1, 0], [2, 1]) == 1  # the event came first
    assert np.isnan(harrell_c([1, 1], [1, 1], [2, 1]))  # two events are in no order
    assert np.isnan(harrell_c([1, 2], [0, 1], [2, 1]))
    time, event = [1, 2, 2, 3, 4], [1, 1, 0, 0, 1]
    weight = np.array([1, 1, 0, 0, 0.0])  # nobody was censored before 2; at 4 nobody is left to compare with
    risk = [0, 5, 1, 2, 3]
    right = [(i, j) for i in (0, 1) for j in range(i + 1, 5) if weight[i] and risk[i] > risk[j]]
    assert uno_c(time, event, time, event, risk) == len(right) / 7


def test_censoring_moves_harrells_c_but_not_unos() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    risk = rng.normal(size=n)
    failed = rng.weibull(1, n) * np.exp(-risk)
    time, event = np.minimum(failed, censored := rng.exponential(0.4, n)), failed <= censored
    tau = 0.6
    whole = uno_c(failed, np.ones(n), failed, np.ones(n), risk, tau)
    assert uno_c(time, event, time, event, risk, tau) == pytest.approx(whole, abs=0.006)
    assert harrell_c(time, event, risk) > whole + 0.01


def test_intervals_count_patients_and_perfect_order_keeps_its_doubt() -> None:
    time, event, risk = draw(1, 60)
    one = c_interval(time, event, risk, np.arange(60), 3)
    copied = c_interval(*(np.repeat(column, 3) for column in (time, event, risk)), np.repeat(np.arange(60), 3), 3)
    assert copied == pytest.approx(one)
    assert one.low < one.value < one.high
    perfect = c_interval(time, np.ones(60), -time, np.arange(60), 0)
    assert (perfect.value, perfect.low, perfect.high) == (1, pytest.approx(0.025 ** (1 / 30)), 1)
    constant = c_interval(time, event, np.zeros(60), np.arange(60), 0)
    assert constant.value == 0.5
    assert constant.high - constant.low > 0.2


def test_a_resample_is_a_cohort_with_copies() -> None:
    time, event, risk = draw(2, 40, ties=True)
    patients, rng = np.arange(40) // 2, np.random.default_rng(5)
    found = c_interval(time, event, risk, patients, 5, train=(time, event), resamples=50)
    values = []
    for counts in rng.multinomial(20, np.full(20, 1 / 20), size=50):
        rows = np.repeat(np.arange(40), counts[patients])
        weighted = uno_c(time, event, time[rows], event[rows], risk[rows])
        values.append(weighted)
    assert found[1:] == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))


def test_a_difference_is_found_if_there_is_one_and_only_then() -> None:
    time, event, risk = draw(3, 150)
    noise, patients = np.random.default_rng(0).normal(size=150), np.arange(150)
    found = c_difference(time, event, risk, noise, patients, 0)
    assert found.difference == pytest.approx(harrell_c(time, event, risk) - harrell_c(time, event, noise))
    assert found.low > 0
    assert found.p < 0.01
    assert c_difference(time, event, risk, risk, patients, 0)[2:] == (0, 0, 1)
    p = []
    for seed in range(60):
        a, b = np.random.default_rng(seed + 1000).normal(size=(2, 60))
        p.append(c_difference(*draw(seed, 60)[:2], a, b, np.arange(60), 0, resamples=200).p)
    assert np.mean(np.array(p) < 0.05) <= 0.12
    assert 0.3 < np.median(p) < 0.7


def test_brier_rewards_what_is_known_and_has_an_interval() -> None:
    time, event, risk = draw(4, 200)
    horizons, patients = event_horizons(time, event), np.arange(200)
    truth = np.exp(-np.exp(risk / 2)[:, None] * horizons)
    base = brier_of_kaplan_meier(time, event, time, event, horizons)
    scores = brier(time, event, time, event, truth, horizons)
    assert (scores < base).all()
    interval = integrated_brier_interval(time, event, time, event, truth, horizons, patients, 0)
    assert interval.low < integrated_brier(time, event, time, event, truth, horizons) < interval.high
    areas = dynamic_auc_intervals(time, event, time, event, risk, horizons, patients, 0)
    assert all(one.low < one.value < one.high for one in areas)
    assert all(a < b for a, b in pairwise(horizons))
    assert np.isnan(dynamic_auc(time, event, time, event, risk, [time.max() + 1])).all()


def test_intervals_of_all_figures_are_percentiles_over_the_same_patients() -> None:
    """Of the mean AUROC over the horizons, and of the Brier score against Kaplan-Meier's: a loop over copies."""
    time, event, risk = draw(3, 60)
    patients, horizons, own = np.arange(60) // 2, np.array([0.3, 0.8, 1.5]), (time, event)
    survival = np.exp(-np.exp(risk)[:, None] * horizons)
    area = mean_auc_interval(*own, *own, risk, horizons, patients, 5, resamples=40)
    gain = brier_gain_interval(*own, *own, survival, horizons, patients, 5, resamples=40)
    assert area.value == pytest.approx(dynamic_auc(*own, *own, risk, horizons).mean())
    known = np.tile(kaplan_meier(*own).at(horizons), (60, 1))
    gaps = [integrated_brier(*own, *own, p, horizons) for p in (known, survival)]
    assert gain.value == pytest.approx(gaps[0] - gaps[1])
    perfect = mean_auc_interval(*own, *own, -time, horizons, patients, 5, resamples=40)
    assert perfect == c_interval(*own, -time, patients, 5, resamples=40)  # in perfect order, with a width
    [one] = dynamic_auc_intervals(*own, *own, -time, horizons[:1], patients, 5, resamples=40)
    assert one.value == one.high == 1
    assert one.low < 0.9
    areas, gains = [], []
    for counts in any_patients(patients, 5, 40).astype(int):
        rows = np.repeat(np.arange(60), counts)
        drawn = (time[rows], event[rows])
        found = dynamic_auc(*own, *drawn, risk[rows], horizons)
        areas.append(found[np.isfinite(found)].mean())
        theirs, ours = (integrated_brier(*own, *drawn, p[rows], horizons) for p in (known, survival))
        gains.append(theirs - ours)
    assert (area.low, area.high) == pytest.approx(tuple(np.quantile(areas, [0.025, 0.975])))
    assert (gain.low, gain.high) == pytest.approx(tuple(np.quantile(gains, [0.025, 0.975])))


def test_what_is_no_time_is_refused_by_its_row() -> None:
    with pytest.raises(StudyError, match=r"Times of cases 1 are -2.0; expected numbers from 0 on"):
        kaplan_meier([1, -2], [1, 0])
    with pytest.raises(StudyError, match="Events 0, 2; expected 1"):
        harrell_c([1, 2], [0, 2], [0, 1])
    with pytest.raises(StudyError, match="Risks of cases 0 are nan"):
        harrell_c([1, 2], [0, 1], [np.nan, 1])
    with pytest.raises(StudyError, match=r"\(2, 3\) for 2 cases and 1 horizons"):
        brier([1, 2], [0, 1], [1, 2], [0, 1], np.ones((2, 3)), [1])
