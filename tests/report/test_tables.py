"""Tables say what the frames say, name what they rest on, and fit the terminal."""

import re
from collections.abc import Callable
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from jigsawmil.cli.terminal import rendered
from jigsawmil.errors import StudyError
from jigsawmil.report.tables import Table, comparison_table, summary_table
from jigsawmil.study.compare import compare_methods, summarise

GRADES = ["low", "middle", "high"]
Make = Callable[..., pd.DataFrame]


def text(table: Table, width: int = 80) -> str:
    console = Console(width=300, file=StringIO())
    console.print(rendered(table, width))
    return console.file.getvalue()


def joined(table: Table, width: int = 80) -> str:
    """The text on one line, so that a sentence broken over lines is found."""
    return " ".join(text(table, width).split())


@pytest.fixture(scope="module")
def summary(predictions: Make) -> pd.DataFrame:
    return summarise(predictions(), resamples=50).assign(cohort="phantom")


@pytest.fixture(scope="module")
def comparisons(predictions: Make) -> pd.DataFrame:
    return compare_methods(predictions()).assign(cohort="phantom")


def test_every_method_has_a_row_with_the_figures_of_the_frame(summary: pd.DataFrame) -> None:
    lines = text(summary_table(summary)).splitlines()
    for row in summary.itertuples():
        (line,) = [line for line in lines if line.split()[:1] == [row.variant]]
        expected = [row.auc_mean, row.auc_std, row.auc_oof, row.auc_low, row.auc_high, row.auc_patient]
        found = [float(x) for x in re.findall(r"\d\.\d{3}", line.removeprefix(row.variant))]
        assert found == [*(round(x, 3) for x in expected), round(row.balanced_accuracy, 3)]


def test_the_summary_says_what_it_rests_on(summary: pd.DataFrame, predictions: Make) -> None:
    said = joined(summary_table(summary))
    assert "phantom: positive class segregated; 100 slides of 80 patients; 3 folds" in said
    assert "DeLong's interval" in said
    assert "80 patients, one case each" in joined(summary_table(summary.assign(slides=80)))  # a bag may be a patient
    assert "2 seeds" in joined(summary_table(summarise(predictions(seeds=2), resamples=2).assign(cohort="phantom")))


def test_the_positive_class_is_the_one_that_was_stated(predictions: Make) -> None:
    turned = predictions().assign(probability=lambda f: 1 - f["probability"])
    summary = summarise(turned, ["segregated", "mixed"], resamples=2).assign(cohort="phantom")
    assert "positive class mixed;" in joined(summary_table(summary))


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_nothing_is_wider_than_the_terminal_and_no_figure_is_cut(
    summary: pd.DataFrame, comparisons: pd.DataFrame, width: int
) -> None:
    longer = " lambda=em-per-slide k=25 of a study with long names"
    summaries = [
        summary,
        pd.concat([summary, summary.assign(cohort="TCGA-COAD diagnostic", variant=summary["variant"] + longer)]),
    ]
    pairs = [
        comparisons,
        comparisons.assign(variant_a=comparisons["variant_a"] + longer, variant_b=comparisons["variant_b"] + longer),
    ]
    for frame in summaries:
        said = text(summary_table(frame), width)
        assert max(map(len, said.splitlines())) <= width
        assert "…" not in said
        assert all(
            f"{area:.3f} [{low:.3f}" in said for area, low in zip(frame["auc_oof"], frame["auc_low"], strict=True)
        )
    for frame in pairs:
        said = text(comparison_table(frame), width)
        assert max(map(len, said.splitlines())) <= width
        assert all(f"{abs(gap):.3f}" in said for gap in frame["difference"])
        assert "…" not in said


def test_more_room_shows_more_figures(summary: pd.DataFrame) -> None:
    assert "Brier" not in text(summary_table(summary), 80)
    said = text(summary_table(summary), 140)
    assert "Brier" in said
    assert all(f"{x:.3f}" in said for x in summary["brier"])


def test_what_is_undefined_is_a_dash_and_is_counted(predictions: Make) -> None:
    frame = predictions({"abmil": 1.0})
    positive = frame["label"] == "segregated"
    one_class = frame[~positive | (frame["fold"] != 0)]
    summary = summarise(one_class, resamples=2).assign(cohort="phantom")
    said = joined(summary_table(summary))
    assert "1 test fold without all classes" in said
    assert "nan" not in said
    single = summarise(frame.assign(fold=0), resamples=2).assign(cohort="phantom")  # one fold has no standard deviation
    row = next(line for line in text(summary_table(single)).splitlines() if line.startswith("abmil"))
    assert "±" not in row
    assert "nan" not in row


