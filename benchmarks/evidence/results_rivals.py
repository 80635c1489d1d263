"""What docs/results.md says of other people's models, from their file of results."""

from collections.abc import Mapping, Sequence
from typing import Any

from .results_sections import Found, grid, number, p_value

ABOUT = {
    "UCSB": "58 H&E images of breast tissue (benign or malignant), tiles of 64 pixels, EfficientNet-Lite0; split by "
    "microarray and date",
    "CODEX": "cells of 35 colorectal cancer patients, four images each; a patient's prediction is their mean",
    "composition": "phantom: how much tumour there is, which any method can detect",
    "arrangement": "phantom: finely mixed or in clumps, which depends on positions alone",
    "position": "phantom: which of two nests lies high in layered tissue, which depends on positions alone",
}


def rivals(found: Found) -> list[str]:
    ours = found["reference"]
    return [
        "Every method has its default settings, the same folds and the same stopping rule; "
        "`benchmarks/evidence/rivals.py` states what was declared before the run, and the only exception. *time* is "
        "processor time of training and predicting one fold, with all members of a committee, as a multiple of "
        f"`{found['unit']}` in the same run. *against ours* is the method minus `{ours}`: difference in pooled AUROC, "
        "p of DeLong's test and of the corrected t-test, both Holm-adjusted over the methods of the cohort.",
        *_picture(found),
        *(part for name, one in found["cohorts"].items() for part in _cohort(name, one, ours)),
    ]


def _picture(found: Found) -> list[str]:
    if not any(one["control"] for one in found["cohorts"].values()):
        return []
    return [
        "On the two real cohorts (orange: our default; black: our other methods; grey: torchmil's):",
        "![Methods on the real cohorts](img/results-rivals.png)",
    ]


def _cohort(name: str, one: Mapping[str, Any], ours: str) -> list[str]:
    rows = sorted(one["rows"], key=lambda row: -row["auc_oof"])
    repeats = f"{one['folds']} folds" + (f", {len(one['seeds'])} times" if len(one["seeds"]) > 1 else "")
    return [
        f"### {name}",
        f"{ABOUT[name]}. {one['slides']} slides of {one['patients']} patients or groups, {one['patches']:,} patches; "
        f"{repeats}.",
        grid(
            ["method", "AUROC, mean of folds", "pooled [95 % interval]", "time", "against ours", "p", "t-test p", ""],
            [_line(row, ours) for row in rows],
        ),
        _verdict(rows, ours),
        *_control(one["control"]),
    ]


def _line(row: Mapping[str, Any], ours: str) -> list[str]:
    spread = f"{number(row['auc_mean'])} ± {number(row['auc_std'])}"
    pooled = f"{number(row['auc_oof'])} [{number(row['auc_low'])}, {number(row['auc_high'])}]"
    time = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
    if row["variant"] == ours or "verdict" not in row:
        return [row["variant"], spread, pooled, time, "", "", "", ""]
    tests = [p_value(row[key]) for key in ("delong_p_holm", "t_p_holm")]
    return [row["variant"], spread, pooled, time, f"{row['difference']:+.3f}", *tests, row["verdict"]]


def _verdict(rows: Sequence[Mapping[str, Any]], ours: str) -> str:
    """In words; rows: the highest AUROC first."""
    best, judged = rows[0], [row for row in rows if "verdict" in row]
    if not judged:
        return f"Highest pooled AUROC: `{best['variant']}`."
    named = {
        kind: ", ".join(f"`{row['variant']}`" for row in judged if row["verdict"] == kind) or "none"
        for kind in ("better", "worse")
    }
    place = [row["variant"] for row in rows].index(ours) + 1
    return (
        f"Highest pooled AUROC: `{best['variant']}`; `{ours}` is number {place} of {len(rows)}. Better than `{ours}` "
        f"by the declared rule: {named['better']}. Worse: {named['worse']}."
    )


def _control(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    lines = [
        [
            row["variant"],
            number(row["auc_true"]),
            number(row["auc_shuffled"]),
            f"{row['difference']:+.3f}",
            p_value(row["delong_p_holm"]),
        ]
        for row in rows
    ]
    head = ["method", "true positions", "shuffled", "difference", "DeLong p, Holm-adjusted"]
    return ["Control: positions shuffled within each image, first seed.", grid(head, lines)]
