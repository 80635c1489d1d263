"""A study's figures as a paper prints them: variants down, cohorts across, what was published in columns of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from ..study.published import Published
from .tables import Column, Table, cohort_line, cohorts, counted, plus_minus

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


def paper_table(summary: pd.DataFrame, form: PaperForm) -> Table:
    """Variants down; for each cohort a column of ours, and attached to it what was published."""
    columns = [Column("variant", list(form.variants), name=True)]
    columns += [column for cohort in form.cohorts for column in _pair(summary, form, cohort)]
    return Table(_title(form), columns, _notes(summary, form), warning=PHANTOM if form.phantom else "")


def paper_markdown(summary: pd.DataFrame, form: PaperForm) -> str:
    """The same for documents, with a line about each cohort."""
    table = paper_table(summary, form)
    rows = [
        [column.header.replace("\n", " ") for column in table.columns],
        ["---" if column.name else "---:" for column in table.columns],
        *table.rows,
    ]
    lines = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    warning = [f"**{table.warning}**"] if table.warning else []
    of = [cohort_line(name, own) for name, own in cohorts(summary)]
    return "\n\n".join([table.title, *warning, *of, lines, " ".join(table.notes)]) + "\n"


def _pair(summary: pd.DataFrame, form: PaperForm, cohort: str) -> list[Column]:
    """Ours, and beside it what was published; beside phantoms nothing is."""
    own = dict(cohorts(summary)).get(cohort, summary[:0])
    found = {str(row["variant"]): plus_minus(row["auc_mean"], row["auc_std"]) for _, row in own.iterrows()}
    ours = Column(cohort.replace(" ", "\n", 1) if form.phantom else cohort, [found.get(v, "-") for v in form.variants])
    if form.phantom:
        return [ours]
    given = form.published.figures.get(cohort, {})
    return [ours, Column("paper", [given.get(variant, "-") for variant in form.variants], attached=True)]


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
        notes.append(f"The paper's figures are not given; put them under [published] in {form.file}.")
    return notes
