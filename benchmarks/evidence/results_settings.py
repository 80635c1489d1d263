"""What docs/results.md says of the presets and of small cohorts, from their files of results."""

from collections.abc import Sequence

import numpy as np

from .jigsaw_cases import LEAST
from .results_memorising import why
from .results_sections import Found, grid, number, p_value, stated, verdict

LOWEST = ("lowest cohort", "lowest training")


def presets(found: Found) -> list[str]:
    rows, kinds = found["rows"], list(found["seeds"])
    cohorts = sum(len(seeds) for seeds in found["seeds"].values())
    lines = []
    for row in rows:
        gain = row.get("gain")
        against = [verdict(gain), p_value(gain["p_holm"])] if gain else ["", ""]
        areas = [number(float(np.mean(row["auc"][kind]))) for kind in kinds]
        lines.append([f"`{row['arm']}`", *areas, *against, f"{row['epochs']:.0f}", number(row["mil"])])
    header = ["arm", *kinds, "difference to `default` [95 % interval]", "p", "epochs", "training loss, last epoch"]
    by_kind = [[f"`{row['arm']}`", *(stated(row["gains"][kind]) for kind in kinds)] for row in rows[1:]]
    knobs = "; ".join(
        f"{kind}: " + (", ".join(f"{name} {value:g}" for name, value in own.items()) or "as it is")
        for kind, own in found["knobs"].items()
    )
    return [
        f"Single models of `graph-abmil+jigsaw`: the preset `default`, the preset `paper`, and `default` with one "
        f"setting of `paper` at a time. {cohorts} synthetic cohorts ({knobs}), {found['train_slides']} slides to fit "
        f"on, {found['test_slides']} others to test, about {found['shape']['patches']} patches of "
        f"{found['shape']['dim']} features; the longer side of a slide is {found['elongation']:.1f} times the shorter "
        "one (median). Arms, seeds and the decision rule were fixed before the run "
        "(`benchmarks/evidence/presets.py` states what was changed before any AUROC was looked at).",
        f"Mean AUROC per kind; the interval is Student's over {cohorts} paired cohort differences, p is Holm-adjusted "
        f"over the {len(rows) - 1} arms. **helps** and **hurts**: the interval excludes 0, and the difference is "
        f"beyond {LEAST} in size; † marks p below 0.05. Each difference includes the chance of two trainings.",
        grid(header, lines),
        judged(rows[1:]),
        *chance(rows[0]),
        "The same differences by kind of phantom, with fewer cohorts each and no correction:",
        grid(["arm", *kinds], by_kind),
    ]


def chance(default: Found) -> list[str]:
    """Kinds on which the default is at chance, so that no setting can be seen to hurt."""
    kinds = [f"`{kind}`" for kind, areas in default["auc"].items() if np.mean(areas) < 0.55]
    told = "the default is at chance: these cohorts say little about the arms, and draw the mean difference towards 0."
    return [f"On {' and '.join(kinds)} {told}"] if kinds else []


def judged(rows: Sequence[Found]) -> str:
    """What was shown, and what the other intervals leave open."""
    shown = [f"`{row['arm']}` {row['gain']['verdict']}" for row in rows if row["gain"]["verdict"] != "neutral"]
    rest = [row["gain"] for row in rows if row["gain"]["verdict"] == "neutral"]
    sure = [f"`{row['arm']}`" for row in rows if row["gain"]["p_holm"] < 0.05]
    text = f"By the rule: {', '.join(shown)}." if shown else "By the rule no arm helps or hurts."
    text += f" Holm's correction leaves {', '.join(sure) if sure else 'none of the differences'}."
    if rest:
        low, high = min(gain["low"] for gain in rest), max(gain["high"] for gain in rest)
        text += f" The other intervals reach from {low:+.3f} to {high:+.3f}, which does not exclude an effect."
    return text


