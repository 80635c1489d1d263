"""What docs/results.md says of single models, ensembles and committees, from their two files of results."""

from jigsawmil.cohort.options import FOLDS

from .ensembles import JIGSAW, STACKED
from .results_sections import Found, grid, number, stated

FIGURES = ("all kinds", "std over folds", "worst fold", "models per fold")


def develop(found: Found, small: Found | None = None) -> list[str]:
    shape, stacking = found["shape"], found["stacking"]
    kinds = list(next(iter(found["by_kind"].values())))
    counts = ", ".join(f"{sum(own['kind'] == kind for own in found['cohorts'].values())} of `{kind}`" for kind in kinds)
    return [
        f"Cohorts: {counts}. Synthetic ones have {shape['slides']} slides (`few slides`: "
        f"{found['kinds']['few slides']['slides']}) of about {shape['patches']} patches with {shape['dim']} features. "
        f"{found['folds']} folds, default settings. Cohorts, arms and both rules were fixed before the run "
        "(`benchmarks/evidence/ensembles.py`). The default was chosen on these cohorts, so its AUROC here is biased; "
        "the next section has an unbiased one.",
        arm_grid(found),
        single_models(found, small),
        f"Learnt weights ({STACKED}) minus equal weights: {stated(stacking)}, standard error "
        f"{stacking['standard_error']:.3f}; by kind "
        + ", ".join(f"{kind} {value:+.3f}" for kind, value in stacking["by_kind"].items())
        + f". By the first rule the weights are {'learnt' if found['weights'] == STACKED else 'equal'}. "
        f"By the second rule the default is **{found['default']}**.",
        took(found),
        f"Equal weights are 0.2; in {sum(len(own['weights']) for own in found['cohorts'].values())} folds, the learnt "
        "weights of the five kinds lie between {:.2f} and {:.2f}.".format(*weights_range(found)),
        *probabilities(found),
        *doubts(found),
    ]


def single_models(found: Found, small: Found | None) -> str:
    """What the single models were, and what others reach on the small cohorts. small: their results."""
    text = (
        f"**Read the single models with care.** Those with a graph have k = 50 on slides of about "
        f"{found['shape']['patches']} patches, and no single model with k = 8 or with SAGE was an arm, so the table "
        "does not show that every single model is this weak."
    )
    if small is not None:
        means = {row["arm"]: row["mean"] for row in small["rows"]}
        text += (
            f" On the {len(small['cohorts'])} [small cohorts](#small-cohorts), of {small['patches']} patches per slide "
            f"too, a single `{JIGSAW}` reaches {means['default']:.3f}, with k = 8 {means['k 8']:.3f} and with SAGE "
            f"{means['conv sage']:.3f}. Part of what an ensemble gains here comes from members with another graph."
        )
    if found["folds"] != FOLDS:
        text += f" {found['folds']} folds were used; `compare` now has {FOLDS}."
    return text


def weights_range(found: Found) -> tuple[float, float]:
    every = [weight for own in found["cohorts"].values() for fold in own["weights"] for weight in fold]
    return min(every), max(every)


def took(found: Found) -> str:
    """Processor time of training, as a multiple of the single model's."""
    seconds, one = found["processor_seconds"], found["processor_seconds"][JIGSAW]
    ratios = ", ".join(f"{value / one:.1f} (`{arm}`)" for arm, value in seconds.items() if arm != JIGSAW)
    return f"Processor time, as a multiple of a single `{JIGSAW}`: {ratios}. Learning the weights needs no training."


def report(found: Found, small: Found | None = None) -> list[str]:
    default = found["default"]
    single = [arm for arm in found["arms"] if found["trainings"][arm] == 1 and arm != default]
    lines = []
    for kind in found["by_kind"][default]:
        best = max(single, key=lambda arm: found["by_kind"][arm][kind])
        ours, theirs = found["by_kind"][default][kind], found["by_kind"][best][kind]
        abmil = ours - found["by_kind"]["abmil"][kind]
        lines.append([f"`{kind}`", number(ours), f"{best}: {theirs:.3f}", f"{ours - theirs:+.3f}", f"{abmil:+.3f}"])
    spread = found["std_over_folds"]
    seconds = found["processor_seconds"]
    return [
        f"{len(found['cohorts'])} other synthetic cohorts of the same kinds, drawn after the default was fixed, and "
        f"run once: the default ({default}) beside single models.",
        arm_grid(found),
        single_models(found, small),
        "The default beside the best single method of each kind, which is not known beforehand:",
        grid(["kind", "default", "best single method", "difference", "default minus `abmil`"], lines),
        "Standard deviation over folds, as a share of a single model's: "
        + ", ".join(f"{spread[default] / spread[arm]:.2f} of `{arm}`" for arm in single)
        + ". Processor time, as a multiple of one model's: "
        + ", ".join(f"{seconds[default.split(',')[0]] / seconds[arm]:.1f} of `{arm}`" for arm in single)
        + ".",
        *probabilities(found),
        *doubts(found),
    ]


def arm_grid(found: Found) -> str:
    """AUROC of every arm that is no other way to combine the same members, by kind of cohort."""
    kinds = list(next(iter(found["by_kind"].values())))
    arms = [arm for arm in found["by_kind"] if "mean of probabilities" not in arm]
    lines = [
        [f"`{arm}`", *(number(found["by_kind"][arm][kind]) for kind in kinds)]
        + [number(found[name][arm]) for name in ("overall", "std_over_folds", "worst_fold")]
        + [str(found["trainings"][arm])]
        for arm in arms
    ]
    return grid(["AUROC", *kinds, *FIGURES], lines)


def probabilities(found: Found) -> list[str]:
    """Mean of logits against mean of probabilities."""
    differences = {
        arm: found["overall"][f"{arm}, mean of probabilities"] - found["overall"][arm]
        for arm in found["arms"]
        if f"{arm}, mean of probabilities" in found["overall"]
    }
    stated = ", ".join(f"{value:+.4f} (`{arm}`)" for arm, value in differences.items())
    return [f"Averaging probabilities instead of logits changes the AUROC over all kinds by {stated}."]


def doubts(found: Found) -> list[str]:
    """Whether the members disagree more where the ensemble errs."""
    lines = []
    for one in found["disagreement"]:
        area = one["auroc"]
        interval = f"{area['auc']:.3f} [{area['low']:.3f}, {area['high']:.3f}]" if area else "-"
        medians = [f"{one['right']:.2f}", f"{one['wrong']:.2f}"]
        lines.append([f"`{one['variant']}`", f"{one['errors']} of {one['cases']}", *medians, interval])
        lines[-1].append(number(one["confidence"]))
    return [
        "Do members disagree more on slides that the ensemble gets wrong? AUROC of detecting errors by the standard "
        "deviation of the members' logits (*disagreement*) and by the probability itself; slides of all cohorts:",
        grid(["ensemble", "errors", "median, right", "median, wrong", "disagreement", "probability"], lines),
    ]
