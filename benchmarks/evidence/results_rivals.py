"""What docs/results.md and README.md say of other people's models, from their file of results."""

from collections.abc import Mapping, Sequence
from typing import Any

from .results_pictures import rivals_picture
from .results_sections import Found, grid, number, p_value

ABOUT = {
    "UCSB": "H&E of breast tissue, benign or malignant; tiles of 64 pixels, EfficientNet-Lite0; images of one "
    "microarray and date stay together",
    "CODEX": "Cells of colorectal cancer, four images per patient, whose prediction is the mean of theirs",
    "composition": "Phantom: how much tumour there is, which any method can detect",
    "arrangement": "Phantom: finely mixed or in clumps, which depends on positions alone",
    "position": "Phantom: which of two nests lies high in layered tissue, which depends on positions alone",
}
REMARKS = {
    "UCSB": "Published figures for these images, such as those of Ilse et al. (2018), are of other splits and "
    "features. We could not check them, so none is quoted."
}
UNITS = {"UCSB": "microarrays"}  # of the others: patients
VERDICTS = {"not told apart": "no difference shown"}  # others are printed as they are stored
MARGIN = 0.03  # the default should be this near to the best single method
LEVEL = 0.05
PATIENTS, CASES = "auc_patient", "auc_oof"


def rivals(found: Found) -> list[str]:
    ours, cohorts = found["reference"], found["cohorts"]
    return [
        "Every method has its default settings, the same folds and the same stopping rule; "
        "`benchmarks/evidence/rivals.py` states what was declared before the run, the one exception, and what was "
        "changed.",
        f"**Declared rule:** `{ours}`, our default, against each other method by DeLong's test on pooled predictions; "
        f"p Holm-adjusted over the methods of the cohort. Below {LEVEL} the method is better or worse, otherwise no "
        "difference is shown. The corrected t-test over folds stands beside it. *time* is processor time of training "
        "and predicting one fold, with all members of a committee, as a multiple of "
        f"`{found['unit']}` in the same run.",
        *_nearness(cohorts, ours),
        *(part for name, one in cohorts.items() for part in _cohort(name, one, found)),
    ]


def key_of(one: Found) -> str:
    """The AUROC that the test compares: of patients if their images share a label, else of images."""
    return PATIENTS if any(row.get("level") == "patient" for row in one["rows"]) else CASES


def ranked(one: Found) -> list[Found]:
    key = key_of(one)
    return sorted(one["rows"], key=lambda row: -row[key])


def _nearness(cohorts: Mapping[str, Found], ours: str) -> list[str]:
    """Our default minus the best single method of each cohort, by the figure of the test and by the mean of folds."""
    lines = [_near(name, one, ours) for name, one in cohorts.items() if _judged(one)]
    if not lines:
        return []
    head = ["cohort", f"`{ours}`", "best single method", "difference", f"within {MARGIN}", "by mean of folds"]
    missed = [_missed(name, cohorts[name], ours) for name, *line in lines if line[3] != "yes"]
    return [
        f"The default beside the best single method of each cohort, in pooled AUROC. The goal is to lose at most "
        f"{MARGIN}; it is met on {sum(line[4] == 'yes' for line in lines)} of {len(lines)} cohorts. The best method is "
        "not known beforehand, and as the highest of "
        f"{max(len(_judged(one)) for one in cohorts.values())} its AUROC is optimistic.",
        grid(head, lines),
        *missed,
    ]


def _missed(name: str, one: Found, ours: str) -> str:
    """Why the goal is not met on a cohort, as far as its figures say."""
    (own,) = (row for row in one["rows"] if row["variant"] == ours)
    apart = [row for row in _judged(one) if row["verdict"] != "not told apart"]
    words = (
        f"Not met on {name}: of {one['patients']} {UNITS.get(name, 'patients')}, the 95 % interval of `{ours}` is "
        f"{own['auc_high'] - own['auc_low']:.2f} wide, and {len(apart) or 'none'} of {len(_judged(one))} methods "
        "differ from it by the rule."
    )
    if one.get("equal"):
        words += f" Learnt instead of equal weights change its AUROC by {-one['equal']['difference']:+.3f}."
    return words


def _near(name: str, one: Found, ours: str) -> list[str]:
    (own,) = (row for row in one["rows"] if row["variant"] == ours)
    cells = []
    for key in (key_of(one), "auc_mean"):
        best = max(_judged(one), key=lambda row: row[key])
        difference = own[key] - best[key]
        cells.append((number(own[key]), f"`{best['variant']}` {number(best[key])}", f"{difference:+.3f}"))
        cells[-1] += ("yes" if difference >= -MARGIN else "**no**",)
    pooled, mean = cells
    return [name, *pooled, f"{mean[2]} to {mean[1]}, {mean[3]}"]


def _judged(one: Found) -> list[Found]:
    """The rows that were compared with our default; none if it was not run."""
    return [row for row in one["rows"] if "verdict" in row]


def _cohort(name: str, one: Found, found: Found) -> list[str]:
    ours, rows, by_patient = found["reference"], ranked(one), key_of(one) == PATIENTS
    repeats = f"{one['folds']} folds" + (f", {len(one['seeds'])} times" if len(one["seeds"]) > 1 else "")
    pooled = ["of patients", "of images [95 % interval]"] if by_patient else ["pooled [95 % interval]"]
    head = ["method", *pooled, "mean of folds ± std", "time", f"minus `{ours}`", "DeLong p", "t-test p", "verdict"]
    shown = [f"![Methods on {name}]({rivals_picture(name)})"] if one["control"] else []
    return [
        f"### {name}",
        f"{ABOUT[name]}. {one['slides']} images of {one['patients']} {UNITS.get(name, 'patients')}, "
        f"{one['patches']:,} patches; {repeats}.",
        _verdict(rows, ours, key_of(one)),
        *_equal(one, ours),
        *([REMARKS[name]] if name in REMARKS else []),
        grid(head, [_line(row, ours, by_patient) for row in rows]),
        *shown,
        *_control(one["control"]),
    ]


