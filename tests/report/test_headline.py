"""The headline says what the tables say: no more, and not less."""

import numpy as np
import pandas as pd
import pytest

from jigsawmil.report.headline import answer, behind, overall
from jigsawmil.study.compare import compare_methods, summarise

NAN = float("nan")


def summary(**areas: tuple[float, float, float]) -> pd.DataFrame:
    """method = AUROC, low, high; a name's underscore is a plus."""
    rows = [{"variant": m, "auc_oof": a, "auc_low": low, "auc_high": high} for m, (a, low, high) in areas.items()]
    return pd.DataFrame(rows)


def pairs(*rows: tuple[str, str, float, float]) -> pd.DataFrame:
    found = [{"variant_a": a, "variant_b": b, "delong_p_holm": d, "t_p_holm": t} for a, b, d, t in rows]
    return pd.DataFrame(found).assign(difference=-0.2, fold_difference=-0.1, auc_a=0.6, auc_b=0.8, level="slide")


def test_a_perfect_ranking_of_few_cases_is_told_from_chance() -> None:
    """5 positives of 30 in order: one arrangement of 142,506, so no luck."""
    rows = [
        {"variant": "graph", "seed": 0, "fold": i % 5, "slide_id": f"s{i}", "patient_id": f"p{i}", "label": name, **own}
        for i in range(30)
        for name, own in [("pos" if i < 5 else "neg", {"probability": 1 - i / 30})]
    ]
    found = summarise(pd.DataFrame(rows).assign(cohort="c"), ("neg", "pos"))
    assert answer(found, pd.DataFrame(), "graph").headline.endswith(
        "AUROC of 1.000 [0.770, 1.000], better than chance."
    )


TWO = summary(abmil=(0.6, 0.52, 0.7), graph=(0.8, 0.7, 0.9))


@pytest.mark.parametrize(
    ("delong", "t", "said", "apart"),
    [
        (0.01, 0.02, "by both tests it is significantly better than the baseline, abmil (0.600)", True),
        (
            0.01,
            0.2,
            "by DeLong's test it is significantly better than the baseline, abmil (0.600), but not by the corrected "
            "t-test",
            True,
        ),
        (NAN, 0.01, "by the corrected t-test it is significantly better than the baseline", True),
        (0.2, 0.3, "No method differs significantly from another; graph has the highest AUROC, 0.800", False),
        (NAN, NAN, "No method differs significantly from another", False),
    ],
)
def test_what_the_tests_say_of_the_best_and_the_baseline(delong: float, t: float, said: str, apart: bool) -> None:
    found = answer(TWO, pairs(("abmil", "graph", delong, t)), "abmil")
    assert said in found.headline
    assert "0.800 [0.700, 0.900]" in found.headline
    assert (found.best, found.apart) == ("graph", apart)


def test_better_than_another_is_not_better_than_the_baseline() -> None:
    three = pd.concat([TWO, summary(other=(0.3, 0.2, 0.4))])
    tests = pairs(("abmil", "graph", 0.3, 0.4), ("graph", "other", 0.001, 0.01), ("abmil", "other", 0.01, 0.2))
    assert "but it is not significantly better than the baseline, abmil" in answer(three, tests, "abmil").headline
    first = answer(three, tests, "graph")
    assert (
        first.headline
        == "No method improves on the baseline, graph, which has the highest AUROC, 0.800 [0.700, 0.900]."
    )
    assert "graph does not differ significantly from abmil." in first.further


def test_chance_is_told() -> None:
    none = summary(abmil=(0.52, 0.4, 0.6), graph=(0.6, 0.45, 0.7))
    found = answer(none, pairs(("abmil", "graph", 0.5, 0.5)), "abmil")
    assert found.headline.startswith(
        "No method differs significantly from chance or from another method; graph has the highest AUROC"
    )
    some = summary(abmil=(0.52, 0.4, 0.6), graph=(0.8, 0.7, 0.9))
    found = answer(some, pairs(("abmil", "graph", 0.001, 0.01)), "abmil")
    assert "Not significantly different from chance (0.5): abmil." in found.further


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((0.6, 0.4, 0.8), "abmil reaches an AUROC of 0.600 [0.400, 0.800], not significantly different from chance."),
        ((0.8, 0.6, 0.9), "better than chance."),
        ((0.2, 0.1, 0.4), "worse than chance."),
        ((NAN, NAN, NAN), "No AUROC is defined"),
    ],
)
def test_one_method_is_compared_with_chance_alone(bounds: tuple[float, float, float], said: str) -> None:
    assert said in answer(summary(abmil=bounds), pd.DataFrame(), "abmil").headline


