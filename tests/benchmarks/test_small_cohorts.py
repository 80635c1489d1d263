"""Small cohorts: the arms, what is concluded from them, and what averaging over neighbours leaves of a slide."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.evidence import (
    results_memorising,
    results_page,
    results_settings,
    small_cohorts,
    smoothing,
)

from jigsawmil.graph import knn_graph


def test_the_factors_of_the_small_cohorts_are_balanced() -> None:
    """Every pair of levels of two factors is there twice: no two main effects are confounded."""
    runs = np.array(small_cohorts.RUNS)
    for one in range(4):
        for other in range(one):
            pairs = np.unique(runs[:, [one, other]], axis=0, return_counts=True)[1]
            assert pairs.tolist() == [2, 2, 2, 2]
    names = [small_cohorts.cell(kind, run).name for kind in small_cohorts.SEEDS for run in range(8)]
    assert len(set(names)) == 24


def small_outcome(rng: np.random.Generator, gain: float, helpers: tuple[str, ...] = ("k 8",)) -> dict[str, Any]:
    def training(area: float) -> dict[str, Any]:
        return {"auc": area, "seconds": 1.0, "mil": [0.7, 0.01]}

    base = rng.uniform(0.5, 0.9, 5)
    each = {name: [training(area) for area in base[:2]] for name in small_cohorts.ARMS}
    each |= {name: [training(area + gain + rng.normal(0, 0.001)) for area in base[:2]] for name in helpers}
    each["default"] = [training(area) for area in base]
    variants = {name: {"auc": 0.95, "seconds": 2.0, "each": own} for name, own in each.items()}
    return {"variants": variants}


def test_arms_are_paired_with_the_same_trainings_of_the_default() -> None:
    rng = np.random.default_rng(0)
    outcomes = [small_outcome(rng, 0.05) for _ in range(24)]
    found = small_cohorts.summarise(outcomes)
    rows = {row["arm"]: row for row in found["rows"]}
    assert rows["k 8"]["gain"]["mean"] == pytest.approx(0.05, abs=0.001)
    assert rows["k 8"]["gain"]["verdict"] == "helps"
    assert rows["hidden 64"]["gain"]["mean"] == 0  # though the luck of its trainings is large
    assert rows["hidden 64"]["luck"]["std"] > 0.05
    assert found["ensemble"]["gain"]["mean"] == pytest.approx(0.95 - found["every"]["mean"], abs=1e-4)
    low = sum(one["auc"] < 0.7 for outcome in outcomes for one in outcome["variants"]["default"]["each"])
    assert found["every"]["memorised"] == low
    assert [row["mean"] for row in small_cohorts.by_factor(found["every"], found["ensemble"])][:2] == pytest.approx(
        [
            np.mean(np.array(found["every"]["auc"])[np.tile(np.array(small_cohorts.RUNS)[:, 0], 3) == at])
            for at in (0, 1)
        ]
    )


def small_found(kept: float, helpers: tuple[str, ...] = ("k 8",)) -> dict[str, Any]:
    """As the file has it, made up. kept: test AUROC of the epoch that was kept, in every trace."""
    rng = np.random.default_rng(0)
    summary = small_cohorts.summarise([small_outcome(rng, 0.05, helpers) for _ in range(24)])
    trace = {"kept": 1, "mil": [0.6, 0.001], "test_auc": [kept, 0.93], "val_auc": [0.75, 0.8]}
    effects = [small_cohorts.LEVELS["effect"][run[3]] for run in small_cohorts.RUNS]
    return {
        "cohorts": [{"kind": kind, "slide_effect": effect} for kind in small_cohorts.SEEDS for effect in effects],
        "levels": small_cohorts.LEVELS,
        "noise": small_cohorts.NOISE,
        "test_slides": 60,
        "patches": 200,
        "memorised": small_cohorts.MEMORISED,
        **summary,
        "factors": small_cohorts.by_factor(summary["every"], summary["ensemble"]),
        "traces": small_cohorts.traces([trace] * 24),
    }


@pytest.mark.parametrize("low", [True, False])
def test_the_section_on_small_cohorts_has_a_row_per_arm_and_says_what_the_traces_show(low: bool) -> None:
    text = "\n".join(results_settings.small(small_found(0.55 if low else 0.9)))
    assert all(f"\n| `{arm}` |" in text for arm in (*small_cohorts.ARMS, small_cohorts.ENSEMBLE))
    assert "By the rule: `k 8` helps, `members 5` helps. Holm's correction leaves `k 8`, `members 5`." in text
    said = "24 of 24 ended below 0.7, with 0.550 on average; their best epochs would have had 0.930"
    assert (said in text) == low
    assert ("None of the 24 ended below 0.7" in text) != low
    assert f"fell below 0.05 in 24 of 24 traces, and in {0 if low else 24} of the {0 if low else 24} whose" in text
    assert ("their AUROC in the epoch kept is 0.750 (0.750 to 0.750)" in text) == low


def test_why_trainings_memorise_is_concluded_only_if_both_neighbourhoods_help() -> None:
    both = small_found(0.55, ("k 8", "conv sage"))
    rows = {row["arm"]: row for row in both["rows"]}
    text = "\n".join(results_memorising.why(both))
    assert "**Conclusion.**" in text
    assert "**Conclusion.**" not in "\n".join(results_memorising.why(small_found(0.55)))
    own = np.array(rows["k 8"]["auc"])
    none = [cohort["slide_effect"] == 0 for cohort in both["cohorts"]]
    composition = [cohort["kind"] == "composition" for cohort in both["cohorts"]]
    assert f"`k 8` {own[none].mean():.3f} and {own[~np.array(none)].mean():.3f}" in text
    assert f"`k 8` {own[composition].mean():.3f}, `conv sage`" in text
    assert "Holm's correction leaves none of these." in text


def test_averaging_over_more_neighbours_leaves_less_and_an_untrained_sage_keeps_more() -> None:
    cells = small_cohorts.cell("position", 1)
    found = smoothing.of_cohort(dataclasses.replace(cells.spec, patches=120, dim=32), 3)
    assert found["k 8"]["reach"] < found["k 50"]["reach"] <= 1
    assert found["k 50"]["left"] < found["k 8"]["left"] < 1
    assert found["features"]["between"] < found["k 8"]["between"] < found["k 50"]["between"]
    assert found["untrained"]["SAGE, k = 50"] < found["untrained"]["GAT, k = 50"]
    whole = {"cohorts": [found], "larger": [found], "neighbours": [8, 50], "encoders": list(smoothing.ENCODERS)}
    text = "\n".join(results_memorising.smoothing({**whole, "slides": {"cohort": 3, "larger": 3}}))
    assert f"| `position` | 0.3 | {100 * found['k 8']['reach']:.1f} % |" in text
    assert f"| {100 * found['untrained']['SAGE, k = 50']:.1f} % |" in text


def test_averages_and_their_spread_are_what_they_are_called() -> None:
    """Three patches in a row that all see each other: one mean, nothing left between them."""
    graph = knn_graph(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), k=2)
    assert smoothing.reach(graph, 1) == 1
    states = [torch.tensor([[0.0], [2.0]]), torch.tensor([[5.0], [7.0]])]
    assert smoothing.spread(states) == pytest.approx((1.0, 12.5))


@pytest.mark.parametrize("part", ["develop", "report"])
def test_the_sections_on_ensembles_say_what_their_single_models_are(part: str) -> None:
    found = json.loads((results_page.RESULTS / f"ensembles-{part}.json").read_text())
    (section,) = (one for one in results_page.SECTIONS if one.file == f"ensembles-{part}")
    small = small_found(0.9)
    means = {row["arm"]: row["mean"] for row in small["rows"]}
    text = "\n".join(section.said({section.file: found, "small_cohorts": small}))
    assert f"with k = 8 {means['k 8']:.3f} and with SAGE {means['conv sage']:.3f}" in text
    assert "3 folds were used; `compare` now has 5." in text
    assert "k = 50 on slides of about 200 patches" in "\n".join(section.said({section.file: found}))
