"""A study's figures as a paper prints them: variants down, cohorts across, what was published in columns of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from rich.table import Table
from rich.text import Text

from ..study.published import Published
from .tables import GAP, Column, cohort_line, cohorts, column_width, counted, plus_minus, table_of

PHANTOM = (
    "PHANTOM STAND-INS: artificial slides that have the numbers of the real cohorts and none of their tissue. "
    "NO EVIDENCE about the paper's data, its figures, or any real slide."
)


@dataclass(frozen=True)
class PaperForm:
    """What stands where. phantom: the cohorts are stand-ins. file: the study file, where published figures go."""

    variants: Sequence[str]
    cohorts: Sequence[str]
    published: Published
    phantom: bool = False
    file: str = "the study file"


def paper_tables(summary: pd.DataFrame, form: PaperForm, width: int = 80) -> list[Table | Text]:
    """A title, a table (several below each other where the cohorts do not fit beside each other), and what to know."""
    names = Column("variant", list(form.variants), name=True)
    blocks: list[list[Column]] = []
    room = 0
    for cohort in form.cohorts:
        pair = _pair(summary, form, cohort)
        needed = sum(column_width(column) + GAP for column in pair)
        if not blocks or needed > room:
            blocks.append([names])
            room = width - column_width(names)
        blocks[-1] += pair
        room -= needed
    warning = [(PHANTOM + " ", "bold red")] if form.phantom else []
    notes = Text.assemble(*warning, (" ".join(_notes(summary, form)), "dim"))
    tables = [part for block in blocks for part in (Text(), table_of(block, width, []))][1:]  # a blank line between
    return [Text(_title(form), "bold"), *tables, notes]


def paper_markdown(summary: pd.DataFrame, form: PaperForm) -> str:
    """The same for documents, all cohorts beside each other."""
    columns = [Column("variant", list(form.variants), name=True)]
    columns += [column for cohort in form.cohorts for column in _pair(summary, form, cohort)]
    rows = [[c.header.replace("\n", " ") for c in columns], ["---" if c.name else "---:" for c in columns]]
    rows += [list(cells) for cells in zip(*(c.cells for c in columns), strict=True)]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    warning = [f"**{PHANTOM}**"] * form.phantom
    of = [cohort_line(name, rows) for name, rows in cohorts(summary)]
    return "\n\n".join([_title(form), *warning, *of, table, " ".join(_notes(summary, form))]) + "\n"


def _pair(summary: pd.DataFrame, form: PaperForm, cohort: str) -> list[Column]:
    """Ours, and beside it what was published; beside phantoms nothing is."""
    own = dict(cohorts(summary)).get(cohort, summary[:0])
    found = {str(row["variant"]): plus_minus(row["auc_mean"], row["auc_std"]) for _, row in own.iterrows()}
    ours = Column(cohort.replace(" ", "\n", 1) if form.phantom else cohort, [found.get(v, "-") for v in form.variants])
    if form.phantom:
        return [ours]
    given = form.published.figures.get(cohort, {})
    return [ours, Column("paper", [given.get(variant, "-") for variant in form.variants])]


def _title(form: PaperForm) -> str:
    return form.published.source + (", run on PHANTOM STAND-INS" if form.phantom else "")


def _notes(summary: pd.DataFrame, form: PaperForm) -> list[str]:
    over = counted(summary["folds"], "test fold") if len(summary) else "test folds"
    if "seeds" in summary and summary["seeds"].max() > 1:
        over += f" of each of {summary['seeds'].max()} seeds"
    whole = len(summary) == len(form.variants) * len(form.cohorts)
    notes = [f"AUC, mean ± standard deviation over {over}{'' if whole else '; - where a job failed'}."]
    if form.phantom:
        notes.append("Published figures do not belong beside phantoms and are left out.")
    elif form.published.figures:
        notes.append(f"paper: {form.published.source}, as typed into {form.file}; - where no figure is given.")
    else:
        notes.append(f"The paper's figures are not at hand; put them under [published] in {form.file}.")
    return notes
