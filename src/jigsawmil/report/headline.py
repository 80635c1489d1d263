"""The answer in a sentence: what the tables say, and no more than that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .tables import ALPHA, interval, p_text, reached

CHANCE = 0.5


@dataclass(frozen=True)
class Answer:
    """headline: one sentence. further: what must be read with it. apart: the best is told apart from the baseline."""

    headline: str
    further: tuple[str, ...]
    best: str
    apart: bool


def answer(summary: pd.DataFrame, comparisons: pd.DataFrame, baseline: str) -> Answer:
    """Of one cohort: rows of its summary and comparisons. baseline: the method to beat, one of them."""
    areas = pd.Series({str(row["variant"]): reached(row).value for _, row in summary.iterrows()}, dtype=float)
    best = str(areas.idxmax()) if areas.notna().any() else str(summary["variant"].iloc[0])
    bounds = {str(row["variant"]): interval(row) for _, row in summary.iterrows()}
    by_chance = [method for method, (low, high) in bounds.items() if not (low > CHANCE or high < CHANCE)]
    stated = f"{areas[best]:.3f} [{bounds[best][0]:.3f}, {bounds[best][1]:.3f}]"
    if np.isnan(areas[best]):
        return Answer("No AUC is defined: the predictions lack a class.", (), best, False)
    if len(areas) == 1:
        return Answer(f"{best} reaches an AUC of {stated}{_chance(*bounds[best])}.", ONLY_ONE, best, False)
    told = {_pair(row): _told_by(row) for _, row in comparisons.iterrows()}
    headline, apart = _headline(best, stated, areas, baseline, told, by_chance)
    further = [BEST_OF_SEVERAL]
    alike = [m for m in areas.index if m not in (best, baseline) and not told.get(frozenset((best, m)))]
    if alike and any(told.values()):
        further.insert(0, f"{best} cannot be told apart from {_and(alike)}.")
    if by_chance and len(by_chance) < len(areas):
        further.append(f"{_and(by_chance)} cannot be told from chance ({CHANCE}).")
    return Answer(headline, tuple(further), best, apart)


ONLY_ONE = ("It was the only method, so there is nothing to compare it with.",)
BEST_OF_SEVERAL = (
    "The best of several was chosen after seeing the results, so its AUC is biased upwards by this choice."
)


def overall(answers: Mapping[str, Answer], baseline: str) -> str:
    """The sentence over several cohorts. baseline: empty where cohorts have different ones."""
    won = [name for name, one in answers.items() if one.apart]
    against = f"the baseline, {baseline}" if baseline else "its baseline"
    if not won:
        return f"In none of {len(answers)} cohorts can the best method be told apart from {against}."
    where = "all" if len(won) == len(answers) else f"{len(won)} of"
    named = "" if len(won) == len(answers) else f" ({_and(won)})"
    return f"In {where} {len(answers)} cohorts{named} the best method can be told apart from {against}."


def _headline(
    best: str,
    stated: str,
    areas: pd.Series,
    baseline: str,
    told: dict[frozenset[str], tuple[str, ...]],
    by_chance: Sequence[str],
) -> tuple[str, bool]:
    if not any(told.values()):
        nor = (
            "be told from chance, or apart from another"
            if len(by_chance) == len(areas)
            else "be told apart from another"
        )
        return f"No method can {nor}; the highest AUC is that of {best}, {stated}.", False
    if len(by_chance) == len(areas):
        return f"No method can be told from chance; the highest AUC is that of {best}, {stated}.", False
    if best == baseline:
        return f"No method improves on the baseline, {best}, which has the highest AUC, {stated}.", False
    tests = told.get(frozenset((best, baseline)), ())
    against = f"the baseline, {baseline} ({areas[baseline]:.3f})"
    start = f"{best} has the highest AUC, {stated}"
    if len(tests) == 2:
        return f"{start}, and both tests tell it apart from {against}.", True
    if tests:
        return f"{start}; {tests[0]} tells it apart from {against}{_other(tests[0])}.", True
    return f"{start}, but it cannot be told apart from {against}.", False


def _other(test: str) -> str:
    return ", the corrected t-test does not" if test == DELONG else ""


DELONG, CORRECTED = "DeLong's test", "the corrected t-test"


def _told_by(row: pd.Series) -> tuple[str, ...]:
    """The tests whose Holm-adjusted p is below 0.05."""
    found = {DELONG: row["delong_p_holm"], CORRECTED: row["t_p_holm"]}
    return tuple(name for name, p in found.items() if float(p) < ALPHA)


def _pair(row: pd.Series) -> frozenset[str]:
    return frozenset((str(row["variant_a"]), str(row["variant_b"])))


def behind(comparisons: pd.DataFrame, best: str, baseline: str) -> str:
    """The p-values behind the headline; empty where there is no such pair."""
    for _, row in comparisons.iterrows():
        if _pair(row) == {best, baseline} and best != baseline:
            delong, t = float(row["delong_p_holm"]), float(row["t_p_holm"])
            stated = [f"{name}: {_p(p)}" for name, p in (("DeLong", delong), ("corrected t", t)) if not np.isnan(p)]
            gap = abs(float(row["difference"]))
            return f"{best} against {baseline}: difference {gap:.3f}; {'; '.join(stated) or 'no test is defined'}."
    return ""


def _p(p: float) -> str:
    return f"p {p_text(p)}" if p < 0.001 else f"p = {p_text(p)}"


def _chance(low: float, high: float) -> str:
    if low > CHANCE:
        return ", better than chance"
    return ", worse than chance" if high < CHANCE else ", which cannot be told from chance"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
