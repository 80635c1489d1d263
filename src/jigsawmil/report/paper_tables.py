"""A study's figures as a paper prints them: variants down, cohorts across, and the paper's own beside or below them."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from ..study.published import Published
from .tables import Column, Table, cohort_line, cohorts, counted, plus_minus

PHANTOM = (
    "SYNTHETIC STAND-INS (PHANTOMS): cohorts with the numbers of the real ones but none of their tissue. NO EVIDENCE "
    "about the paper's data, its figures, or any real slide."
)


@dataclass(frozen=True)
class PaperForm:
    """What stands where. phantom: the cohorts are stand-ins. file: the study file, where published figures go."""

    variants: Sequence[str]
    cohorts: Sequence[str]
    published: Published
    phantom: bool = False
    file: str = "the study file"


def paper_tables(summary: pd.DataFrame, form: PaperForm) -> list[Table]:
    """Our figures with the paper's beside them; after our figures of phantoms, the paper's in a table of their own."""
    columns = [Column("variant", list(form.variants), name=True)]
    columns += [column for cohort in form.cohorts for column in _pair(summary, form, cohort)]
    ours = Table(_title(form), columns, _notes(summary, form), warning=PHANTOM if form.phantom else "")
    return [ours, published_table(form.published)] if form.phantom and form.published.figures else [ours]


def published_table(published: Published) -> Table:
    """The paper's table alone: its rows, columns and digits."""
    return printed_table(published, _validation(published))


def printed_table(published: Published, about: str) -> Table:
    """A paper's table with a note on what its figures are."""
    names = published.variants
    columns = [Column(published.corner, [published.rows.get(name, name) for name in names], name=True)]
    for cohort, own in published.figures.items():
        columns.append(Column(published.columns.get(cohort, cohort), [own.get(name, "-") for name in names]))
    renamed = [
        f"{label} is {name} in the study file."
        for name, label in published.columns.items()
        if label.lower() != name.lower()
    ]
    return Table(f"{published.source}, as published", columns, [about, *renamed])


def paper_markdown(summary: pd.DataFrame, form: PaperForm) -> str:
    """The same for documents, with a line about each cohort."""
    ours, *paper = paper_tables(summary, form)
    warning = [f"**{ours.warning}**"] if ours.warning else []
    of = [cohort_line(name, own) for name, own in cohorts(summary)]
    parts = [ours.title, *warning, *of, _markdown(ours), " ".join(ours.notes)]
    parts += [part for table in paper for part in (table.title, _markdown(table), " ".join(table.notes))]
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    rows = [
        [column.header.replace("\n", " ") for column in table.columns],
        ["---" if column.name else "---:" for column in table.columns],
        *table.rows,
    ]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


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
    return form.published.source + (", run on SYNTHETIC STAND-INS (PHANTOMS)" if form.phantom else "")


def _validation(published: Published) -> str:
    folds = f"{published.folds}-fold cross-validation" if published.folds else "cross-validation"
    spread = any("±" in figure for own in published.figures.values() for figure in own.values())
    return f"AUROC of {folds}{', mean ± standard deviation' if spread else ''}; digits as the paper prints them."


def _notes(summary: pd.DataFrame, form: PaperForm) -> list[str]:
    over = counted(summary["folds"], "test fold") if len(summary) else "test folds"
    if "seeds" in summary and summary["seeds"].max() > 1:
        over += f" of each of {summary['seeds'].max()} seeds"
    whole = len(summary) == len(form.variants) * len(form.cohorts)
    notes = [f"AUROC, mean ± standard deviation over {over}{'' if whole else '; - where a job failed'}."]
    if not form.published.figures:
        notes.append(f"The study file does not give the paper's figures; add them under [published] in {form.file}.")
    elif form.phantom:
        notes.append("The paper's figures are of real slides, so they have their own table.")
    else:
        notes.append(f"paper: {form.published.source}, as stated in {form.file}; - where no figure is given.")
    return notes
