"""What docs/results.md says of why single trainings memorise, from the arms and traces of small cohorts and from what
averaging over neighbours leaves of a slide."""

from collections.abc import Mapping, Sequence

import numpy as np

from .results_sections import Found, grid, number, stated

NEIGHBOURHOODS = ("k 8", "conv sage")  # the arms that change which patches a state mixes, or how
OTHERS = ("abmil", "abmil, gated 512-384, dropout 0.25", *NEIGHBOURHOODS)  # all other arms restrain the same model
UNTESTED = (
    "Not tested: a learning-rate schedule (the package has none); k at a second number of patches per slide; batch "
    "size apart from the learning rate, which one arm changes together; k = 8 with SAGE; real slides."
)
KEPT = (
    "Why a single `graph-abmil+jigsaw` keeps k = 50: it is the paper's value, and slides of thousands of patches, of "
    "which 50 neighbours are a small part, were not trained on here. On slides of a few hundred patches use `--k 8` or "
    "`--conv sage`, or the default of the program: three of the five kinds of the [committee](ensembles.md#committee) "
    "have k = 8 or SAGE."
)


def why(found: Found) -> list[str]:
    """Why single trainings memorise, as far as arms and traces tell."""
    rows = {row["arm"]: row for row in found["rows"]}
    return [
        "What arms and traces say of why single trainings memorise:",
        "\n".join(
            f"- {line}"
            for line in (fitted(found), restrained(rows), *without_graph(rows, found), *by_effect(rows, found))
        ),
        *conclusion(rows),
        UNTESTED,
        KEPT,
    ]


def fitted(found: Found) -> str:
    limits, traces = found["memorised"], found["traces"]["each"]
    areas = np.array([trace["test_auc"][trace["kept"] - 1] for trace in traces])
    low = areas < limits["auc_below"]
    near_zero = np.array([min(trace["mil"]) < limits["mil_below"] for trace in traces])
    held = np.array([trace["val_auc"][trace["kept"] - 1] for trace in traces])
    told = (
        f"**Fitting the training slides is the rule.** The training loss fell below {limits['mil_below']} in "
        f"{near_zero.sum()} of {len(traces)} traces, and in {(near_zero & ~low).sum()} of the {(~low).sum()} whose "
        f"AUROC is {limits['auc_below']} or more, so it does not tell good trainings from bad ones."
    )
    if not low.any():
        return told
    return (
        f"{told} The best epoch of the {low.sum()} low ones has {np.mean(found['traces']['best_of_low']):.3f} on "
        "average, so stopping elsewhere would repair few of them. The slides held out for stopping reveal them in "
        f"part: their AUROC in the epoch kept is {held[low].mean():.3f} ({held[low].min():.3f} to "
        f"{held[low].max():.3f}), in the other trainings {number(_mean(held[~low]))}."
    )


def restrained(rows: Mapping[str, Found]) -> str:
    """The arms that leave the model's inputs as they are."""
    arms = [row for name, row in rows.items() if "gain" in row and name not in OTHERS]
    sure = [f"`{row['arm']}`" for row in arms if row["gain"]["p_holm"] < 0.05]
    gains = ", ".join(f"`{row['arm']}` {row['gain']['mean']:+.3f}" for row in arms)
    return f"**Restraining the same model**: {gains}. Holm's correction leaves {', '.join(sure) or 'none of these'}."


def without_graph(rows: Mapping[str, Found], found: Found) -> list[str]:
    """On a kind of cohort where single patches suffice, what the graph costs."""
    if not {"default", "abmil", *NEIGHBOURHOODS} <= set(rows):
        return []
    own = [cohort["kind"] == "composition" for cohort in found["cohorts"]]
    areas = {name: _mean(np.array(rows[name]["auc"])[own]) for name in ("abmil", "default", *NEIGHBOURHOODS)}
    text = ", ".join(f"`{name}` {number(area)}" for name, area in areas.items())
    return [
        f"**Where single patches suffice** (`composition`): {text}. `abmil` has the same head and width, and no graph; "
        "SAGE has the 50 neighbours of the default, and a term of its own for each patch."
    ]


