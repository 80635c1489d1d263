"""What the folds of a study chose, from what, and what choosing cost or gained."""

from collections.abc import Iterator

import pandas as pd

from ..study.run import Run
from ..study.study import default_of
from ..tasks import measure_of
from .tables import Column, Table, counted, p_text, signed

WIDE = 6  # folds that a table shows one by one
RULE = (
    "Gain: the inner loss of the default minus that of the candidate, mean over the inner folds of the training "
    "patients, ± its standard error (Nadeau and Bengio). The candidate with the largest gain is chosen among those "
    "whose gain exceeds its own standard error (bold), else the default. The test fold is not used."
)


def choices_of(run: Run, cohort: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each variant that chose, and its rows."""
    table = run.choices
    rows = table[table["cohort"] == cohort] if len(table) else table
    for variant, own in rows.groupby("variant", sort=False) if len(rows) else ():
        yield str(variant), own


def choice_table(variant: str, rows: pd.DataFrame) -> Table:
    """One row per candidate: how often it was chosen, and its gain in each fold."""
    names = list(dict.fromkeys(rows["candidate"]))
    folds = list(dict.fromkeys(zip(rows["seed"], rows["fold"], strict=True)))
    default = str(rows.loc[rows["default"] == 1, "candidate"].iloc[0])
    by_name = {name: rows[rows["candidate"] == name] for name in names}
    columns = [
        Column("candidate", [f"{name} (default)" if name == default else name for name in names], name=True),
        Column("chosen\nin folds", [f"{int(own['chosen'].sum())} of {len(folds)}" for own in by_name.values()]),
        Column(
            "gain, mean\nof folds", ["" if name == default else signed(by_name[name]["gain"].mean()) for name in names]
        ),
    ]
    several = len({seed for seed, _ in folds}) > 1
    for seed, fold in folds if len(folds) <= WIDE else ():
        own = rows[(rows["seed"] == seed) & (rows["fold"] == fold)].set_index("candidate")
        cells = ["" if name == default else _gain(own.loc[name]) for name in names]
        kept = tuple(bool(own.loc[name, "chosen"]) for name in names)
        title = f"gain in fold {fold}" + (f",\nseed {seed}" if several else "")
        shown = [cell or "kept" * strong for cell, strong in zip(cells, kept, strict=True)]
        columns.append(Column(title, shown, bold=kept, optional=True))
    return Table(f"{variant}: what each fold chose", columns, [RULE])


def choice_lines(run: Run, cohort: str, variant: str, rows: pd.DataFrame) -> list[str]:
    """What was chosen, what that did to the AUROC of the test folds, and what it took."""
    picked = rows[rows["chosen"] == 1]
    counts = picked["candidate"].value_counts()
    default = str(rows.loc[rows["default"] == 1, "candidate"].iloc[0])
    chosen = [f"{name}{' (the default)' if name == default else ''} in {n}" for name, n in counts.items()]
    lines = [f"{variant}: of {counted(len(picked), 'fold')}, {'; '.join(chosen)}."]
    lines += _against_default(run, cohort, variant)
    minutes = rows["seconds"].sum() / 60
    tried = counted(rows["candidate"].nunique(), "candidate")
    return [*lines, f"Choosing between {tried} took {minutes:.1f} minutes of fitting in inner folds."]


def _against_default(run: Run, cohort: str, variant: str) -> list[str]:
    """The difference to the variant with default settings, of each target; nothing if it was not run."""
    other, pairs, lines = default_of(variant), run.comparisons, list[str]()
    if other is None or pairs.empty:
        return lines
    for _, row in pairs[pairs["cohort"] == cohort].iterrows():
        if {row["variant_a"], row["variant_b"]} == {variant, other}:
            sign = 1 if row["variant_a"] == variant else -1
            figures = (
                f"{signed(sign * row['difference'])} pooled, {signed(sign * row['fold_difference'])} mean of folds"
            )
            measure, target = measure_of(row), row.get("target")
            own = f"{measure.test_name} p {p_text(row[f'{measure.test}_p_holm'])}"
            of = f"{target}: " if isinstance(target, str) and target else ""
            lines.append(
                f"{of}{measure.words} on the test folds against {other}, which has the default settings: {figures} "
                f"({own}, corrected t-test p {p_text(row['t_p_holm'])})."
            )
    return lines


def _gain(row: pd.Series) -> str:
    return f"{signed(row['gain'])} ± {row['error']:.3f}"
