"""What docs/results.md says of the paper's tables on stand-ins, from their file of results."""

from collections.abc import Sequence

from .results_sections import Found, grid

STANDINS = ("BRCA", "HNSC", "COAD")
TIMES = ["trainings", "processor minutes", "wall minutes, summed over trainings", "memory of a process, GB"]


def standins(found: Found) -> list[str]:
    """The paper's tables on stand-ins, and what each took."""
    cohorts, tables = found["cohorts"], found["tables"]
    parts = [
        "The study files of the paper's Tables 1, 3, 5 and 6, unchanged (preset `paper`), on synthetic slides: 100, "
        "101 and 78 slides of 50 to 12,050 patches with 1,024 features, three folds. **They say nothing about TCGA or "
        "the paper's figures**: the label was planted (`arrangement`, noise 2). They show that the studies run at the "
        "paper's size, and at what cost. AUROC, mean ± standard deviation over folds."
    ]
    for name, rows in tables.items():
        lines = [
            [row, *("{:.3f} ± {:.3f}".format(*own["variants"][variant]["auc"]) for own in cohorts.values())]
            for row, variant in rows.items()
        ]
        parts.append(grid([f"`{name}.toml`", *cohorts], lines))
    if missing := [name for name in STANDINS if name not in cohorts]:
        parts.append(f"Not run yet: {', '.join(missing)}. The command above resumes with them.")
    return [*parts, *_cost(found)]


def _cost(found: Found) -> list[str]:
    """By table, by cohort, and by training."""
    cohorts, tables = found["cohorts"], found["tables"]
    took = []
    for name, rows in tables.items():
        own = [cohort["variants"][variant] for cohort in cohorts.values() for variant in rows.values()]
        took.append([f"`{name}.toml`", *_took(own)])
    every = [one for cohort in cohorts.values() for one in cohort["variants"].values()]
    took.append(["all four, each training once", *_took(every)])
    by_cohort = [
        [name, *_took(list(cohort["variants"].values())), _minutes(cohort.get("elapsed_seconds"))]
        for name, cohort in cohorts.items()
    ]
    variants = list(dict.fromkeys(name for cohort in cohorts.values() for name in cohort["variants"]))
    by_variant = [
        [f"`{name}`", *(_minutes(cohort["variants"].get(name, {}).get("wall_seconds")) for cohort in cohorts.values())]
        for name in variants
    ]
    return [
        "Cost. Processor time counts the work of all threads, and two idle cores halve it. Wall time is that of "
        f"training and predicting, summed over trainings, of which {found['processes']} ran at a time on a machine "
        "that did other work; *start to end* is the clock's time for a cohort, with drawing its slides. A dash: not "
        "recorded, or the cohort was run in several parts.",
        grid(["study", *TIMES], took),
        grid(["cohort", *TIMES, "start to end, minutes"], by_cohort),
        "Wall minutes of each variant, its folds together:",
        grid(["variant", *cohorts], by_variant),
    ]


def _took(variants: Sequence[Found]) -> list[str]:
    wall = [one.get("wall_seconds") for one in variants]
    memory = [one["peak_mb"] for one in variants if one["peak_mb"]]
    return [
        str(sum(one["jobs"] for one in variants)),
        _minutes(sum(one["processor_seconds"] for one in variants)),
        _minutes(None if None in wall else sum(wall)),
        f"{max(memory) / 1000:.1f}" if memory else "-",
    ]


def _minutes(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 60:.0f}"
