"""The command line: parse, call, print."""

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from ..cohort.cohort import check
from ..cohort.formats import find_bags
from ..cohort.labels import slide_name
from ..cohort.phantom import phantom_slides, write_phantom
from ..cohort.phantom_spec import phantom_spec
from ..cohort.splits import Fold
from ..config import choose
from ..errors import FeatureError, JigsawmilError, StudyError
from ..nn.model import METHODS
from ..report.live import FitProgress
from ..study.run import check_patients, fingerprint, fit_split, make_card, named_probabilities
from ..study.study import Study, cohort_spec, make_settings, read_study
from ..train.apply import apply_model
from ..train.checkpoint import CARD, load_model, save_model
from ..train.feed import Feed
from ..train.settings import Settings
from .options import (
    DEFAULT,
    Device,
    Jobs,
    Memory,
    MethodOptions,
    Mpp,
    Out,
    PatchSize,
    Quiet,
    Seed,
    TableOptions,
    TargetOptions,
    Unit,
    grouped,
)
from .show import check_target, console, show_cohort, show_study, tracked, write_csv, writing_to


class Verbs(TyperGroup):
    """The verbs; what is the input's fault is told in plain words. Exit codes: 1 input, 2 usage, 130 Ctrl-C."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except JigsawmilError as error:
            _stop(f"[bold red]Error:[/] {escape(str(error))}", 1)
        except KeyboardInterrupt:
            _stop("Stopped. Run the same command again to go on.", 130)
        except BrokenPipeError:  # `jigsawmil check ... | head`
            raise
        except OSError as error:  # a disk that is full, a file that may not be read
            _stop(f"[bold red]Error:[/] {escape(str(error))}", 1)


def _stop(words: str, code: int) -> NoReturn:
    Console(stderr=True).print(words, highlight=False, soft_wrap=True)
    raise typer.Exit(code)


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Slide-level classifiers that know where every patch lies. Start with `jigsawmil demo`.",
)


@app.command()
def demo(out: Out = Path("demo"), jobs: Jobs = 2, quiet: Quiet = False) -> None:
    """A cohort whose label is where patches lie, five methods, three folds: two minutes.

    Example: `jigsawmil demo --out demo`
    """
    screen, cohort = console(), out / "cohort"
    if not cohort.exists():
        spec = phantom_spec("arrangement", slides=100, seed=0)
        with writing_to(out):
            slides = phantom_slides(spec)
            write_phantom(tracked(slides, spec.slides, "Drawing 100 phantom slides", screen, quiet), cohort)
    screen.print(
        "100 slides hold the same kinds of patches in the same numbers: finely mixed in one class, in clumps in the "
        "other. Only a model that knows where patches lie can tell them apart; ABMIL should be at chance (0.5).\n"
    )
    study = Study(
        cohorts={"arrangement": cohort_spec({"labels": cohort / "labels.csv", "features": cohort / "features"})},
        variants={name: make_settings({"method": name, "epochs": 12, "patience": 4}) for name in METHODS},
        attention=True,
    )
    show_study(study, out / "run", jobs, quiet)


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
    report = check(**table.given())
    typer.echo(report.to_json() if json else report.summary())
    if report.errors:
        raise typer.Exit(1)


@app.command()
@grouped
def compare(
    table: TableOptions,
    target: TargetOptions,
    method: MethodOptions,
    out: Out,
    methods: Annotated[
        str, typer.Option(help=f"Of {', '.join(METHODS)}; comma separated.", show_default="all five")
    ] = ",".join(METHODS),
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 3,
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions: SEED, SEED + 1, ..., each with its own folds.")] = 1,
    jobs: Jobs = 1,
    splits: Annotated[Path | None, typer.Option(help="Folds of another tool: CLAM, STAMP, Patho-Bench.")] = None,
    by_site: Annotated[bool, typer.Option("--by-site", help="Keep the slides of a site in one fold.")] = False,
    shuffle_control: Annotated[
        bool, typer.Option("--shuffle-control", help="Does place matter? Also with patches shuffled over their slide.")
    ] = False,
    attention: Annotated[bool, typer.Option("--attention", help="Keep the attention of every test slide.")] = False,
    memory_gb: Memory = 4.0,
    quiet: Quiet = False,
) -> None:
    """Cross-validate methods on a cohort: tables, tests and plots in a run folder. Running again resumes.

    Example: `jigsawmil compare --labels labels.csv --features features --methods abmil,graph-abmil+jigsaw --out run`
    """
    names = dict.fromkeys(name.strip() for name in methods.split(",") if name.strip())
    for name in names or [methods]:
        choose("--methods", name, METHODS)
    study = Study(
        cohorts={"cohort": target.source(table)},
        variants={name: method.settings(name) for name in names},
        folds=folds,
        seeds=tuple(range(seed, seed + seeds)),
        splits={"cohort": str(splits)} if splits else {},
        by_site=by_site,
        shuffle_control=shuffle_control,
        attention=attention,
        memory_gb=memory_gb,
    )
    show_study(study, out, jobs, quiet)


@app.command(name="study")
def study_file(
    file: Annotated[Path, typer.Argument(help="A study in TOML.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write to; runs/NAME by default.")] = None,
    jobs: Jobs = 1,
    quiet: Quiet = False,
) -> None:
    """Run a study file: cohorts x variants x folds x seeds. Running again does what is missing.

    Example: `jigsawmil study study.toml --jobs 2`
    """
    show_study(read_study(file), out or Path("runs") / file.stem, jobs, quiet)


@app.command()
@grouped
def train(
    table: TableOptions,
    target: TargetOptions,
    options: MethodOptions,
    out: Out,
    method: Annotated[str, typer.Option(help="One of the five methods.")] = DEFAULT.method,
    seed: Seed = 0,
    memory_gb: Memory = 4.0,
    quiet: Quiet = False,
) -> None:
    """Train one model on all slides of a cohort, to apply to new ones. Interrupted, it goes on when run again.

    Example: `jigsawmil train --labels labels.csv --features features --method graph-abmil+jigsaw --out model`
    """
    screen = console()
    choose("--method", method, METHODS)
    settings = options.settings(method)
    if (out / CARD).exists():
        raise StudyError(f"{out} holds a model already. Give another --out, or remove it.")
    cohort = target.source(table).read()
    if settings.level == "patient":
        check_patients(cohort)
    if not quiet:
        show_cohort(cohort, screen)
    graph = settings.graph_config() if settings.needs_graph else None
    feed = Feed(cohort, graph, settings.grid, memory_gb=memory_gb, level=settings.level)
    everything = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
    state = out / f".training-{_key(settings, seed, fingerprint(cohort))}.state"
    with writing_to(out), FitProgress(screen, settings.epochs, quiet) as progress:
        model, history = fit_split(feed, everything, settings, seed, 0, progress, state)
        save_model(out, model, make_card(feed, model, settings, seed, history))
        state.unlink(missing_ok=True)
    screen.print(f"Kept epoch {history.best} of {len(history.epochs)}. The model is in {out}.", soft_wrap=True)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    features: Annotated[list[Path], typer.Argument(help="Feature files, or folders of them.")],
    out: Annotated[Path, typer.Option(help="CSV to write.")] = Path("predictions.csv"),
    attention: Annotated[Path | None, typer.Option(help="Folder for one CSV a slide: x,y,attention.")] = None,
    mpp: Mpp = None,
    patch_size: PatchSize = None,
    unit: Unit = None,
    device: Device = DEFAULT.device,
    quiet: Quiet = False,
) -> None:
    """Apply a model to new slides.

    Example: `jigsawmil predict model features --out predictions.csv --attention maps`
    """
    screen = console()
    loaded, card = load_model(model)
    paths = _feature_files(features)
    check_target(out)
    rows = []
    results = apply_model(loaded, card, paths, device=device, mpp=mpp, patch_size=patch_size, unit=unit)
    words = f"Predicting {len(paths)} slide{'s' * (len(paths) > 1)}"
    for result in tracked(results, len(paths), words, screen, quiet):
        likeliest = card.classes[result.probabilities.argmax()]
        named = named_probabilities(result.probabilities, card.classes)
        rows.append({"slide_id": result.name, "prediction": likeliest, **named})
        for bag, values in zip(result.bags, result.attention, strict=True):
            if attention is not None:
                places = pd.DataFrame({"x": bag.coords[:, 0], "y": bag.coords[:, 1], "attention": values})
                write_csv(places, attention / f"{bag.slide_id}.csv")
    write_csv(pd.DataFrame(rows), out)
    of = f"; probability of {card.classes[-1]!r}" if len(card.classes) == 2 else ""
    count = f"{len(rows)} prediction{'s' * (len(rows) != 1)}"
    screen.print(f"{count} in {out}{of}.", soft_wrap=True)
    if card.level == "patient":
        whose = "TCGA barcodes say whose a slide is; by any other name, each is a patient of its own."
        screen.print(f"The model pools the slides of a patient. {whose}", soft_wrap=True)


def main() -> None:
    """Run the program."""
    app()


def _feature_files(items: list[Path]) -> list[Path]:
    """Each file once; two files of one slide would overwrite each other's attention."""
    paths: dict[Path, None] = {}
    for item in items:
        if not item.exists():
            raise FeatureError(f"{item}: no such file or folder. Expected feature files, or a folder of them.")
        single = not item.is_dir() or item.suffix == ".zarr"
        paths |= dict.fromkeys([item.resolve()] if single else [path.resolve() for path in find_bags(item).values()])
    of_slide: dict[str, Path] = {}
    for path in paths:
        other = of_slide.setdefault(slide_name(path.name), path)
        if other != path:
            raise FeatureError(f"{other} and {path} are both features of {slide_name(path.name)}. Give one of them.")
    return list(paths)


def _key(settings: Settings, seed: int, cohort: str) -> str:
    """A training goes on only under the settings and on the cohort it began with."""
    return hashlib.sha256(repr((sorted(asdict(settings).items()), seed, cohort)).encode()).hexdigest()[:12]
