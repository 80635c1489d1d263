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
        "What it costs to let the test fold choose the epoch. One training per fold, and four rules for the epoch that "
        "is kept; nothing else differs between the rows. *inner patients* is what this package does; the two rules by "
        "the test fold are those of cross-validation without inner validation patients. "
        f"{cohorts} phantom cohorts of {' or '.join(map(str, sizes))} slides (three kinds, seeds {seeds}), 3 folds, "
        f"`{settings['method']}`, {settings['epochs']} epochs; each cohort with its true labels, and with labels "
        "permuted over patients, for which the true AUROC is 0.5. Cohorts, seeds and rules were declared before the "
        "run (`benchmarks/evidence/selection_bias.py`). One correction was made during the run, before any figure was "
        "seen: the stopping rule stopped one epoch too early, and was applied again to the stored traces.",
        f"AUROC is the mean of the test folds; intervals are Student's over {cohorts} cohorts, differences are paired.",
        grid([*header, *(f"at {n} slides" for n in sizes)], lines),
        f"With permuted labels, the best epoch by the AUROC of the test fold reports {permuted['mean']:.3f}.",
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
        f"*{RULE}* is the rule of [choose.md](choose.md); *{LOWEST}* uses the same inner folds without preferring "
        f"the default. *{BEST}* is not a valid method: it is the AUROC reported by someone who tries all candidates in "
        "the cross-validation itself and keeps the best.",
        grid(["", "AUROC", f"difference to *{DEFAULT}* [95 % interval]", *kinds], lines),
        f"The candidate that is best on the test folds is reported {optimism:+.3f} above *{RULE}*.",
        grid(["candidate", f"folds of {folds}: {RULE}", LOWEST], times),
        f"Choosing took {spent['choosing'] / spent['default']:.0f} times the processor time of training the default.",
    ]
