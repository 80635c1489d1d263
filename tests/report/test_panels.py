"""Curves with bands, calibration and confusion: they show the figures of the tables, in each method's colour."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from jigsawmil.drawing import own_style
from jigsawmil.report.plots.agreement import calibration_figure, confusion, confusion_figure
from jigsawmil.report.plots.curves import band_figure
from jigsawmil.report.plots.styles import method_styles
from jigsawmil.report.plots.trust import trust_figure
from jigsawmil.statistics.metrics import calibration_points
from jigsawmil.study.compare import summarise
from jigsawmil.study.predictions import pool

CLASSES = ("mixed", "segregated")
GRADES = ("low", "middle", "high")
Legible = Callable[[Figure], None]
Make = Callable[..., pd.DataFrame]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def area(line: object, kind: str) -> float:
    x, y = line.get_xydata().T  # type: ignore[attr-defined]
    return float((np.diff(x) * (y[1:] if kind == "pr" else (y[1:] + y[:-1]) / 2)).sum())


@pytest.mark.parametrize(("kind", "figure"), [("roc", "auc_oof"), ("pr", "auprc")])
def test_each_method_has_a_panel_with_its_curve_its_area_and_a_band_around_it(
    predictions: Make, rng: np.random.Generator, kind: str, figure: str
) -> None:
    table = predictions({"abmil": 0.5, "graph-mil": 1.5, "k = 8": 1.0})
    styles, summary = method_styles(table["variant"]), summarise(table, resamples=2).set_index("variant")
    drawn = band_figure(pool(table, CLASSES), CLASSES, kind, "graph-mil", styles, rng)
    assert len(drawn.axes) == 3
    for ax, (method, row) in zip(drawn.axes, summary.iterrows(), strict=True):
        name, stated = ax.get_title().split("\n")
        assert (name, f" {row[figure]:.3f} [" in stated) == (method, True)
        (own,) = [line for line in ax.get_lines() if to_hex(line.get_color()) == styles[method][0].lower()]
        assert area(own, kind) == pytest.approx(row[figure])
        (shade,) = ax.collections
        low, high = shade.get_datalim(ax.transData).intervaly
        assert 0 <= low < high <= 1
    bounds = f"[{summary.loc['abmil', 'auc_low']:.3f}, {summary.loc['abmil', 'auc_high']:.3f}]"
    assert (bounds in drawn.axes[0].get_title()) == (kind == "roc")


def test_a_part_of_the_methods_can_be_drawn_without_the_best(predictions: Make, rng: np.random.Generator) -> None:
    table = predictions({"abmil": 0.5, "graph-mil": 1.5})
    some = {"abmil": pool(table, CLASSES)["abmil"]}
    drawn = band_figure(some, CLASSES, "roc", "graph-mil", method_styles(table["variant"]), rng)
    assert [ax.get_title().split("\n")[0] for ax in drawn.axes] == ["abmil"]


def test_beyond_two_classes_a_panel_a_class_with_the_band_of_the_best(
    graded: pd.DataFrame, rng: np.random.Generator
) -> None:
    styles = method_styles(graded["variant"])
    drawn = band_figure(pool(graded, GRADES), GRADES, "roc", "graph-mil", styles, rng)
    assert [ax.get_title() for ax in drawn.axes] == [f"{name} against the rest" for name in GRADES]
    for ax in drawn.axes:
        assert len(ax.get_lines()) == 6  # five methods and chance
        assert [to_hex(shade.get_facecolor()[0]) for shade in ax.collections] == [styles["graph-mil"][0].lower()]


def test_points_of_calibration_are_the_tables_bins(predictions: Make, graded: pd.DataFrame) -> None:
    for table, classes, task in ((predictions(), CLASSES, "binary"), (graded, GRADES, "ordinal")):
        pooled, styles = pool(table, classes, task), method_styles(table["variant"])
        summary = summarise(table, classes, task, resamples=2).set_index("variant")
        for ax, (method, one) in zip(calibration_figure(pooled, styles).axes, pooled.items(), strict=True):
            hit = one.truth == 1 if task == "binary" else one.decision == one.truth
            p = one.probability[:, 1] if task == "binary" else one.probability.max(1)
            points = calibration_points(hit, p)
            (line,) = [line for line in ax.get_lines() if line.get_marker() == "o"]
            np.testing.assert_array_equal(line.get_xydata().T, [points.predicted, points.observed])
            row = summary.loc[method]
            assert ax.get_title() == f"{method}\nBrier {row['brier']:.3f}, ECE {row['ece']:.3f}"
            bars = np.array([path.vertices for path in ax.collections[0].get_paths()])  # (bin, end, xy)
            assert ((bars[:, 0, 1] <= points.observed) & (points.observed <= bars[:, 1, 1])).all()
            above, below = (line for line in ax.get_lines() if line.get_marker() == "|")
            assert (len(above.get_xdata()), len(below.get_xdata())) == (hit.sum(), (~hit).sum())


def test_confusion_counts_every_case_once_where_it_belongs(predictions: Make, graded: pd.DataFrame) -> None:
    one = pool(graded, GRADES)["graph-abmil"]
    counts = confusion(one, 3)
    assert counts.sum() == len(one.cases)
    for truth, called in np.ndindex(3, 3):
        assert counts[truth, called] == sum((one.truth == truth) & (one.decision == called))
    (ax, *_) = confusion_figure({"graph-abmil": one}, GRADES).axes
    assert [text.get_text().split("\n")[0] for text in ax.texts] == [str(n) for n in counts.ravel()]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(GRADES)
    assert ax.get_ylabel() == "truth"
    called = confusion(pool(predictions({"abmil": 1.0}), CLASSES)["abmil"], 2)
    recall = called.diagonal() / called.sum(1)
    summary = summarise(predictions({"abmil": 1.0}), CLASSES, resamples=2).iloc[0]
    assert recall.mean() == pytest.approx(summary["balanced_accuracy"])


def test_every_text_is_legible(
    predictions: Make, graded: pd.DataFrame, rng: np.random.Generator, legible: Legible
) -> None:
    long = ("invasive ductal carcinoma", "invasive lobular carcinoma")
    table = predictions({"abmil": 0.1, "graph-abmil+jigsaw 0.5": 1.0, "graph-abmil k=25 lambda=em-per-slide": 2.0})
    table["label"] = table["label"].map(dict(zip(CLASSES, long, strict=True)))
    line = np.linspace(0, 1, 3).tolist()
    curves = {"deletion": {"removed": line, "attention": line, "random": line}}
    curves["insertion"] = {"given": line, "attention": line, "random": line}
    styles, grades = method_styles(table["variant"]), method_styles(graded["variant"])
    with own_style():
        legible(band_figure(pool(table, long), long, "roc", "abmil", styles, rng))
        legible(band_figure(pool(graded, GRADES), GRADES, "pr", "abmil", grades, rng))
        legible(calibration_figure(pool(graded, GRADES, "ordinal"), grades))
        legible(confusion_figure(pool(table, long), long))
        legible(confusion_figure(pool(graded, GRADES), GRADES))
        legible(trust_figure(curves))
