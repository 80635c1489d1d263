"""What docs/results.md says of choosing, on the test fold and inside the training patients, from its files."""

from .choosing import ARMS, BEST, DEFAULT, LOWEST, RULE
from .results_sections import Found, grid, number, stated
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


def choosing(found: Found) -> list[str]:
    cohorts, candidates, kinds = found["cohorts"], found["candidates"], list(found["kinds"])
    rows = {(row["kind"], row["arm"]): row for row in found["rows"]}
    seeds = {kind: [own["seed"] for own in cohorts if own["kind"] == kind] for kind in kinds}
    lines = []
    for arm in (*ARMS, *candidates[1:]):
        gains = [stated(rows[kind, arm]["gain"]) if arm != DEFAULT else "" for kind in (None, *kinds)]
        shown = f"`{arm}`" if arm in candidates else arm
        lines.append([shown, number(rows[None, arm]["auc"]), *gains])
    folds = found["folds"] * len(cohorts)
    times = [
        [
            f"`{name}`" + " (the default)" * (name == candidates[0]),
            *(str(sum(own[how][name] for own in cohorts)) for how in ("chose", "lowest")),
        ]
        for name in candidates
    ]
    spent = {what: sum(own["seconds"][what] for own in cohorts) for what in ("choosing", "default")}
    inner, optimism = found["inner"], rows[None, BEST]["auc"] - rows[None, RULE]["auc"]
    spelled = ", ".join(f"{kind} {own[0]} to {own[-1]}" for kind, own in seeds.items())
    return [
        f"`--choose k=8,50 --choose conv=gat,sage` of `{found['method']}`: {len(candidates)} candidates with the "
        f"default, {inner['folds']} inner folds, {inner['repeats']} repeats. {len(cohorts)} phantom cohorts of "
        f"{found['shape']['slides']} slides (seeds: {spelled}), {found['folds']} folds. Cohorts, arms and figures were "
        "declared before the run (`benchmarks/evidence/choosing.py`).",
        f"*{RULE}* is the rule of [choose.md](choose.md); *{LOWEST}* has the same inner folds without the lean towards "
        f"the default. *{BEST}* is no method: it is what one reports who tries all candidates in the cross-validation "
        "itself and keeps the best.",
        grid(["", "AUROC", f"difference to *{DEFAULT}* [95 % interval]", *kinds], lines),
        f"The best candidate by the test folds is reported with {optimism:+.3f} over *{RULE}*.",
        grid(["candidate", f"folds of {folds}: {RULE}", LOWEST], times),
        f"Choosing took {spent['choosing'] / spent['default']:.0f} times the processor time of training the default.",
    ]
