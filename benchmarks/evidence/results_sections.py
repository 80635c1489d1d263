"""What docs/results.md says of each file of results: a function a file, figures to Markdown, nothing typed by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jigsawmil.report.tables import p_text
from jigsawmil.synthetic.phantom_options import phantom_spec

from ..speed.contenders import ABMIL, OURS
from ..speed.ensemble import DEFAULT as DEFAULT_TRAINING
from ..speed.step import Judged, Result, markdown
from .holdout import paired
from .jigsaw_cases import LEAST, RULES, WITHOUT
from .results_pictures import plain_name, row_name

Found = Mapping[str, Any]


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows])


def stated(gain: Found) -> str:
    return f"{gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]"


def number(value: float | None) -> str:
    return "-" if value is None or np.isnan(value) else f"{value:.3f}"


def p_value(value: float | None) -> str:
    return p_text(float("nan") if value is None else value)


def summary_grid(rows: Sequence[Found]) -> str:
    """A row a method: mean ± standard deviation over folds, and pooled with its interval."""
    several = any("cohort" in row for row in rows)
    lines = []
    for row in rows:
        spread = f" ± {row['auc_std']:.3f}" if row.get("auc_std") is not None else ""
        low, high = (row.get("auc_low"), row.get("auc_high"))
        interval = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
        figures = [number(row.get("auc_mean")) + spread, number(row.get("auc_oof")) + interval]
        lines.append([*([str(row.get("cohort", ""))] if several else []), str(row["variant"]), *figures])
    header = ["cohort"] * several + ["method", "AUROC, mean of folds", "AUROC, pooled out of fold [95 % interval]"]
    return grid(header, lines)


def pair_grid(rows: Sequence[Found], pairs: Sequence[tuple[str, str]]) -> str:
    """Differences of some pairs of methods, as `comparisons.csv` has them."""
    lines = []
    for row in rows:
        for a, b in pairs:
            if {row["variant_a"], row["variant_b"]} == {a, b}:
                sign = 1 if row["variant_a"] == a else -1
                tests = [p_value(row.get(key)) for key in ("delong_p_holm", "t_p_holm")]
                lines.append([str(row.get("cohort", "")), f"{a} - {b}", f"{sign * row['difference']:+.3f}", *tests])
    return grid(["cohort", "pair", "difference", "DeLong p", "corrected t-test p"], lines)


def unseen(found: Found) -> list[str]:
    commands = [
        f"`jigsawmil phantom {asked['kind']} --seed {asked['seed']} --dim {asked['dim']}`"
        for asked in found["cohorts"].values()
    ]
    drawn = sorted({phantom_spec(**asked).patches for asked in found["cohorts"].values()})
    ours = "graph-abmil+jigsaw"
    return [
        "Single models of five methods, each with the default settings of a single model (graphs with k = 50, about "
        f"{' or '.join(map(str, drawn))} patches per slide), 3 folds, on two cohorts that nobody had looked at when "
        f"these were chosen: {' and '.join(commands)}. The default of `compare`, a committee, is not among them. In "
        "both the label depends on position alone, so `abmil` should be at 0.5. The first is repeated with labels "
        "permuted over patients; every method should then be at 0.5, and a higher AUROC would show a leak.",
        summary_grid(found["summary"]),
        pair_grid(found["comparisons"], [(ours, "abmil"), (ours, "graph-abmil"), ("graph-abmil", "abmil")]),
        "Differences are of the pooled AUROC of patients. P-values are Holm-adjusted over the ten pairs of a cohort; "
        "one above 0.05 does not show that two methods are equal. With 3 folds the t-test detects only large, steady "
        "differences.",
        "![Five methods on two unseen cohorts, and on one with permuted labels](img/results-unseen.png)",
    ]


def jigsaw(found: Found) -> list[str]:
    cases = found["cases"]
    cohorts = len(found["seeds"])
    header = ["case", "slides", "AUROC without", *(f"lambda {rule}" for rule in RULES)]
    survive = sum(gain["p_holm"] < 0.05 for row in cases for gain in row["gains"].values())
    blind = [
        f"{row['case']}: {area(row, 'abmil')} without, {stated(row['abmil'])} with `balanced`, "
        f"{row['abmil']['verdict']}"
        for row in cases
        if "abmil" in row
    ]
    return [
        f"`graph-abmil` with and without the jigsaw on {len(cases)} kinds of phantom cohort, {cohorts} independent "
        f"cohorts each (seeds {found['seeds'][0]} to {found['seeds'][-1]}), tested on {found['test_slides']} new "
        "slides per cohort. Each case changes one factor of a centre (40 slides, slide effect 0.3, noise 1, nests of "
        "a twelfth of the slide). Cases, seeds and the decision rule were fixed before the jigsaw was run; difficulty "
        "was set with the baseline alone (`benchmarks/evidence/jigsaw_cases.py`). In `position` the bin of a patch is "
        "related to the label; in the other kinds it is not.",
        f"Gain in AUROC with its 95 % interval (Student's, over {cohorts} paired cohort differences). **helps** and "
        f"**hurts**: the interval excludes 0 and the gain is beyond {LEAST} in size; all others are neutral (nothing "
        f"shown). † survives Holm's correction over all {len(cases) * len(RULES)} gains; {survive or 'none'} of them "
        f"{'does' if survive == 1 else 'do'}.",
        grid(header, [case_line(row) for row in cases]),
        f"It helps in: {where(found, 'helps')}. It hurts in: {where(found, 'hurts')}.",
        tally(found),
        "For means over several cases the unit is the seed, because cases share seeds: its differences are averaged "
        "first.",
        "![Gain in AUROC by rule and case](img/results-jigsaw-cases.png)",
        "ABMIL with the jigsaw, in cases that need no graph: " + "; ".join(blind) + ".",
        "Rules compared with each other, over all cases:",
        grid(
            ["difference in AUROC", "mean [95 % interval]", "p"],
            [[name, stated(c), p_value(c["p"])] for name, c in found["contrasts"].items() if "without" not in name],
        ),
        "What this means for the open claims of [the weight of the jigsaw](lambda.md#what-the-evidence-says):",
        "\n".join(f"- {claim}" for claim in claims(found)),
        "A question that came up after this table, not counted above: 80 slides also mean twice the steps, so 40 "
        "slides were trained for as many.",
        grid(header, [case_line(row) for row in found["afterwards"]]),
        f"How well these models solve the jigsaw (mean over the cases of `position`; uniform predictions give "
        f"{np.log(100):.3f}):",
        grid(["", *(f"lambda {rule}" for rule in RULES)], solved(cases)),
        "![Losses and lambda over the epochs](img/results-lambda.png)",
    ]


def case_line(row: Found) -> list[str]:
    return [row_name(row), str(row["slides"]), area(row, WITHOUT), *map(verdict, row["gains"].values())]


def solved(cases: Sequence[Found]) -> list[list[str]]:
    """Losses and lambda of the last epoch on the training slides, a column a rule."""
    position = [row["traces"] for row in cases if row["kind"] == "position"]
    last = {
        name: [f"{np.mean([trace[rule][key][-1] for trace in position]):.3f}" for rule in RULES]
        for name, key in (("jigsaw loss, last epoch", "jigsaw"), ("MIL loss", "mil"), ("lambda", "lambda_"))
    }
    return [[name, *values] for name, values in last.items()]


def area(row: Found, variant: str) -> str:
    return f"{np.mean(row['auc'][variant]):.3f}"


def verdict(gain: Found) -> str:
    mark = "†" if gain.get("p_holm", 1) < 0.05 else ""
    return stated(gain) + ("" if gain["verdict"] == "neutral" else f" **{gain['verdict']}**{mark}")


def tally(found: Found) -> str:
    """How often each rule helps, is neutral and hurts, and what it gains on average."""
    lines = []
    for rule in RULES:
        said = [row["gains"][rule]["verdict"] for row in found["cases"]]
        counts = [str(said.count(word)) for word in ("helps", "neutral", "hurts")]
        over = [stated(found["contrasts"][key]) for key in (f"{rule} - without", f"{rule} - without, position")]
        lines.append([f"lambda {rule}", *counts, *over])
    cases = len(found["cases"])
    return grid(
        ["rule", "helps", "neutral", "hurts", f"gain over all {cases} cases", "over those of `position`"], lines
    )


def where(found: Found, word: str) -> str:
    """The cases in which some rule helps, or hurts, and which rules do."""
    told = []
    for row in found["cases"]:
        rules = [rule for rule in RULES if row["gains"][rule]["verdict"] == word]
        if rules:
            told.append(f"{row_name(row)} (lambda {', '.join(rules)})")
    return "; ".join(told) if told else "no case"


def claims(found: Found) -> list[str]:
    """Each open claim that the design can speak to, answered by its interval."""
    contrast = found["contrasts"]
    best, lag = contrast["balanced - best fixed, chosen on other cohorts"], contrast["em - 0.5"]
    more = contrast["2.0 - 0.1"]
    traces = [row["traces"]["em"]["lambda_"] for row in found["cases"]]
    early, late = np.mean([t[0] for t in traces]), np.mean([t[-1] for t in traces])
    return [
        "*`balanced` is not worse than the best fixed value* (of 0.1, 0.5 and 2.0, chosen on the other cohorts of a "
        "case): "
        + ("refuted here, " if best["high"] < 0 else "not refuted here, ")
        + f"{stated(best)}"
        + ("." if best["high"] < 0 else f"; a loss beyond {max(0.0, -best['low']):.3f} is excluded."),
        "*`em` is worse because its lambda is low early*: "
        + (
            f"`em` is worse than fixed 0.5, {stated(lag)}, "
            if lag["high"] < 0
            else f"`em` is not shown to be worse than fixed 0.5, {stated(lag)}, so there is nothing to explain, "
        )
        + f"although the lambda of `em` is {early:.2f} in the first epoch and {late:.2f} in the last. "
        + {
            1: f"A higher weight throughout is better (2.0 - 0.1: {stated(more)}), in line with the claim.",
            -1: f"A higher weight throughout is worse (2.0 - 0.1: {stated(more)}), against the claim.",
            0: f"Twenty times the weight makes no difference on average (2.0 - 0.1: {stated(more)}).",
        }[sign(more)]
        + " A direct test, a lambda that is low early and 0.5 later, was not run: no rule has that form.",
    ]


def sign(gain: Found) -> int:
    """1 or -1 where the interval excludes 0, else 0."""
    return int(gain["low"] > 0) - int(gain["high"] < 0)


def learning(found: Found) -> list[str]:
    parts = [
        f"Mean AUROC over {len(found['seeds'])} cohorts on the same {found['test_slides']} new slides, ± one standard "
        "error, against the number of training slides. `position`: the label depends on position alone. `composition` "
        "(noise 3): position is irrelevant, and every method can detect the label. Lambda by `em`, the default. "
        "Slides, network and training are as in the section above, on other cohorts: the gains are a replication."
    ]
    for kind, by_method in found["curves"].items():
        sizes = [point["slides"] for point in next(iter(by_method.values()))]
        lines = [[m, *(f"{p['mean']:.3f} ± {p['error']:.3f}" for p in points)] for m, points in by_method.items()]
        lines.append(["gain of the jigsaw [95 % interval]", *jigsaw_gains(by_method)])
        parts.append(grid([kind, *(f"{n} slides" for n in sizes)], lines))
    return [*parts, "![AUROC against the number of slides](img/results-learning-curve.png)"]


def jigsaw_gains(by_method: Mapping[str, Sequence[Found]]) -> list[str]:
    """With minus without at each number of slides, paired within cohorts."""
    pairs = zip(by_method["graph-abmil+jigsaw"], by_method["graph-abmil"], strict=True)
    return [stated(paired(np.array(one["values"]) - other["values"])) for one, other in pairs]


def step(found: Found) -> list[str]:
    results = {
        int(n): {
            name: Result(**{key: row[key] for key in ("steps", "growth", "peak", "memory_by", "skipped")})
            for name, row in at.items()
        }
        for n, at in found["sizes"].items()
    }
    d1, threads = found["settings"]["d1"], found["settings"]["threads"]
    return [
        f"One training step of one slide, {d1} features, k = 50, {threads} threads; "
        "[what is measured, and how](../benchmarks/README.md).",
        markdown(results, [Judged(**row) for row in found["targets"]]),
    ]


def loop(found: Found) -> list[str]:
    lines = [
        [r["method"], f"{r['first_epoch_s']:.1f}", f"{r['loop_ms']:.1f}", f"{r['bare_ms']:.1f}", f"{r['ratio']:.2f}"]
        for r in found["rows"]
    ]
    header = ["method", "first epoch, s", "loop, ms per slide", "bare step, ms per slide", "loop / bare"]
    return [
        f"{found['slides']} slides of {found['patches']:,} patches on disk, {found['peak_gb']:.1f} GB of memory in "
        "all: what reading, batching, lambda and bookkeeping add to the bare step.",
        grid(header, lines),
    ]


def ensemble_time(found: Found) -> list[str]:
    rows = {row["name"]: row for row in found["rows"]}
    bases = [name for name in (OURS, "abmil", ABMIL) if name in rows]
    lines = [
        [f"`{name}`" if name != DEFAULT_TRAINING else name, str(row["models"]), f"{100 * row['later']:.0f}"]
        + [f"{row['later'] / rows[base]['later']:.1f}" for base in bases]
        for name, row in rows.items()
    ]
    header = [
        "training",
        "models",
        "processor seconds, epoch of 100 slides",
        *(f"multiple of `{name}`" for name in bases),
    ]
    return [
        f"Fitted on {found['slides']} slides of {found['patches']:,} x {found['dim']:,}, {found['epochs']} epochs "
        "after the one that reads slides and builds graphs, on one thread. Ratios are for equal numbers of epochs; in "
        "use, each model stops at its own.",
        grid(header, lines),
    ]


def codex(found: Found) -> list[str]:
    data, protocol, rows = found["data"], found["protocol"], found["rows"]
    headline = next(row["name"] for row in rows if row["how"] == "nested")
    against = {name: line for line in found["comparisons"] for name in (line["variant_a"], line["variant_b"])}
    lines = []
    for row in rows:
        tests = [p_value(against[row["name"]][key]) for key in ("t_p_holm", "delong_p_holm")]
        spread = f"{row['auc_mean']:.3f} ± {row['auc_std']:.3f}"
        whole = f"{row['auc_patient']:.3f} [{row['auc_low']:.3f}, {row['auc_high']:.3f}]"
        own = ["", ""] if row["name"] == headline else tests
        lines.append([plain_name(row["name"]), row["how"], str(row["repeats"]), spread, whole, *own])
    header = ["method", "how", "repeats", "AUROC, mean ± std of repeats", "of the mean prediction [95 % interval]"]
    phantoms = [
        [f"{p['kind']}, seed {p['seed']}, noise {p.get('noise', 1):g}", f"{p['without']:.3f}", f"{p['with']:.3f}"]
        for p in found["phantoms"]
    ]
    return [
        f"{data['cells']:,} cells in {data['images']} images of {data['patients']} patients (Schürch et al., Cell "
        f"2020), classified as CLR or DII by patient; {protocol['repeats']} x {protocol['folds']} folds of patients, "
        f"from seed {protocol['first_seed']} on. `nested`: settings chosen by {protocol['inner_folds']} folds within "
        "the training patients; `fixed`: set beforehand; `control`: the same with positions shuffled; `reference`: "
        f"logistic regression on a hand-made statistic. P-values are against *{plain_name(headline)}*, Holm-adjusted: "
        "corrected t over folds, and DeLong. In the picture, squares are the AUROC of the mean prediction, diamonds "
        "the mean of repeats.",
        grid([*header, "t p", "DeLong p"], lines),
        "![Methods on CODEX](img/results-crc-codex.png)",
        *jigsaw_on(rows),
        "The same option on phantoms, AUROC of `graph-abmil`:",
        grid(["phantom", "without kinds", "with 8 kinds"], phantoms),
        "**The figures above are optimistic**, because the following was tried before on other folds of the same "
        "patients:",
        "\n".join(f"- {line}" for line in found["tried"]),
    ]


def jigsaw_on(rows: Sequence[Found]) -> list[str]:
    """Gain of each rule over its method without, repeat by repeat; repeats share patients, so there is no interval."""
    each = {row["name"]: row["auc_each"] for row in rows}
    lines = []
    for name, areas in each.items():
        without = {"graph-abmil+jigsaw": "graph-abmil", "abmil+jigsaw": "abmil, 5 epochs"}.get(name.split(",")[0], "")
        if without in each:
            gains = np.array(areas) - each[without][: len(areas)]
            figures = [f"{gain:+.3f}" for gain in (gains.mean(), gains.min(), gains.max())]
            lines.append([name, without, str(len(gains)), *figures])
    told = "Gain in AUROC from the jigsaw, by repeat; no interval is given because repeats share patients:"
    return [told, grid(["method", "over", "repeats", "mean gain", "least", "largest"], lines)] if lines else []
