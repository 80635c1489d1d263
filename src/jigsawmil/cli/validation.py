"""Verbs that hold one result against another: a model against a new cohort, a run against another run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ..train.config import TrainConfig
from .app import app
from .arguments import Device, Out, Quiet, TableOptions, Threads
from .groups import grouped
from .screen import console, tracked


@app.command()
@grouped
def validate(
    source: Annotated[Path, typer.Argument(metavar="MODEL_OR_RUN", help="Folder of a model, or of a run.")],
    table: TableOptions,
    out: Out,
    variant: Annotated[
        str | None, typer.Option(help="Variant of a run, whose fold models are averaged. Default: the last.")
    ] = None,
    cohort: Annotated[str | None, typer.Option(help="Cohort whose models are used, if the run has several.")] = None,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Run even if slides or patients are in the training set.")
    ] = False,
    attention: Annotated[bool, typer.Option("--attention", help="Keep the attention of every slide.")] = False,
    device: Device = TrainConfig.device,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Validate a model on a second labelled cohort: AUROC with intervals, calibration, confusion matrix, report.

    For a run, the logits of all fold models of a variant are averaged. A cohort that shares slides or
    patients with the training set is refused. OUT gets predictions.csv and summary.csv with the columns of compare,
    the same by patient, and report.html.

    Example: `jigsawmil validate model --labels new.csv --features new_features --out validation`
    """
    from ..cohort.positive import positive_lines
    from ..report.finish import validate as run_validation
    from ..report.validation import validation_answer, validation_table
    from ..train.devices import pick_device, use_threads
    from .show import show_positive
    from .terminal import rendered

    screen = console()
    pick_device(device)
    use_threads(threads)
    given = table.given()
    labels, features = given.pop("labels"), given.pop("features")
    run = run_validation(
        source, labels, features, out,
        variant=variant, cohort=cohort, allow_overlap=allow_overlap, attention=attention, device=device,
        on_cohorts=lambda read: show_positive(positive_lines(read, trained=True), screen),
        follow=lambda found, total: tracked(found, total, f"Predicting {total} cases", screen, quiet),
        **given,
    )  # fmt: skip
    record = run.record.validation
    if record is not None and not quiet:
        screen.print(f"Validated: {escape(record.words)}.", soft_wrap=True, highlight=False)
    for _, view in run.by_target:
        if view.target:
            screen.print(f"[bold]{escape(view.target)}[/]")
        screen.print(rendered(validation_table(view), screen.width), "")
        answer = validation_answer(view)
        for line in (answer.headline, *answer.further):
            screen.print(escape(line), soft_wrap=True, highlight=False)
    for note in () if quiet else run.notes[run.cohorts[0]]:
        screen.print(f"Note: {escape(note)}", soft_wrap=True, highlight=False)
    screen.print(f"Tables in {out}. The report is {run.files.report}", soft_wrap=True, highlight=False)


@app.command(name="compare-runs")
def compare_two_runs(
    a: Annotated[Path, typer.Argument(metavar="A", help="Folder of a run.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Folder of another run, on the same folds.")],
    variant_a: Annotated[str | None, typer.Option(help="Variant of A. Default: those that both runs have.")] = None,
    variant_b: Annotated[str | None, typer.Option(help="Variant of B.")] = None,
    cohort: Annotated[str | None, typer.Option(help="Cohort, if the runs have several.")] = None,
    target: Annotated[str | None, typer.Option(help="Target, if the runs have several.")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV to write.")] = None,
) -> None:
    """Compare two runs on the same slides and folds with paired tests: DeLong and the corrected resampled t-test.

    Variants of the same name are paired; if the runs share none, every variant of A with every one of B. Runs whose
    slides, labels, patients, seeds or folds differ are refused.

    Example: `jigsawmil compare-runs run-k8 run-k50 --variant-a graph-abmil --variant-b graph-abmil --out pairs.csv`
    """
    from ..cohort.positive import positive_lines
    from ..files import check_target, write_csv
    from ..report.tables import run_comparison_table
    from ..study.run import open_run
    from ..study.run_pairs import compare_runs
    from .show import show_positive
    from .terminal import rendered

    screen = console()
    if out is not None:
        check_target(out)
    found = compare_runs(a, b, variant_a=variant_a, variant_b=variant_b, cohort=cohort, target=target)
    record = open_run(a).for_target(target).record
    of = {name: own for name, own in record.cohorts.items() if name in set(found["cohort"])}
    show_positive(positive_lines(of, file=record.file, trained=record.validation is not None), screen)
    screen.print(rendered(run_comparison_table(found), screen.width), "")
    if out is not None:
        write_csv(found, out)
        screen.print(f"{len(found)} pair{'s' * (len(found) != 1)} in {out}.", soft_wrap=True)
