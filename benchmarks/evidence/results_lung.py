"""The section of docs/results.md about survival of 50 lung cancer patients."""

from typing import Any

from .results_sections import Found, grid, p_value


def lung(found: Found) -> list[str]:
    data, protocol = found["data"], found["protocol"]
    rows = [
        [row["name"], _spread(row), f"{row['c']:.3f} [{row['c_low']:.3f}, {row['c_high']:.3f}]"]
        for row in found["rows"]
    ]
    tests = [
        [line["a"], line["b"], f"{line['difference']:+.3f} [{line['low']:+.3f}, {line['high']:+.3f}]",
         p_value(line["p"]), p_value(line["p_holm"])]
        for line in found["comparisons"]
    ]  # fmt: skip
    return [
        f"{data['cells']:,} cells in {data['images']} images of {data['patients']} patients, {data['events']} of whom "
        f"died (VectraPolarisData, Johnson et al. 2021): survival by Cox's partial likelihood, {protocol['repeats']} x "
        f"{protocol['folds']} folds of patients from seed {protocol['first_seed']} on. Question, methods, settings "
        "and tests were declared in the file of the command before any method was run on these data.",
        grid(["method", "C of single repeats", "C of the mean rank [95 % interval]"], rows),
        verdict(found),
        *_same_order(found),
        grid(["method", "against", "difference of C [95 % interval]", "p", "p after Holm"], tests),
        *_left_out(found),
    ]


def verdict(found: Found) -> str:
    """What the intervals say, and what they do not."""
    real = [line for line in found["comparisons"] if line["p_holm"] < 0.05]
    above = [row["name"] for row in found["rows"] if row["c_low"] > 0.5]
    widths = [row["c_high"] - row["c_low"] for row in found["rows"]]
    first = (
        f"Intervals are {min(widths):.2f} to {max(widths):.2f} wide. Those of {', '.join(above)} lie above 0.5."
        if above
        else f"Intervals are {min(widths):.2f} to {max(widths):.2f} wide, and all of them reach 0.5."
    )
    if not real:
        return (
            f"{first} **No difference is significant after Holm's correction**: nothing shows that slides, or the "
            f"positions of their cells, add to the covariates, and {found['data']['events']} events cannot exclude it."
        )
    named = "; ".join(f"{line['a']} against {line['b']} ({line['difference']:+.3f})" for line in real)
    return f"{first} Significant after Holm's correction: {named}."


def _same_order(found: Found) -> list[str]:
    """Why the jigsaw and the same method without it have one and the same C, if they do."""
    each = {row["name"]: row["c_each"] for row in found["rows"]}
    if each.get("graph-abmil+jigsaw") is None or each["graph-abmil+jigsaw"] != each.get("graph-abmil"):
        return []
    return [
        "`graph-abmil` and `graph-abmil+jigsaw` are different models with the same C: the jigsaw changes weights and "
        "risks, but it is hardly learnt here (six markers of a cell do not tell where in its image it lies), and "
        "changes so small leave the order of patients as it is."
    ]


def _spread(row: dict[str, Any]) -> str:
    each = row["c_each"]
    return f"{row['c_mean']:.3f} ± {row['c_std']:.3f}" if len(each) > 1 else f"{each[0]:.3f}"


def _left_out(found: Found) -> list[str]:
    missing = found.get("left_out") or []
    return [f"Declared, but not run within the time given: {', '.join(missing)}."] if missing else []
