"""The verb that shows a run in a browser."""

import logging
import secrets
from pathlib import Path
from typing import Annotated

import typer

from .app import app
from .arguments import Attribution, TargetName
from .screen import console


@app.command()
def view(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    slides: Annotated[
        Path | None, typer.Option(help="Folder of the slides; without it patches alone are shown.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="New feature folder, if the files have moved since the run.")
    ] = None,
    target: TargetName = None,
    attribution: Attribution = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 5006,
    address: Annotated[
        str | None, typer.Option(help="Address to listen on; 0.0.0.0 admits other machines.", show_default="127.0.0.1")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Require no token: anyone who can reach the address can open the page.")
    ] = False,
) -> None:
    """Explore a run in the browser: slides, predictions, maps, patches and their neighbours. Ctrl-C ends it.

    Example: `jigsawmil view run --slides slides`
    """
    from ..study.run import open_run
    from ..viewer.data import Library
    from ..viewer.server import LOOPBACK, make_server
    from ..viewer.session import Session

    screen = console()
    logging.getLogger("bokeh").setLevel(logging.ERROR)
    logging.getLogger("tornado.access").setLevel(logging.CRITICAL)
    library = Library(open_run(run).for_target(target), slides, features, attribution=attribution)
    token = "" if no_token else secrets.token_urlsafe(16)
    server = make_server(library, Session, port=port, address=address, token=token)
    host = address or LOOPBACK[0]
    if host not in LOOPBACK:
        who = "Anyone who can reach" if no_token else "Anyone who has the address below and can reach"
        screen.print(
            f"{who} {host}:{server.port} sees the slides, labels and predictions of this run, and nothing is "
            "encrypted. Stop it when it is no longer needed.",
            style="yellow",
        )
    if library.slides is not None:
        known = sum(slide_id in library.slides for slide_id in library.run.slides["slide_id"])
        screen.print(f"{known} of {len(library.run.slides)} slides of the run are in {slides}.", soft_wrap=True)
    query = f"?token={token}" if token else ""
    screen.print(f"http://{host}:{server.port}/{query}  Ctrl-C ends the viewer.", soft_wrap=True, highlight=False)
    server.start()
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        screen.print("The viewer has ended.")
    finally:
        server.stop()
