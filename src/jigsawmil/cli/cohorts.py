"""Verbs about cohorts: draw one, look one over."""

from typing import Annotated

import typer

from .app import app
from .arguments import Out, Quiet, TableOptions
from .groups import grouped
from .screen import console, tracked


@app.command()
def phantom(
    kind: Annotated[str, typer.Argument(help="composition, arrangement or position.")],
    out: Out,
    slides: Annotated[int, typer.Option(help="Slides in the cohort.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    patches: Annotated[int, typer.Option(help="Median number of patches a slide.")] = 500,
    dim: Annotated[int, typer.Option(help="Dimension of the features.")] = 256,
    noise: Annotated[float, typer.Option(help="Noise of a patch around its type.")] = 1.0,
    slide_effect: Annotated[float, typer.Option(help="Shift common to a slide's patches.")] = 0.3,
    balance: Annotated[float, typer.Option(help="Share of patients in the second class.")] = 0.5,
    two_slides: Annotated[float, typer.Option(help="Share of patients with two slides.")] = 0.1,
    quiet: Quiet = False,
) -> None:
    """Write an artificial cohort with a known answer: TRIDENT files and a label table.

    Example: `jigsawmil phantom position --slides 60 --seed 1 --out phantom`
    """
    from ..synthetic.phantom import phantom_slides, write_phantom
    from ..synthetic.phantom_options import phantom_spec

    knobs = {"patches": patches, "dim": dim, "noise": noise, "slide_effect": slide_effect}
    spec = phantom_spec(kind, slides=slides, seed=seed, balance=balance, two_slides=two_slides, **knobs)
    screen = console()
    write_phantom(tracked(phantom_slides(spec), slides, f"Drawing {slides} slides", screen, quiet), out)
    screen.print(f"{out / 'labels.csv'}\n{out / 'features'}", soft_wrap=True)


@app.command(name="check")
@grouped
def check_cohort(
    table: TableOptions,
    json: Annotated[bool, typer.Option("--json", help="Everything by name, as JSON.")] = False,
) -> None:
    """What a cohort holds and what is wrong with it, before anything runs.

    Example: `jigsawmil check --labels labels.csv --features features`
    """
    from ..cohort.cohort import check

    report = check(**table.given())
    typer.echo(report.to_json() if json else report.summary())
    if report.errors:
        raise typer.Exit(1)
