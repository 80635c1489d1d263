"""The answer in a sentence: what the tables say, and no more than that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..tasks import Measure, measure_of
from .tables import ALPHA, far_below_folds, interval, p_text, plus_minus, reached, signed


@dataclass(frozen=True)
class Answer:
    """headline: one sentence. further: what must be read with it. apart: the best is significantly better than the
    baseline."""

    headline: str
    further: tuple[str, ...]
    best: str
    apart: bool


def answer(summary: pd.DataFrame, comparisons: pd.DataFrame, baseline: str) -> Answer:
    """Of one cohort: rows of its summary and comparisons. baseline: the method to beat, one of them.

    If the pooled AUROC of any method is far below its folds, methods are ranked by the mean of folds, and the corrected
    t-test alone decides: that is what the notes below the tables advise.
    """
    measure = measure_of(summary)
    words, chance = measure.words, measure.chance
    summary = summary.set_index(summary["variant"].astype(str))
    unpooled = far_below_folds(summary)
    quoted = {str(m): _mean(row) if unpooled else reached(row).value for m, row in summary.iterrows()}
    areas = pd.Series(quoted, dtype=float)
    best = str(areas.idxmax()) if areas.notna().any() else str(summary.index[0])
    bounds = {str(name): interval(row) for name, row in summary.iterrows()}
    by_chance = [m for m, (low, high) in bounds.items() if m not in unpooled and not (low > chance or high < chance)]
    stated = f"{areas[best]:.3f} [{bounds[best][0]:.3f}, {bounds[best][1]:.3f}]"
    if unpooled:
        stated = f"{plus_minus(areas[best], float(summary.loc[best, f'{measure.name}_std']))} (mean of folds)"
    if np.isnan(areas[best]):
        why = "the predictions lack a class" if words == "AUROC" else "the predictions or the truth are constant"
        return Answer(f"No {words} is defined: {why}.", (), best, False)
    if len(areas) == 1:
        better = "" if unpooled else _chance(*bounds[best], chance)
        article = "an" if words == "AUROC" else "a"
        return Answer(f"{best} reaches {article} {words} of {stated}{better}.", ONLY_ONE, best, False)
    significant = {
        _pair(row): _significant_tests(row, measure, by_folds=bool(unpooled)) for _, row in comparisons.iterrows()
    }
    if not any(significant.values()):
        headline, apart = _nobody(best, stated, words, all_by_chance=len(by_chance) == len(areas)), False
    elif len(by_chance) == len(areas):
        headline, apart = (
            f"No method differs significantly from chance; {best} has the highest {words}, {stated}.",
            False,
        )
    elif best == baseline:
        headline, apart = f"No method improves on the baseline, {best}, which has the highest {words}, {stated}.", False
    else:
        row = pair_of(comparisons, best, baseline)
        headline, apart = _against(
            f"{best} has the highest {words}, {stated}", row, baseline, areas, measure, by_folds=bool(unpooled)
        )
    further = [BEST_OF_SEVERAL.format(words)]
    if unpooled:
        further.append(
            f"The pooled {words} of {_and(unpooled)} is far below its folds, which are calibrated differently. So "
            "methods are ranked by the mean of folds and compared by the corrected t-test."
        )
    alike = [m for m in areas.index if m not in (best, baseline) and not significant.get(frozenset((best, m)))]
    if alike and any(significant.values()):
        further.insert(0, f"{best} does not differ significantly from {_and(alike)}.")
    if by_chance and len(by_chance) < len(areas):
        further.append(f"Not significantly different from chance ({chance:g}): {_and(by_chance)}.")
    return Answer(headline, tuple(further), best, apart)


ONLY_ONE = ("It was the only method, so no comparison is possible.",)
BEST_OF_SEVERAL = (
    "The best of several methods was picked after seeing the results, so its {} is biased upwards by selection."
)


def overall(answers: Mapping[str, Answer], baseline: str, what: str = "cohorts") -> str:
    """The sentence over several cohorts, or targets. baseline: empty where they have different ones."""
    won = [name for name, one in answers.items() if one.apart]
    against = f"the baseline, {baseline}" if baseline else "its baseline"
    if not won:
        return f"In none of {len(answers)} {what} is the best method significantly better than {against}."
    where = "all" if len(won) == len(answers) else f"{len(won)} of"
    named = "" if len(won) == len(answers) else f" ({_and(won)})"
    return f"In {where} {len(answers)} {what}{named} the best method is significantly better than {against}."


def _nobody(best: str, stated: str, words: str, *, all_by_chance: bool) -> str:
    nor = (
        "differs significantly from chance or from another method"
        if all_by_chance
        else "differs significantly from another"
    )
    return f"No method {nor}; {best} has the highest {words}, {stated}."


def _mean(row: pd.Series) -> float:
    return float(row[f"{measure_of(row).name}_mean"])


def _against(
    start: str, row: pd.Series | None, baseline: str, areas: pd.Series, measure: Measure, *, by_folds: bool
) -> tuple[str, bool]:
    """The best against the baseline; whether a test finds it significantly better. row: of the two, see `pair_of`;
    the tests may compare patients although the table's figures are of slides."""
    tests = () if row is None else _significant_tests(row, measure, by_folds=by_folds, better=True)
    named = f"the baseline, {baseline} ({areas[baseline]:.3f})"
    if row is not None and row.get("level") == "patient" and not by_folds:
        ends = f"{row[f'{measure.name}_a']:.3f} against {row[f'{measure.name}_b']:.3f}"
        named = f"the baseline, {baseline} (by patient {ends})"
    if len(tests) == 2:
        return f"{start}; by both tests it is significantly better than {named}.", True
    if tests:
        but = ", but not by the corrected t-test" if tests[0] != CORRECTED else ""
        return f"{start}; by {tests[0]} it is significantly better than {named}{but}.", True
    return f"{start}, but it is not significantly better than {named}.", False


