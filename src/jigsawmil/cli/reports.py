"""Verbs that write about a run: the report."""

from pathlib import Path
from typing import Annotated

import typer

from .app import app
from .screen import console


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run: what compare, study or demo wrote.")],
    out: Annotated[Path | None, typer.Option(help="HTML file to write; report.html in the run by default.")] = None,
) -> None:
    """Write one HTML report of a run: results first, then methods and provenance. It opens offline and prints on A4.

    Example: `jigsawmil report run --out report.html`
    """
    from ..report.page import write_report
    from ..study.run_folder import RunFolder

    written = write_report(run, out or RunFolder(run).report)
    console().print(f"The report is {written}", soft_wrap=True, highlight=False)