def _line(row: Found, ours: str, by_patient: bool) -> list[str]:
    name = f"**`{row['variant']}`**" if row["variant"] == ours else f"`{row['variant']}`"
    patients = [number(row[PATIENTS])] if by_patient else []
    spread = f"{number(row['auc_mean'])} ± {number(row['auc_std'])}"
    figures = [name, *patients, bounded(row), spread, ratio(row)]
    if "verdict" not in row:
        return [*figures, "", "", "", "default" if row["variant"] == ours else ""]
    tests = [p_value(row[key]) for key in ("delong_p_holm", "t_p_holm")]
    return [*figures, f"{row['difference']:+.3f}", *tests, VERDICTS.get(row["verdict"], row["verdict"])]


def bounded(row: Found) -> str:
    return f"{number(row[CASES])} [{number(row['auc_low'])}, {number(row['auc_high'])}]"


def ratio(row: Found) -> str:
    return "" if row["ratio"] is None else f"{row['ratio']:.1f}"


def _verdict(rows: Sequence[Found], ours: str, key: str) -> str:
    """In words: who is first, where our default stands, and the verdicts. rows: the highest first."""
    best, place = rows[0], [row["variant"] for row in rows].index(ours) + 1 if _judged({"rows": rows}) else 0
    won = f"Highest AUROC: `{best['variant']}`, {number(best[key])}, {_whose(best['variant'], ours)}."
    if not place:
        return won
    if place > 1:
        won += f" `{ours}` has {number(rows[place - 1][key])} and is number {place} of {len(rows)}."
    return f"{won} {verdicts(rows)}"


def _equal(one: Found, ours: str) -> list[str]:
    """The committee with equal weights, beside the learnt ones."""
    if not (row := one.get("equal")):
        return []
    return [
        f"With equal instead of learnt weights, the same models of `{ours}` have {number(row[key_of(one)])} "
        f"({row['difference'] + 0.0:+.3f}, DeLong p {p_value(row['delong_p'])}, not adjusted)."
    ]


def _whose(name: str, ours: str) -> str:
    if name.startswith("torchmil"):
        return "**a model of torchmil**"
    return "our default" if name == ours else "another method of this package"


def verdicts(rows: Sequence[Found]) -> str:
    """By the declared rule, which methods are better than our default, and which are worse."""
    named = {
        kind: ", ".join(f"`{row['variant']}`" for row in rows if row.get("verdict") == kind) or "none"
        for kind in ("better", "worse")
    }
    return f"By the declared rule, better than the default: {named['better']}; worse: {named['worse']}."


def _control(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    lines = [
        [
            f"`{row['variant']}`",
            number(row["auc_true"]),
            number(row["auc_shuffled"]),
            f"{row['difference']:+.3f}",
            p_value(row["delong_p_holm"]),
        ]
        for row in rows
    ]
    named = {
        sign: ", ".join(
            f"`{row['variant']}`"
            for row in rows
            if row["delong_p_holm"] is not None and row["delong_p_holm"] < LEVEL and row["difference"] * sign > 0
        )
        for sign in (1, -1)
    }
    head = ["method", "true positions", "shuffled", "difference", "DeLong p, Holm-adjusted"]
    return [
        "Control: positions shuffled within each image, first seed. Shuffling lowers the AUROC "
        f"(p below {LEVEL}) of: {named[1] or 'none'}; it raises that of: {named[-1] or 'none'}.",
        grid(head, lines),
    ]


def front(found: Found) -> str:
    """README's result on real H&E: the picture, our default, the best of the others, and the verdict."""
    one, ours = found["cohorts"]["UCSB"], found["reference"]
    rows = ranked(one)
    theirs = [row for row in rows if row["variant"].startswith("torchmil")]
    others = [row for row in rows if row not in theirs and row["variant"] != ours]
    kept = {"our default": [row for row in rows if row["variant"] == ours]}
    kept |= {f"best of {len(others)} other methods here": others[:1], f"best of {len(theirs)} of torchmil": theirs[:1]}
    kept |= {"ABMIL": [row for row in rows if row["variant"] == found["unit"]]}
    lines = [[words, f"`{row['variant']}`", bounded(row), ratio(row)] for words, own in kept.items() for row in own]
    times = f", {len(one['seeds'])} times" if len(one["seeds"]) > 1 else ""
    return "\n\n".join(
        [
            f"![{len(rows)} methods on {one['slides']} H&E images of breast tissue](docs/{rivals_picture('UCSB')})",
            f"**Real H&E** (UCSB, {one['slides']} breast images, benign or malignant, {one['folds']} folds by "
            f"microarray{times}; [all {len(rows)} methods, and other cohorts]"
            "(docs/results.md#other-peoples-models-under-the-same-folds)):",
            grid(["", "method", "AUROC [95 % interval]", "training time, ABMIL = 1"], lines),
            f"{verdicts(rows)} A best of several is chosen after the fact, so its AUROC is optimistic.",
        ]
    )