CORRECTED = "the corrected t-test"


def _significant_tests(row: pd.Series, measure: Measure, *, by_folds: bool, better: bool = False) -> tuple[str, ...]:
    """The tests whose Holm-adjusted p is below 0.05. by_folds: the corrected t-test alone. better: of those, the ones
    that find the first variant the better one."""
    found = {CORRECTED: (row["t_p_holm"], row["fold_difference"])}
    if not by_folds:
        found = {measure.test_words: (row[f"{measure.test}_p_holm"], row["difference"]), **found}
    return tuple(name for name, (p, gap) in found.items() if float(p) < ALPHA and (float(gap) > 0 or not better))


def _pair(row: pd.Series) -> frozenset[str]:
    return frozenset((str(row["variant_a"]), str(row["variant_b"])))


def pair_of(comparisons: pd.DataFrame, a: str, b: str) -> pd.Series | None:
    """The row of two variants, turned so that a comes first."""
    for _, row in comparisons.iterrows():
        if _pair(row) == {a, b} and a != b:
            if str(row["variant_a"]) == a:
                return row
            own = measure_of(row).name
            ends = {f"{own}_a": row[f"{own}_b"], f"{own}_b": row[f"{own}_a"], "variant_a": a, "variant_b": b}
            signs = {name: -float(row[name]) for name in ("difference", "fold_difference")}
            return pd.Series({**row, **ends, **signs})
    return None


def behind(comparisons: pd.DataFrame, best: str, baseline: str) -> str:
    """The p-values behind the headline; empty if there is no such pair."""
    row = pair_of(comparisons, best, baseline)
    if row is None:
        return ""
    measure = measure_of(row)
    tests = {measure.test_name: float(row[f"{measure.test}_p_holm"]), "corrected t": float(row["t_p_holm"])}
    stated = [f"{name}: {_p(p)}" for name, p in tests.items() if not np.isnan(p)]
    level = "by patient, " if row.get("level") == "patient" else ""
    ends = f"{row[f'{measure.name}_a']:.3f} against {row[f'{measure.name}_b']:.3f}"
    areas = f"{measure.words} {ends}, difference {signed(float(row['difference']))}"
    folds = f"mean of folds {signed(float(row['fold_difference']))}"
    return f"{best} against {baseline}: {level}{areas} ({folds}); {'; '.join(stated) or 'no test is defined'}."


def _p(p: float) -> str:
    return f"p {p_text(p)}" if p < 0.001 else f"p = {p_text(p)}"


def _chance(low: float, high: float, chance: float) -> str:
    if low > chance:
        return ", better than chance"
    return ", worse than chance" if high < chance else ", not significantly different from chance"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