def by_effect(rows: Mapping[str, Found], found: Found) -> list[str]:
    """The arms without and with the shift that all patches of a slide share."""
    effects = np.array([cohort.get("slide_effect", 0) for cohort in found["cohorts"]])
    if len(set(effects)) < 2:
        return []
    parts = []
    for name in ("default", *NEIGHBOURHOODS):
        areas = np.array(rows[name]["auc"])
        parts.append(f"`{name}` {_mean(areas[effects == 0]):.3f} and {_mean(areas[effects > 0]):.3f}")
    return [
        "**A shift that all patches of a slide share** (slide effect), without and with: "
        + ", ".join(parts)
        + f". Means of {(effects == 0).sum()} other cohorts each, so without an interval."
    ]


def conclusion(rows: Mapping[str, Found]) -> list[str]:
    """Only if both arms that change the neighbourhood help after Holm's correction, and no other arm does."""
    sure = [name for name, row in rows.items() if "gain" in row and row["gain"]["p_holm"] < 0.05]
    helping = {name for name in sure if rows[name]["gain"]["verdict"] == "helps"}
    if helping != set(NEIGHBOURHOODS):
        return []
    k, sage = (stated(rows[name]["gain"]) for name in NEIGHBOURHOODS)
    return [
        "**Conclusion.** The arms point to the neighbourhood rather than to the number of weights or the length of "
        f"training: both arms that change what a patch's state mixes help (k = 8 {k}, SAGE {sage}), and no other arm "
        "does after Holm's correction. 50 neighbours are a quarter of such a slide, and two layers reach more than "
        "half of it. The patches of a slide then have similar states, more of what is left differs from slide to slide "
        "(most of it where slides have a shift of their own), and a few dozen slides can be told apart by that without "
        "what the label depends on. With k = 8 or SAGE less of it does: the "
        "[next section](#what-averaging-over-neighbours-leaves) has figures of untrained encoders. The cause is "
        "inferred from these: what the states of a trained model keep was not measured."
    ]


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def smoothing(found: Found) -> list[str]:
    cohorts, larger = found["cohorts"], found["larger"]
    by_effect = [
        [
            f"`{kind}`",
            f"{effect:g}",
            *_shares(found, [row for row in cohorts if _is(row, kind, "slide_effect", effect)]),
        ]
        for effect in sorted({row["slide_effect"] for row in cohorts})
        for kind in dict.fromkeys(row["kind"] for row in cohorts)
    ]
    by_size = [
        [f"`{kind}`", f"{size:,}", *_shares(found, [row for row in larger if _is(row, kind, "patches", size)])]
        for kind in dict.fromkeys(row["kind"] for row in larger)
        for size in dict.fromkeys(row["patches"] for row in larger)
    ]
    header = [f"{name} {k}" for k in found["neighbours"] for name in ("reach,", "left,")]
    header += ["between: features", *(f"averaged, {k}" for k in found["neighbours"]), *found["encoders"]]
    header = [name.replace(", 8", ", k = 8").replace(", 50", ", k = 50") for name in header]
    return [
        "Nothing is trained here. The features of the [small cohorts](#small-cohorts) are *averaged* twice over each "
        "patch's neighbours, by the weights of the graph. *reach*: share of a slide's patches that enter one state. "
        "*left*: variance between the patches of a slide, as a share of that of the features. *between*: share of the "
        "variance of states that lies between slides; of the features, of their averages, and of the states of four "
        f"untrained encoders. {len(cohorts)} cohorts, {found['slides']['cohort']} slides of each. Written after the "
        "small cohorts were run, to see whether their explanation holds in numbers.",
        grid(["cohorts", "slide effect", *header], by_effect),
        f"The same k on larger slides, without slide effect ({found['slides']['larger']} slides of one cohort each):",
        grid(["cohort", "patches", *header], by_size),
        "In `composition` the label itself is a difference between slides; in the other kinds it is none. On larger "
        "slides the reach and the part between slides are smaller. What is left between patches depends on the layout "
        "too: where unlike patches are mixed, as in `composition`, a mean of 50 leaves little on a slide of any size.",
    ]


def _is(row: Found, kind: str, key: str, value: float) -> bool:
    return bool(row["kind"] == kind and row[key] == value)


def _shares(found: Found, rows: Sequence[Found]) -> list[str]:
    """Mean over cohorts of every column."""
    names = [f"k {k}" for k in found["neighbours"]]
    columns = [[row[name][key] for row in rows] for name in names for key in ("reach", "left")]
    columns += [[row[name]["between"] for row in rows] for name in ("features", *names)]
    columns += [[row["untrained"][name] for row in rows] for name in found["encoders"]]
    return [f"{100 * np.mean(column):.1f} %" for column in columns]