def test_beyond_two_classes_the_bootstrap_stands_in(graded: pd.DataFrame) -> None:
    summary = summarise(graded, GRADES, "ordinal", resamples=50).assign(cohort="PANDA")
    said = joined(summary_table(summary))
    assert "each class against the rest" in said
    assert "bootstrap interval over patients" in said
    assert "DeLong" not in said
    assert "kappa" in said
    best = summary.iloc[-1]
    assert f"{best['auc_oof']:.3f} [{best['boot_low']:.3f}, {best['boot_high']:.3f}]" in said
    assert "nan" not in joined(comparison_table(compare_methods(graded, GRADES).assign(cohort="PANDA")))


def test_rows_of_a_cohort_stand_together_under_its_name(summary: pd.DataFrame) -> None:
    other = summary.assign(cohort="COAD", positive="MSI", auc_oof=summary["auc_oof"] / 2)
    mixed = pd.concat([summary, other]).sort_values("variant")  # cohorts alternate
    lines = text(summary_table(mixed)).splitlines()
    assert any(line.startswith("COAD: positive class MSI;") for line in lines)
    at = {
        name: next(i for i, line in enumerate(lines) if re.match(rf"{name} +\S", line)) for name in ("phantom", "COAD")
    }
    first, second = sorted(at.values())
    assert second - first in (5, 6)  # five methods, and perhaps a blank line
    block = lines[at["COAD"] : at["COAD"] + 5]
    assert all(any(f"{area:.3f} [" in line for line in block) for area in other["auc_oof"])


def test_of_one_test_set_there_is_no_mean_of_folds(predictions: Make) -> None:
    frame = predictions()
    one = frame[frame["fold"] == 0]
    rows = summarise(one, resamples=50).assign(cohort="phantom")
    for table in (summary_table(rows), comparison_table(compare_methods(one).assign(cohort="phantom"))):
        assert "±" not in text(table, 200)
        assert "mean of" not in text(table, 200)
    said = joined(summary_table(rows))
    assert "one test set, 1 training" in said
    assert "Test set: each case once, with DeLong's interval." in said
    twice = pd.concat([one, one.assign(seed=1, probability=one["probability"] ** 2)])
    assert "±" in text(summary_table(summarise(twice, resamples=50).assign(cohort="phantom")), 200)


def test_names_are_text_not_markup(summary: pd.DataFrame) -> None:
    odd = summary.assign(variant=summary["variant"] + " [red]x[/red]", positive="[bold]")
    said = joined(summary_table(odd), 120)
    assert "abmil [red]x[/red]" in said
    assert "positive class [bold];" in said


def test_pooling_that_hurts_is_pointed_out(summary: pd.DataFrame) -> None:
    assert "calibrated" not in joined(summary_table(summary))
    hurt = summary.assign(auc_mean=summary["auc_oof"] + np.where(summary["variant"] == "graph-mil", 0.08, 0.0))
    assert "Pooled far below the folds for graph-mil:" in joined(summary_table(hurt))


def test_pairs_stand_with_the_better_first_and_their_adjusted_p(comparisons: pd.DataFrame) -> None:
    lines = [line.split() for line in text(comparison_table(comparisons)).splitlines()]
    rows = {(line[0], line[1]): line[2:] for line in lines if len(line) >= 5 and line[2].startswith("+")}
    assert len(rows) == len(comparisons) == 10
    for row in comparisons.itertuples():
        better, worse = (row.variant_a, row.variant_b) if row.difference >= 0 else (row.variant_b, row.variant_a)
        gap, delong, t, over_folds = rows[better, worse]
        assert float(gap) == pytest.approx(abs(row.difference), abs=6e-4)
        assert float(over_folds) == pytest.approx(row.fold_difference * np.sign(row.difference), abs=6e-4)
        for shown, p in ((delong, row.delong_p_holm), (t, row.t_p_holm)):
            assert shown == ("<0.001" if p < 0.001 else f"{p:.3f}")


def test_the_comparison_says_how_to_read_it(comparisons: pd.DataFrame) -> None:
    said = joined(comparison_table(comparisons))
    assert "Holm-adjusted for 10 pairs" in said
    assert "a case is a patient" in said
    assert "With 3 folds the latter finds only large, consistent differences." in said
    assert "does not show that two methods are equal" in said
    assert "large, steady" not in joined(comparison_table(comparisons.assign(resamples=10)))


def test_one_method_has_nothing_to_compare(comparisons: pd.DataFrame) -> None:
    for empty in (comparisons[:0], pd.DataFrame()):
        assert "no pair to compare" in joined(comparison_table(empty))


def test_a_table_of_something_else_is_refused(summary: pd.DataFrame) -> None:
    with pytest.raises(StudyError, match="auc_oof"):
        summary_table(summary.drop(columns="auc_oof"))
    with pytest.raises(StudyError, match="variant_a"):
        comparison_table(summary)
