"""Pictures of survival and of measured values show the figures they state, with nothing overlapping."""

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from jigsawmil.drawing import own_style
from jigsawmil.report.plots.styles import method_styles
from jigsawmil.report.plots.survival import Followed, Forecast, kaplan_meier_figure, survival_calibration_figure
from jigsawmil.report.plots.values import Measured, difference_figure, scatter_figure
from jigsawmil.statistics import at_risk, kaplan_meier, log_rank, risk_groups

Legible = Callable[[Figure], None]
NAMES = ["abmil", "abmil+jigsaw", "graph-abmil", "graph-abmil+jigsaw", "committee of 8 different models"]


def follow(seed: int, n: int = 80, groups: int = 2) -> tuple[Followed, Forecast]:
    rng = np.random.default_rng(seed)
    risk = rng.normal(size=n)
    failed, left = rng.exponential(24 * np.exp(-risk)), rng.uniform(12, 120, n)
    time, event = np.minimum(failed, left), failed <= left
    survival = np.exp(-np.exp(risk)[:, None] * np.array([6.0, 12.0, 24.0]) / 24)
    return Followed(time, event, risk_groups(risk, np.arange(n) % 5, groups)), Forecast(time, event, survival)


def measure(seed: int) -> Measured:
    rng = np.random.default_rng(seed)
    target = rng.normal(50, 12, 90)
    return Measured(target, target + rng.normal(3, 9, 90))


@pytest.mark.parametrize("number", [1, 5])
def test_every_text_is_legible(number: int, legible: Legible) -> None:
    names = NAMES[:number]
    cases = {name: follow(i) for i, name in enumerate(names)}
    values = {name: measure(i) for i, name in enumerate(names)}
    with own_style():
        legible(kaplan_meier_figure({name: one for name, (one, _) in cases.items()}, "months"))
        legible(kaplan_meier_figure({name: follow(i, 1200, 3)[0] for i, name in enumerate(names)}))
        figure = survival_calibration_figure({n: one for n, (_, one) in cases.items()}, np.array([6.0, 12, 24]), "days")
        legible(figure)
        legible(scatter_figure(values, method_styles(values)))
        legible(difference_figure(values, method_styles(values)))


def test_curves_and_numbers_at_risk_are_those_of_the_groups() -> None:
    one = follow(3)[0]
    with own_style():
        figure = kaplan_meier_figure({"abmil": one})
    ax, table = figure.axes
    low, _, high, _ = ax.get_lines()  # each with the ticks of its censored cases
    for line, group in ((low, 0), (high, 1)):
        curve = kaplan_meier(one.time[one.group == group], one.event[one.group == group])
        np.testing.assert_array_equal(line.get_xydata()[1:], np.stack([curve.time, curve.survival], 1))
    assert f"p = {log_rank(*one).p:.3f}" in ax.get_title(loc="left") or "p < 0.001" in ax.get_title(loc="left")
    shown = [int(text.get_text()) for text in table.texts]
    ticks = [text.get_position()[0] for text in table.texts][: len(shown) // 2]
    assert shown == [*at_risk(one.time[one.group == 0], ticks), *at_risk(one.time[one.group == 1], ticks)]


def test_groups_are_halves_of_each_fold_whatever_its_scale() -> None:
    risk = np.concatenate([np.arange(10.0), 100 + np.arange(10.0)])
    assert risk_groups(risk, np.repeat([0, 1], 10)).tolist() == [0] * 5 + [1] * 5 + [0] * 5 + [1] * 5
    assert np.bincount(risk_groups(risk, np.zeros(20), 3)).tolist() == [7, 6, 7]


def test_a_point_of_calibration_is_the_survival_of_its_cases() -> None:
    forecast = follow(4, 100)[1]
    with own_style():
        figure = survival_calibration_figure({"abmil": forecast}, np.array([6.0, 12.0, 24.0]))
    points = figure.axes[0].get_lines()[2].get_xydata()  # after the diagonal and 6 months
    order = np.argsort(forecast.survival[:, 1])[:20]
    assert points[0, 0] == pytest.approx(forecast.survival[order, 1].mean())
    assert points[0, 1] == pytest.approx(kaplan_meier(forecast.time[order], forecast.event[order]).at(12.0))


def test_limits_of_agreement_hold_nearly_all_differences() -> None:
    values = {"abmil": measure(0)}
    with own_style():
        ax = difference_figure(values, method_styles(values)).axes[0]
    _, mean, low, high, points = (line.get_ydata() for line in ax.get_lines())
    assert mean[0] == pytest.approx(points.mean())
    assert 0.9 < np.mean((points > low[0]) & (points < high[0])) < 1
    assert f"{mean[0]:+.3g}" in ax.get_title(loc="left")
