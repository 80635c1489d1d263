"""Verbs that cross-validate: a comparison, a study file.

What computes is imported when a verb runs: its --help and its wrong flags need none of it.
"""

from pathlib import Path
from typing import Annotated

import typer

from ..cohort.options import FOLDS
from ..errors import ConfigError
from ..nn.options import DEFAULT_METHOD, METHODS, PAPER_METHODS, check_method
from ..train.presets import PAPER_FOLDS, preset_folds, preset_method
from .ahead import check_data, draw_standins, show_cost, show_published, study_settings
from .app import app
from .arguments import Memory, Quiet, RunOut, Seed, TableOptions, Yes
from .choosing import ChooseOptions
from .groups import grouped
from .options import MethodOptions, TargetOptions, WhereOptions
from .screen import console

COMPARED = ("abmil", DEFAULT_METHOD)  # unless methods are named: what needs no positions, and what we recommend


@app.command()
@grouped
def compare(
    table: TableOptions,
    target: TargetOptions,
    method: MethodOptions,
    chosen: ChooseOptions,
    where: WhereOptions,
    out: RunOut,
    methods: Annotated[
        str | None,
        typer.Option(
            help=f"Comma separated, of {', '.join(METHODS)}; other models: package.module:factory, torchmil:ABMIL.",
            show_default=f"{','.join(COMPARED)}; with --preset paper its five methods",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(help=f"Folds of the cross-validation. Default: {FOLDS} ({PAPER_FOLDS} with --preset paper)."),
    ] = None,
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Number of repetitions, each with its own folds and seed.")] = 1,
    splits: Annotated[
        Path | None, typer.Option(help="File or folder of folds or hold-outs: CLAM, STAMP, Patho-Bench, folds.json.")
    ] = None,
    by_site: Annotated[bool, typer.Option("--by-site", help="Keep the slides of a site in one fold.")] = False,
    shuffle_control: Annotated[
        bool,
        typer.Option("--shuffle-control", help="Repeat with coordinates shuffled in each slide (negative control)."),
    ] = False,
    attention: Annotated[bool, typer.Option("--attention", help="Keep the attention of every test slide.")] = False,
    choose_only: Annotated[
        bool, typer.Option("--choose-only", help="With --choose: do not also run the methods with default settings.")
    ] = False,
    memory_gb: Memory = 4.0,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Cross-validate methods on a cohort: tables, tests and plots in a run folder. Rerun to resume.

    Example: `jigsawmil compare --labels labels.csv --features features --methods abmil,graph-abmil+jigsaw --out run`;
    with settings chosen in each fold, add `--choose k=8,24,50 --choose conv=gat,sage`
    """
    from ..study.study import Study, with_choices, with_covariates
    from .asking import with_positives
    from .show import show_study

    if methods is None:
        methods = ",".join(COMPARED if preset_method(method.preset) == DEFAULT_METHOD else PAPER_METHODS)
    names = dict.fromkeys(name.strip() for name in methods.split(",") if name.strip())
    for name in names or [methods]:
        check_method(name, "--methods")
    source = target.source(table)
    variants = (with_covariates if source.options.covariates else dict)(method.each(names, where))
    choice = chosen.choice()
    if choose_only and choice is None:
        raise ConfigError("--choose-only without --choose: expected what to choose, such as --choose k=8,24,50.")
    study = Study(
        cohorts={"cohort": source},
        **with_choices(variants, {} if choice is None else dict.fromkeys(variants, choice), default=not choose_only),
        folds=preset_folds(method.preset) if folds is None else folds,
        seeds=tuple(range(seed, seed + seeds)),
        splits={"cohort": str(splits)} if splits else {},
        by_site=by_site,
        shuffle_control=shuffle_control,
        attention=attention,
        memory_gb=memory_gb,
    )
    show_study(with_positives(study, console(), yes=yes), out, where, quiet)


@app.command(name="study")
@grouped
def study_file(
    where: WhereOptions,
    file: Annotated[Path, typer.Argument(help="Study file (TOML or YAML).")],
    out: Annotated[
        str | None,
        typer.Option(help="Folder or fsspec URL to write to; runs/NAME by default, runs/NAME-phantom with --phantom."),
    ] = None,
    phantom: Annotated[
        bool, typer.Option("--phantom", help="Run on synthetic stand-ins for the cohorts, as the file describes them.")
    ] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Print the paper's figures from the file; run nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the trainings, hours and gigabytes it would take; run nothing.")
    ] = False,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting of all variants, such as --set k=8; overrides the study file. docs/settings.md lists them.",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of all variants; overrides the study file.")] = None,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Run a study file: cohorts x variants x folds x seeds. Rerun to resume.

    Example: `jigsawmil study studies/table1-cancers.toml --phantom --jobs 2`; for a quick trial of it, add
    `--epochs 2 --out trial`
    """
    if published:
        show_published(file)
        return
    from ..study.run_folder import RunFolder
    from ..study.study_file import read_study
    from .asking import with_positives
    from .show import run_folder, show_study

    study = read_study(file, study_settings(more, epochs))
    if dry_run:
        if not phantom:
            check_data(study, file)
        show_cost(study, phantom=phantom, processes=where.jobs or 1)
        return
    out = out or str(Path("runs") / (file.stem + "-phantom" * phantom))
    if phantom:
        study = draw_standins(study, RunFolder(run_folder(out)).standins, quiet)
    else:
        check_data(study, file)
        study = with_positives(study, console(), yes=yes)
    show_study(study, out, where, quiet)
