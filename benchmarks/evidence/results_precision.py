"""What docs/results.md says of bfloat16 beside float32, from its file of results."""

from .results_sections import Found, grid

COLUMNS = ("AUROC, float32", "AUROC, `auto`", "difference [95 % interval]")


def precision(found: Found) -> list[str]:
    bound, shape = found["bound"], found["shape"]
    phantoms, codex = found["phantoms"], found["codex"]
    cohorts = len(phantoms["difference"]["values"])
    lines = [[f"`{part['kind']}`", f"`{part['method']}`", *_cells(part)] for part in phantoms["parts"]]
    return [
        f"The same trainings in float32 and in `precision = auto`, which was {found['auto']} on this machine: "
        f"ensembles of {shape['members']} with default settings, the same seeds and splits. **Declared rule:** `equal` "
        f"if the 95 % interval (Student's) of the paired difference of AUROC lies within {bound} of 0, `different` if "
        f"it excludes 0 and the mean is beyond {bound}, else `open`. It is judged over the {cohorts} cohorts, both "
        "methods averaged, and over the repeats of CODEX, the rows averaged. The default becomes `auto` only if both "
        "are `equal` (`benchmarks/evidence/precision.py`).",
        f"{cohorts} synthetic cohorts, {shape['train']} slides to fit on, {shape['test']} others to test:",
        grid(["cohorts", "method", *COLUMNS], lines),
        f"All cohorts: {_stated(phantoms['difference'])}, **{phantoms['difference']['verdict']}**.",
        *_codex(codex),
        _default(phantoms, codex),
    ]


def _codex(codex: Found | None) -> list[str]:
    if codex is None:
        return ["CODEX was not run: its cells were not there."]
    return [
        f"CODEX cells of 35 patients, {codex['repeats']} repeats of 5 folds. A difference is of a repeat, so the "
        "interval covers trainings and folds, not other patients:",
        grid(["row", *COLUMNS], [[row["row"], *_cells(row)] for row in codex["parts"]]),
        f"All rows: {_stated(codex['difference'])}, **{codex['difference']['verdict']}**.",
    ]


def _default(phantoms: Found, codex: Found | None) -> str:
    verdicts = [part["difference"]["verdict"] if part else "not run" for part in (phantoms, codex)]
    if verdicts == ["equal", "equal"]:
        return "By the rule the default may become `auto`."
    return f"By the rule the default stays float32 (synthetic: {verdicts[0]}; CODEX: {verdicts[1]})."


def _cells(part: Found) -> list[str]:
    return [*(f"{value:.4f}" for value in part["auc"].values()), _stated(part["difference"])]


def _stated(gap: Found) -> str:
    """With a digit more than elsewhere: the bound is small."""
    return f"{gap['mean']:+.4f} [{gap['low']:+.4f}, {gap['high']:+.4f}]"
