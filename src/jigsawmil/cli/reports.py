"""Verbs that write about a run: the report."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from .app import app
from .screen import console


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run: what compare, study or demo wrote.")],
    out: Annotated[Path | None, typer.Option(help="HTML file to write; report.html in the run by default.")] = None,
    horizons: Annotated[
        str | None,
        typer.Option(
            help="Times at which predicted survival is judged, in the unit of the label table: 12,36,60. Default: "
            "quartiles of the event times."
        ),
    ] = None,
) -> None:
    """Write one HTML report of a run: results first, then methods and provenance. It opens offline and prints on A4.

    Example: `jigsawmil report run --out report.html`; of survival `--horizons 12,36,60`
    """
    from ..report.page import write_report
    from ..study.run import open_run
    from ..study.run_folder import RunFolder
    from .show import show_positive

    try:
        times = [float(time) for time in horizons.split(",")] if horizons is not None else []
    except ValueError as error:
        raise ConfigError(f"--horizons {horizons}: expected times such as 12,36,60.") from error
    written = write_report(run, out or RunFolder(run).report, horizons=times)
    show_positive(open_run(run).record.positive_lines, console())
    console().print(f"The report is {written}", soft_wrap=True, highlight=False)
