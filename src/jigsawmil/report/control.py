"""Does patch position matter? A study beside the same study with patch coordinates permuted within each slide."""

from collections.abc import Container, Mapping

import numpy as np
import pandas as pd

from ..nn.options import peek_method
from ..tasks import measure_of
from .tables import ALPHA, Column, Table, capital, case_of, counted, number, p_column, p_text, rows_of, signed


def blind_variants(methods: Mapping[str, str]) -> set[str]:
    """Variants that no shuffle can touch: their method has neither graph nor jigsaw. methods: variant -> method."""
    return {variant for variant, name in methods.items() if not peek_method(name).sees_positions}


def control_table(control: pd.DataFrame) -> Table:
    """The shuffle control, one row per variant; `control_lines` says what it means."""
    measure = measure_of(control)
    columns = [
        Column("variant", [str(m) for m in control["variant"]], name=True),
        Column("true\ncoordinates", [number(a) for a in control[f"{measure.name}_true"]]),
        Column("shuffled\ncoordinates", [number(a) for a in control[f"{measure.name}_shuffled"]]),
        Column("difference\n[95 % interval]", [_difference(row) for row in rows_of(control)]),
        p_column(f"{measure.test_name}\np", control[f"{measure.test}_p_holm"]),
        p_column("corrected\nt-test p", control["t_p_holm"]),
    ]
    methods = counted(len(control), "method")
    note = f"p-values are Holm-adjusted for {methods} (bold: below {ALPHA}); a case is {case_of(control)}."
    title = f"{measure.words} with true patch coordinates and with coordinates shuffled within each slide"
    return Table(title, columns, [note])


def control_lines(control: pd.DataFrame, blind: Container[str]) -> list[str]:
    """Does patch position matter in this cohort? The answer, one line per variant, and what the answer rests on.

    blind: variants that cannot see places, see `blind_variants`.
    """
    rows, measure = rows_of(control), measure_of(control)
    lost = measure.words
    verdicts = ["blind" if row["variant"] in blind else _verdict(row) for row in rows]
    seeing = len(rows) - verdicts.count("blind")
    worse = [str(row["variant"]) for row, verdict in zip(rows, verdicts, strict=True) if verdict == "matters"]
    tested = f"{counted(seeing, 'method')} that use positions"
    level = f"when coordinates are shuffled (Holm-adjusted p < {ALPHA})"
    if not seeing:
        answer = "Not tested: no method here uses positions."
    elif worse:
        losing = f"of {tested}, {len(worse)} lose{'s' * (len(worse) == 1)}"
        losing = "the one method that uses positions loses" if seeing == 1 else losing
        answer = f"Yes: {losing} {lost} {level}: {', '.join(worse)}."
    else:
        answer = (
            f"Not shown: of {tested}, none loses {lost} {level}. This does not show that position is irrelevant: its "
            "effect may be too small to detect with so few patients, or of a kind that these methods miss."
        )
    lines = [f"Does patch position matter in this cohort? {answer}"]
    lines += [f"{row['variant']}: {_control_line(row, v)}" for row, v in zip(rows, verdicts, strict=True)]
    lines.append(
        f"{capital(measure.test_words)} compares the trained models as they are, so part of a difference may be due to "
        "chance in training. The corrected t-test accounts for that; with few folds it finds only large, consistent "
        "differences."
    )
    return lines


def _control_line(row: pd.Series, verdict: str) -> str:
    test, _, p = _deciding(row)
    stated = f"{test} p {p_text(p)}" if p < 0.001 else f"{test} p = {p_text(p)}"
    meaning = {
        "matters": "significantly worse with shuffled coordinates, so it uses patch positions here.",
        "misled": "significantly better with shuffled coordinates, so positions misled it or its training.",
        "undefined": "no test is defined, so no p-value is given.",
        "not shown": "no significant effect.",
        "blind": "it does not use positions, so this difference is training noise.",
    }[verdict]
    if verdict == "not shown" and not np.isnan(row["low"]):
        meaning = f"no significant effect; the data are compatible with {signed(row['low'])} to {signed(row['high'])}."
    measure = measure_of(row)
    true, shuffled = (number(row[f"{measure.name}_{place}"]) for place in ("true", "shuffled"))
    figures = f"{measure.words} {true} with true and {shuffled} with shuffled coordinates"
    return f"{figures}; difference {_difference(row)}{'' if np.isnan(p) else ', ' + stated}: {meaning}"


def _verdict(row: pd.Series) -> str:
    _, difference, p = _deciding(row)
    if np.isnan(p):
        return "undefined"
    if p >= ALPHA:
        return "not shown"
    return "matters" if difference > 0 else "misled"


def _deciding(row: pd.Series) -> tuple[str, float, float]:
    """The test that decides, its difference and adjusted p: that of the measure (DeLong's), or the corrected t's beyond
    two classes."""
    measure = measure_of(row)
    if not np.isnan(p := float(row[f"{measure.test}_p_holm"])):
        return measure.test_name, float(row["difference"]), p
    return "corrected t", float(row["fold_difference"]), float(row["t_p_holm"])


def _difference(row: pd.Series) -> str:
    stated = signed(row["difference"])
    return stated if np.isnan(row["low"]) else f"{stated} [{signed(row['low'])}, {signed(row['high'])}]"
