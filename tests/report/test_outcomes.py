"""What a report says of survival and of measured values: figures with their intervals, at the horizons asked for."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jigsawmil.errors import ConfigError
from jigsawmil.report.attention import attention_rows
from jigsawmil.report.page import report_page, write_report
from jigsawmil.statistics import brier, brier_of_kaplan_meier, dynamic_auc_intervals, mean_auc_interval
from jigsawmil.study.run import Run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.tasks import get_task
from jigsawmil.train.settings import Settings

Options = Callable[[str], dict[str, Any]]
QUICK: dict[str, Any] = {"hidden": 8, "attention_dim": 4, "k": 4, "epochs": 2, "patience": 0, "device": "cpu"}
METHODS = ("graph-mil", "abmil")
QUOTED = ("c_index", "uno_c", "dynamic_auc", "integrated_brier", "brier_gain")


@pytest.fixture(scope="module")
def runs(outcome_options: Options, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Task -> a finished run of two methods. Not to be changed."""
    found = {}
    for task in ("survival", "regression"):
        out = tmp_path_factory.mktemp("outcomes") / task
        variants = {name: Settings(method=name, **QUICK) for name in METHODS}
        cohorts = {"c": cohort_spec(outcome_options(task))}
        found[task] = cross_validate(Study(cohorts=cohorts, variants=variants, folds=2, attention=True), out)
    return found


def cells(page: str, title: str) -> list[list[str]]:
    """The first table below a title, without its header."""
    part = page[page.index(f">{title}</h2>") :]
    rows = re.findall("<tr>(.*?)</tr>", part[: part.index("</table>")], re.DOTALL)
    found = [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows[1:]]
    return [[re.sub("<[^>]*>", "", cell.replace("<br>", " ")) for cell in row] for row in found]


def test_every_figure_of_survival_has_an_interval_in_the_summary_and_in_the_report(runs: dict[str, Run]) -> None:
    run = runs["survival"]
    rows = cells(unescape(report_page(run)), "Results")
    for _, row in run.summary.iterrows():
        for name in QUOTED:
            value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
            assert low <= value <= high
            assert low < high
            [shown] = [own for own in rows if own[0] == row["variant"]]
            assert f"{value:.3f} [{low:.3f}, {high:.3f}]" in shown
    assert row["brier_gain"] == pytest.approx(row["integrated_brier_km"] - row["integrated_brier"])
    table = run.predictions[run.predictions["variant"] == "abmil"].sort_values("slide_id")
    own = table["time"].to_numpy(), table["event"].to_numpy()
    names = [name for name in table if name.startswith("survival_")]
    times = np.array([float(name.removeprefix("survival_")) for name in names])
    kept = (times < own[0].max()) & (times >= own[0][own[1] > 0].min())
    risk = 1 - table[names].to_numpy()[:, kept]
    again = mean_auc_interval(*own, *own, risk, times[kept], table["patient_id"], 0)
    row = run.summary.set_index("variant").loc["abmil"]
    assert (row["dynamic_auc_low"], row["dynamic_auc_high"]) == pytest.approx((again.low, again.high))


@pytest.mark.parametrize("asked", [(), (2.5, 10.0)])
def test_auroc_and_calibration_at_each_horizon_are_of_patients(runs: dict[str, Run], asked: tuple[float, ...]) -> None:
    """A patient's slides are one case; what lies between two horizons of the model is interpolated."""
    run = runs["survival"]
    classes = run.classes["c"]
    quartiles = sorted({(len(classes) - 1) * n // 4 for n in (1, 2, 3)})
    wanted = asked or tuple(float(classes[1 + index]) for index in quartiles)
    rows = cells(unescape(report_page(run, horizons=asked)), "Calibration at horizons")
    assert len(rows) == len(METHODS) * len(wanted)
    table = run.predictions[run.predictions["variant"] == "abmil"]
    assert table["patient_id"].nunique() < len(table)
    names = [f"survival_{name}" for name in classes[1:]]
    whole = table.groupby("patient_id").agg({"time": "first", "event": "first", **dict.fromkeys(names, "mean")})
    knots = np.array([0.0, *map(float, classes[1:])])
    curve = np.array([np.interp(wanted, knots, [1.0, *row]) for row in whole[names].to_numpy()])
    own = whole["time"].to_numpy(), whole["event"].to_numpy()
    areas = dynamic_auc_intervals(*own, *own, 1 - curve, wanted, whole.index, 0)
    scores, known = brier(*own, *own, curve, wanted), brier_of_kaplan_meier(*own, *own, wanted)
    for index, shown in enumerate(rows[-len(wanted) :]):
        died, beyond = int((own[1] * (own[0] <= wanted[index])).sum()), int((own[0] > wanted[index]).sum())
        value, low, high = areas[index]
        area = f"{value:.3f} [{low:.3f}, {high:.3f}]" if np.isfinite(low) else "-"
        assert shown == [
            "abmil", f"{wanted[index]:g}", str(died), str(beyond), area, f"{scores[index]:.3f}", f"{known[index]:.3f}"
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "horizons", "told"),
    [
        ("survival", [3.0, 2.0], "rising times above 0"),
        ("survival", [0.0, 2.0], "rising times above 0"),
        ("survival", [2.0, 1e6], "to which the predicted curves reach"),
        ("regression", [2.0], "no cohort with survival times"),
    ],
)
def test_horizons_at_which_nothing_is_known_are_refused(
    runs: dict[str, Run], tmp_path: Path, task: str, horizons: list[float], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        write_report(runs[task].folder, tmp_path / "report.html", horizons=horizons)
    assert not (tmp_path / "report.html").exists()


def test_horizons_are_given_at_the_command_line(runs: dict[str, Run], jigsawmil: Any, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert jigsawmil("report", runs["survival"].folder, "--horizons", "2.5, 10", "--out", out).code == 0
    assert [row[1] for row in cells(unescape(out.read_text()), "Calibration at horizons")] == ["2.5", "10"] * 2
    ran = jigsawmil("report", runs["survival"].folder, "--horizons", "soon")
    assert "--horizons soon: expected times such as 12,36,60" in ran.err


@pytest.mark.parametrize(("task", "groups"), [("survival", ["event", "censored"]), ("regression", None)])
def test_attention_is_shown_of_a_slide_per_group(runs: dict[str, Run], task: str, groups: list[str] | None) -> None:
    run = runs[task]
    rows = attention_rows(run, "c")
    known = get_task(task).cohort_rows(list(run.slides["label"].astype(str)), run.classes["c"])
    assert [row.label for row in rows] == (groups or [title for title, _ in known])
    labels = run.slides.set_index("slide_id")["label"].astype(str)
    for row, (_, members) in zip(rows, known, strict=True):
        assert labels[row.slide_id] in set(run.slides["label"].astype(str)[members])
        assert row.title.startswith(f"True {get_task(task).rows_title} {row.label}: slide {row.slide_id}")
        assert all(panel.attention is not None for panel in row.panels)
        assert all(panel.words.count("predicted") == 1 for panel in row.panels)
    page = unescape(report_page(run))
    assert "For each group of the table of the cohort, the test slide of the first fold" in page
    assert "No reference images were given" not in page


def test_intervals_of_a_measured_value_are_in_the_table(runs: dict[str, Run]) -> None:
    rows = cells(unescape(report_page(runs["regression"])), "Results")
    summary: pd.DataFrame = runs["regression"].summary
    for shown, (_, row) in zip(rows, summary.iterrows(), strict=True):
        for name in ("spearman", "r2", "mae"):
            assert f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]" in shown