def test_beyond_two_classes_the_bootstrap_bounds_the_answer(graded: pd.DataFrame) -> None:
    grades = ["low", "middle", "high"]
    table = summarise(graded, grades, "ordinal", resamples=100)
    found = answer(table, compare_methods(graded, grades), "abmil")
    row = table.set_index("variant").loc[found.best]
    assert f"[{row['boot_low']:.3f}, {row['boot_high']:.3f}]" in found.headline
    assert "DeLong" not in found.headline


def test_the_best_is_said_to_be_chosen_after_the_fact(predictions) -> None:
    table = predictions()
    found = answer(summarise(table, resamples=5), compare_methods(table), "abmil")
    assert any("after seeing the results" in line for line in found.further)


def test_tests_of_patients_are_cited_with_the_figures_of_patients() -> None:
    tests = pairs(("abmil", "graph", 0.01, 0.02)).assign(level="patient", auc_a=0.509, auc_b=0.925, difference=-0.416)
    found = answer(TWO, tests, "abmil")
    assert "0.800 [0.700, 0.900]; by both tests it is significantly better" in found.headline
    assert "abmil (by patient 0.925 against 0.509)." in found.headline
    assert "by patient, AUROC 0.925 against 0.509, difference +0.416" in behind(tests, "graph", "abmil")


def test_the_headline_follows_the_advice_to_quote_the_mean_of_folds() -> None:
    """Pooled, graph is best; by its folds, abmil, whose folds are calibrated differently."""
    table = TWO.assign(auc_mean=[0.85, 0.81], auc_std=0.04)
    tests = pairs(("graph", "abmil", 0.001, 0.03)).assign(fold_difference=-0.04)
    found = answer(table, tests, "graph")
    assert found.headline == (
        "abmil has the highest AUROC, 0.850 ± 0.040 (mean of folds); by the corrected t-test it is significantly "
        "better than the baseline, graph (0.810)."
    )
    assert any("pooled AUROC of abmil is far below its folds" in line for line in found.further)
    assert "No method differs significantly" in answer(table, tests.assign(t_p_holm=0.3), "graph").headline


def test_a_test_that_finds_the_baseline_better_does_not_tell_for_the_best() -> None:
    tests = pairs(("abmil", "graph", 0.01, 0.01)).assign(difference=0.3, fold_difference=-0.1, level="patient")
    found = answer(TWO, tests, "abmil")
    assert "by the corrected t-test it is significantly better" in found.headline
    assert "DeLong" not in found.headline


def test_over_cohorts_those_with_a_difference_are_counted_and_named() -> None:
    won = answer(TWO, pairs(("abmil", "graph", 0.01, 0.02)), "abmil")
    lost = answer(TWO, pairs(("abmil", "graph", 0.5, 0.5)), "abmil")
    assert overall({"a": won, "b": lost, "c": lost}, "abmil").startswith("In 1 of 3 cohorts (a) the best method is")
    assert overall({"a": lost, "b": lost}, "abmil").startswith("In none of 2 cohorts")
    assert overall({"a": won, "b": won}, "").startswith(
        "In all 2 cohorts the best method is significantly better than its"
    )


def test_the_figures_behind_the_headline() -> None:
    tests = pairs(("abmil", "graph", 0.0001, 0.0312))
    assert behind(tests, "graph", "abmil") == (
        "graph against abmil: AUROC 0.800 against 0.600, difference +0.200 (mean of folds +0.100); DeLong: p <0.001; "
        "corrected t: p = 0.031."
    )
    undefined = tests.assign(delong_p_holm=np.nan, t_p_holm=np.nan)
    assert "no test is defined" in behind(undefined, "graph", "abmil")
    assert behind(tests, "abmil", "abmil") == ""
