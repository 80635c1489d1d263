"""Verbs about cohorts: draw one, look one over, count its patches."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError
from .app import app
from .arguments import Out, Quiet, ReadingOptions, TableOptions
from .groups import grouped
from .options import TargetOptions
from .screen import console, tracked

if TYPE_CHECKING:
    from ..bags.counts import PatchStatistics
    from ..study.published import Published


@app.command()
def phantom(
    kind: Annotated[str, typer.Argument(help="composition, arrangement or position.")],
    out: Out,
    slides: Annotated[int, typer.Option(help="Slides in the cohort.")] = 100,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same bytes.")] = 0,
    encoder_seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the feature space; default: --seed. To draw a second cohort that models of a first one can "
            "be applied to, give the seed of the first."
        ),
    ] = None,
    patches: Annotated[int, typer.Option(help="Median number of patches per slide.")] = 500,
    dim: Annotated[int, typer.Option(help="Dimension of the features.")] = 256,
    noise: Annotated[float, typer.Option(help="Noise of each patch's features around its type.")] = 1.0,
    slide_effect: Annotated[float, typer.Option(help="Shift shared by all patches of a slide.")] = 0.3,
    balance: Annotated[float, typer.Option(help="Share of patients in the second class.")] = 0.5,
    two_slides: Annotated[float, typer.Option(help="Share of patients with two slides.")] = 0.1,
    task: Annotated[
        str,
        typer.Option(
            help="classes, survival (columns time and event), regression (column value) or multilabel (columns planted "
            "and chance)."
        ),
    ] = "classes",
    effect: Annotated[
        float,
        typer.Option(
            help="Effect of the class on the outcome: log hazard ratio for survival, standard deviations for "
            "regression, half the log odds ratio for multilabel. 0: none."
        ),
    ] = 3.0,
    quiet: Quiet = False,
) -> None:
    """Write a synthetic cohort (phantom) with a known answer: feature files in TRIDENT's layout and a label table.

    Example: `jigsawmil phantom position --slides 60 --seed 1 --out phantom`; a second cohort for its models:
    `jigsawmil phantom position --slides 60 --seed 2 --encoder-seed 1 --out second`; one with survival times:
    `jigsawmil phantom arrangement --task survival --out survival`
    """
    from ..synthetic.phantom import phantom_slides, write_phantom
    from ..synthetic.phantom_options import phantom_spec

    spec = phantom_spec(
        kind, slides=slides, seed=seed, encoder_seed=encoder_seed, patches=patches, dim=dim, noise=noise,
        slide_effect=slide_effect, balance=balance, two_slides=two_slides, task=task, effect=effect,
    )  # fmt: skip
    screen = console()
    write_phantom(tracked(phantom_slides(spec), slides, f"Drawing {slides} slides", screen, quiet), out)
    screen.print(f"{out / 'labels.csv'}\n{out / 'features'}", soft_wrap=True)


@app.command(name="check")
@grouped
def check_cohort(
    table: TableOptions,
    target: TargetOptions,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, with all names.")] = False,
) -> None:
    """Check a cohort before a run: what it contains, and what is wrong with it.

    Example: `jigsawmil check --labels labels.csv --features features`
    """
    from ..cohort.cohort import check

    report = check(**table.given(), **target.given())
    console().print(report.to_json() if json else report.summary(), markup=False, highlight=False, soft_wrap=True)
    if report.errors:
        raise typer.Exit(1)


@app.command()
def join(
    folders: Annotated[list[Path], typer.Argument(help="Features of several encoders on the same patches.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write. Default: A+B beside A.")] = None,
) -> None:
    """Join features of several encoders on the same patches into one folder; nothing is copied.

    Example: `jigsawmil join features/uni features/virchow2`
    """
    from ..bags.join import join_features

    console().print(str(join_features(folders, out)), markup=False, highlight=False, soft_wrap=True)


@app.command()
@grouped
def patches(
    reading: ReadingOptions,
    sources: Annotated[list[Path], typer.Argument(help="A study file, or folders of features.")],
    out: Annotated[Path | None, typer.Option(help="CSV to write, one row per cohort.")] = None,
    phantom: Annotated[
        bool, typer.Option("--phantom", help="Count the synthetic stand-ins that the study file describes.")
    ] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Print the paper's figures from the study file; read no features.")
    ] = False,
) -> None:
    """Count slides and patches per slide of cohorts (the paper's Table 4), from the headers of feature files.

    Example: `jigsawmil patches studies/table2-encoders.toml --published`
    """
    from ..report.patch_tables import patch_tables, published_patch_table
    from ..study.published import published_patches
    from ..study.study_text import STUDY_SUFFIXES
    from .terminal import print_stacked

    file = sources[0] if len(sources) == 1 and sources[0].suffix.lower() in STUDY_SUFFIXES else None
    if (phantom or published) and file is None:
        raise ConfigError(f"{sources[0]}: --phantom and --published need one study file, such as s.toml.")
    if file and any(reading.reading.values()):
        raise ConfigError(
            f"{file}: --slide-mpp, --patch-size and --unit do not apply to a study file. State them in it."
        )
    if published and file:
        print_stacked([published_patch_table(published_patches(file))], console())
        return
    found, paper = _of_study(file, phantom) if file else (_of_folders(sources, reading), None)
    if out is not None:
        from pandas import DataFrame

        from ..files import write_csv

        write_csv(DataFrame([{"cohort": name, **asdict(own)} for name, own in found.items()]), out)
    print_stacked(patch_tables(found, paper, phantom=phantom), console())


def _of_study(file: Path, phantom: bool) -> "tuple[dict[str, PatchStatistics], Published | None]":
    from ..study.patches import cohort_patches, standin_patches
    from ..study.published import patches_in
    from ..study.study_file import read_study
    from ..study.study_text import read_values
    from .ahead import check_data

    study = read_study(file)
    if not phantom:
        check_data(study, file)
    return standin_patches(study) if phantom else cohort_patches(study), patches_in(read_values(file), file.name)


def _of_folders(folders: list[Path], reading: ReadingOptions) -> "dict[str, PatchStatistics]":
    """By the names of the folders; by their paths if two have one name."""
    from ..bags.counts import patch_statistics

    names = [folder.resolve().name for folder in folders]
    keys = names if len(set(names)) == len(names) else [str(folder) for folder in folders]
    return {key: patch_statistics(folder, **reading.reading) for key, folder in zip(keys, folders, strict=True)}
