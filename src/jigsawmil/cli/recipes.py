"""The verb that makes a label table from the tables that people download."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ..cohort.recipes import RECIPES, Count, Labelled, make_labels, reasons_text
from ..errors import LabelError
from ..files import check_target, write_csv
from ..report.tables import Column, Table, counted
from .app import app
from .arguments import Quiet
from .screen import console
from .terminal import print_stacked, rendered

SHOWN = 6  # reasons of a rule; the CSV of what was dropped has them all


@app.command()
def labels(
    recipe: Annotated[str, typer.Argument(help=f"{', '.join(RECIPES)}.")],
    out: Annotated[Path, typer.Option(help="CSV to write; NAME_dropped.csv beside it lists the rest, with reasons.")],
    clinical: Annotated[
        Path | None, typer.Option(help="Table with the labels: CSV, TSV or XLSX. CAMELYON16: its reference.csv.")
    ] = None,
    slides: Annotated[
        Path | None, typer.Option(help="Table of slides (slide_id, patient_id), if --clinical lists patients.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Folder of feature files or slides: only slides found here get a label.")
    ] = None,
    several: Annotated[
        str | None,
        typer.Option(
            help="Patients with more than one slide: remove, or keep all their slides. "
            "Default: remove for tcga-brca, keep for the others."
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="TCGA slides to take: diagnostic (DX), frozen (TS, MS, BS) or both.")
    ] = "diagnostic",
    sites: Annotated[
        Path | None, typer.Option(help="TCGA's table of tissue source sites: site is then the institution, not a code.")
    ] = None,
    sheet: Annotated[str | None, typer.Option(help="Sheet of an XLSX file.")] = None,
    quiet: Quiet = False,
) -> None:
    """Make the label table of a public cohort and report what each rule kept and dropped.

    Example: `jigsawmil labels tcga-coad --clinical clinical.xlsx --features features --out labels.csv`
    """
    screen = console()
    if out.suffix.lower() != ".csv":
        raise LabelError(f"--out {out}: found {out.suffix!r}, expected .csv. Give {out.with_suffix('.csv')}.")
    rest = out.with_name(f"{out.stem}_dropped.csv")
    check_target(out)
    with _reading(clinical, screen, quiet):
        made = make_labels(
            recipe, clinical, slides=slides, features=features, sites=sites, several=several, kind=kind, sheet=sheet
        )
    write_csv(made.dropped, rest)
    write_csv(made.labels, out)
    if not quiet:
        screen.print(rendered(rules_table(made), screen.width), "")
        if beside := beside_paper(made):
            print_stacked([beside], screen)
        for note in made.notes:
            screen.print(f"Note: {escape(note)}", highlight=False)
    _tell(made, out, rest, features, screen)


def rules_table(made: Labelled) -> Table:
    """One row per rule."""
    steps = made.steps
    rows = [Column("rows\ndropped", [_number(step.rows) for step in steps])]
    if all(step.rows == step.lost.slides for step in steps):  # a row is a slide
        rows = []
    columns = [
        Column("rule", [step.rule for step in steps], name=True),
        Column("slides\nkept", [_number(step.kept.slides) for step in steps]),
        Column("patients\nkept", [_number(step.kept.patients) for step in steps]),
        Column("slides\ndropped", [_number(step.lost.slides) for step in steps]),
        Column("patients\ndropped", [_number(step.lost.patients) for step in steps]),
        *rows,
        Column("dropped, by value", [reasons_text(step, SHOWN) for step in steps], name=True),
    ]
    ends = [i - 1 for i, step in enumerate(steps) if step.opens]
    notes = [
        "A patient is dropped with their last slide. Counts by value are slides, or patients if slides are not "
        "known yet."
    ]
    return Table(made.recipe.title, columns, notes, ends)


def beside_paper(made: Labelled) -> Table | None:
    """Our counts and the paper's at each stage of the cohort; None if the paper reports none, or we have no slides."""
    paper = made.recipe.paper
    if paper is None or not made.has_slides:
        return None
    columns = [Column("stage", [theirs.stage for theirs in paper.stages], name=True)]

    def add(header: str, ours: Iterable[int], theirs: Iterable[int]) -> None:
        columns.append(Column(header, [_number(n) for n in ours]))
        columns.append(Column("paper", [_number(n) for n in theirs], attached=True))

    kept = [step.kept if step else Count(0, 0) for step in made.stages]
    add("slides", [n.slides for n in kept], [theirs.slides for theirs in paper.stages])
    add("patients", [n.patients for n in kept], [theirs.patients for theirs in paper.stages])
    for name in paper.stages[-1].classes:
        of_class = [step.classes.get(name, 0) if step else 0 for step in made.stages]
        add(name, of_class, [theirs.classes.get(name, 0) for theirs in paper.stages])
    first, second, _ = paper.stages
    shares = [100 * part.slides / whole.slides for part, whole in ((kept[1], kept[0]), (second, first))]
    notes = [
        f"paper: {paper.source}.",
        f"Before any rule there are {kept[0].slides:,} slides here and {first.slides:,} in the paper; "
        f"{shares[0]:.1f} % and {shares[1]:.1f} % of them have a label.",
        paper.remark,
    ]
    return Table("The cohort here and in the paper", columns, notes)


def _number(n: int) -> str:
    return f"{n:,}" if n else "-"


def _tell(made: Labelled, out: Path, rest: Path, features: Path | None, screen: Console) -> None:
    rows = "slide" if made.has_slides else "patient"
    classes = ", ".join(f"{name}: {getattr(n, rows + 's'):,}" for name, n in made.classes.items())
    of = f" of {counted(made.labels['patient_id'].nunique(), 'patient')}" if made.has_slides else ""
    screen.print(f"{counted(len(made.labels), rows)}{of}. {classes}.", soft_wrap=True, highlight=False)
    screen.print(
        f"{out}\n{rest} ({counted(len(made.dropped), 'row')} dropped, each with its reason)",
        soft_wrap=True,
        highlight=False,
    )
    target = f"--positive {made.recipe.positive}" if made.recipe.positive else "--ordinal"
    site = " --site-column site" if made.site_column else ""
    where = features or "FEATURES"
    line = f"jigsawmil compare --labels {out} --features {where} {target}{site} --out run"
    screen.print(f"Next: {escape(line)}", soft_wrap=True, highlight=False)


@contextmanager
def _reading(clinical: Path | None, screen: Console, quiet: bool) -> Iterator[None]:
    """A large XLSX takes ten seconds."""
    if quiet or clinical is None or clinical.suffix.lower() not in (".xlsx", ".xlsm"):
        yield
    elif screen.is_terminal:
        with screen.status(f"Reading {escape(clinical.name)}"):
            yield
    else:
        screen.print(f"Reading {escape(clinical.name)}")
        yield
