"""The verb that looks over the machine."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from .app import app
from .screen import console


@app.command()
def doctor(
    folder: Annotated[
        Path, typer.Argument(help="Folder on the disk whose speed is measured, such as that of the features.")
    ] = Path(),
) -> None:
    """Report this machine's hardware and software, and check the kernels on it: whether each is right, and how fast.

    Exits with 1 if a kernel is wrong.

    Example: `jigsawmil doctor features`
    """
    from ..doctor import examine
    from .terminal import rendered

    screen = console()
    found = examine(folder)
    for table in found.tables:
        screen.print(rendered(table, screen.width), "")
    for fault in found.faults:
        screen.print(f"[bold red]Wrong:[/] {escape(fault)}", highlight=False, soft_wrap=True)
    screen.print(escape(found.verdict), highlight=False)
    if not found.right:
        raise typer.Exit(1)