def small(found: Found) -> list[str]:
    rows, every, ensemble = found["rows"], found["every"], found["ensemble"]
    cohorts, kinds = found["cohorts"], list(found["noise"])
    slides, dims = ([f"{value:,}" for value in found["levels"][name]] for name in ("slides", "dim"))
    limits = found["memorised"]
    return [
        f"{len(cohorts)} synthetic cohorts, {len(cohorts) // len(kinds)} per kind: {' or '.join(slides)} training "
        f"slides, {' or '.join(dims)} features, two levels of noise, with and without a slide effect; "
        f"{found['test_slides']} other slides to test. Each arm changes one setting of a single `graph-abmil+jigsaw`. "
        f"Training m has the same seed and holds out the same slides in every arm. Cohorts, seeds, arms and the "
        "decision rule were fixed before the run (`benchmarks/evidence/small_cohorts.py`).",
        f"Difference: to `default`, Student's 95 % interval over the cohorts, whose trainings are averaged first. "
        f"**helps**, **hurts**: the interval excludes 0, beyond {LEAST} in size; † survives Holm's correction over "
        f"the {len(rows)} differences. Training noise: standard deviation over trainings within a cohort [95 % "
        f"bootstrap interval]. Memorised: training loss below {limits['mil_below']} in the last epoch, AUROC of the "
        f"test slides below {limits['auc_below']}. `{ensemble['arm']}` is the mean logit of the five trainings of "
        "`default`, compared with their mean.",
        grid(
            ["arm", "AUROC", *kinds, "difference [95 % interval]", *LOWEST, "training noise", "memorised"],
            [small_line(row, cohorts, kinds) for row in (*rows, every, ensemble)],
        ),
        judged([*rows[1:], ensemble]),
        "The default at both levels of each factor:",
        grid(
            ["factor", "AUROC of one training", "training noise", "AUROC of five together"],
            [
                [level_name(row, found), number(row["mean"]), spread(row["luck"]), number(row["ensemble"])]
                for row in found["factors"]
            ],
        ),
        *watched(found),
        *why(found),
        "![What helps on small cohorts, and traces of the default](img/results-small-cohorts.png)",
    ]


def small_line(row: Found, cohorts: Sequence[Found], kinds: Sequence[str]) -> list[str]:
    areas = np.array(row["auc"]).reshape(len(cohorts), -1).mean(axis=1)
    by_kind = [areas[[cohort["kind"] == kind for cohort in cohorts]].mean() for kind in kinds]
    figures = [number(row["mean"]), *(number(float(area)) for area in by_kind)]
    figures.append(verdict(row["gain"]) if "gain" in row else "")
    figures += [number(row["lowest_cohort"]), number(row.get("lowest_training"))]
    if "luck" not in row:
        return [f"`{row['arm']}`", *figures, "-", "-"]
    return [f"`{row['arm']}`", *figures, spread(row["luck"]), f"{row['memorised']} of {row['trainings']}"]


def spread(luck: Found) -> str:
    return f"{luck['std']:.3f} [{luck['low']:.3f}, {luck['high']:.3f}]"


def level_name(row: Found, found: Found) -> str:
    value = found["levels"][row["factor"]][row["level"]]
    words = {"slides": f"{value:.0f} slides", "dim": f"{value:,} features", "effect": f"slide effect {value:g}"}
    return words.get(row["factor"], ("less noise", "more noise")[row["level"]])


def watched(found: Found) -> list[str]:
    """The traces in words."""
    traces, below = found["traces"], found["memorised"]["auc_below"]
    low, count = traces["kept_of_low"], len(traces["each"])
    told = (
        f"Traces: one training of `default` per cohort was repeated, and the test slides were scored after every "
        f"epoch, without effect on the training. The epoch that was kept has {traces['kept']:.3f} on average. The last "
        f"epoch differs by {stated(traces['last_minus_kept'])}, the best one, which only the test slides reveal, by "
        f"{stated(traces['best_minus_kept'])}."
    )
    if not low:
        return [told + f" None of the {count} ended below {below}."]
    best = np.mean(traces["best_of_low"])
    return [
        f"{told} {len(low)} of {count} ended below {below}, with {np.mean(low):.3f} on average; their best epochs "
        f"would have had {best:.3f}. Their training loss in the last epoch is {number(traces['mil_last']['low'])} on "
        f"average, that of the others {number(traces['mil_last']['other'])}."
    ]
