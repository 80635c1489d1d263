"""What docs/results.md says of choosing on the test fold, from its file of results."""

from .results_sections import Found, grid, stated
from .selection_bias import HONEST, LABELS, RULES


def selection(found: Found) -> list[str]:
    settings = found["settings"]
    cohorts = len(found["cohorts"]) // len(LABELS)
    rows = {(row["labels"], row["slides"], row["rule"]): row for row in found["rows"]}
    sizes = sorted({row["slides"] for row in found["rows"] if row["slides"]})
    lines = []
    for labels in LABELS:
        for rule in RULES:
            row = rows[labels, None, rule]
            area = row["auc"]
            whole = f"{area['mean']:.3f} [{area['low']:.3f}, {area['high']:.3f}]"
            bias = [stated(rows[labels, n, rule]["bias"]) if rule != HONEST else "" for n in (None, *sizes)]
            lines.append([labels, rule, whole, *bias])
    seeds = f"{found['seeds'][0]} to {found['seeds'][-1]}"
    header = ["labels", "epoch chosen by", "AUROC [95 % interval]", f"difference to *{HONEST}*"]
    permuted = rows["permuted", None, "test fold, AUROC"]["auc"]
    return [
        "One training per fold, and four rules for the epoch that is kept: the rows differ in nothing but who chose. "
        f"{cohorts} phantom cohorts of {' or '.join(map(str, sizes))} slides (three kinds, seeds {seeds}), 3 folds, "
        f"`{settings['method']}`, {settings['epochs']} epochs; each cohort with its true labels, and with labels "
        "permuted over patients, where the truth is 0.5. Cohorts, seeds and rules were declared before the run "
        "(`benchmarks/evidence/selection_bias.py`). One thing was corrected after the run had begun and before any "
        "figure was seen: the function that applies the stopping rule stopped one epoch earlier than declared; the "
        "stored traces were judged again. *inner patients* is what this package does; the two rules by the "
        "test fold are those of cross-validation without inner validation patients.",
        f"AUROC is the mean of the test folds; intervals are Student's over {cohorts} cohorts, differences are paired.",
        grid([*header, *(f"at {n} slides" for n in sizes)], lines),
        f"With labels that mean nothing, the best epoch by the AUROC of the test fold reports {permuted['mean']:.3f}.",
    ]
