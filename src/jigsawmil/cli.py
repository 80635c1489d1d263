"""The command line: parse, call, print."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.progress import track

from .cohort.cohort import Cohort, check
from .cohort.formats import find_bags
from .cohort.phantom import phantom_slides, write_phantom
from .cohort.phantom_spec import phantom_spec
from .cohort.splits import Fold
from .config import choose
from .errors import ConfigError, FeatureError, JigsawmilError, StudyError
from .files import replacing
from .nn.model import METHODS
from .report.control import control_lines, control_table, shuffle_control
from .report.live import FitProgress, StudyProgress
from .report.pictures import write_pictures
from .report.tables import comparison_table, summary_table
from .study.run import fit_split, make_card, named_probabilities
from .study.study import Result, Study, cohort_spec, make_settings, read_study, run_study
from .train.apply import apply_model
from .train.checkpoint import load_model, save_model
from .train.feed import Feed
from .train.settings import Settings

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Slide-level classifiers that know where every patch lies. Start with `jigsawmil demo`.",
)

Labels = Annotated[Path, typer.Option(help="Label table: CSV, TSV or XLSX.")]
Features = Annotated[Path, typer.Option(help="Folder of feature files (TRIDENT, CLAM, STAMP, slideflow, ...).")]
Out = Annotated[Path, typer.Option(help="Folder to write to.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]
SlideColumn = Annotated[str | None, typer.Option(help="Column of slide ids, where its name does not tell.")]
PatientColumn = Annotated[str | None, typer.Option(help="Column of patient ids.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column of labels.")]
SiteColumn = Annotated[str | None, typer.Option(help="Column of sites.")]
SlideTable = Annotated[Path | None, typer.Option(help="STAMP's second table, patient to slide file.")]
Sheet = Annotated[str | None, typer.Option(help="Sheet of an XLSX file.")]
Positive = Annotated[str | None, typer.Option(help="The positive class of two. Default: the last in sorted order.")]
Ordinal = Annotated[bool, typer.Option("--ordinal", help="Labels are grades, such as ISUP 0 to 5.")]
Mpp = Annotated[float | None, typer.Option(help="Microns per level-0 pixel, where the files do not say.")]
PatchSize = Annotated[float | None, typer.Option(help="Edge of a patch in level-0 pixels, where the files do not say.")]
Unit = Annotated[str | None, typer.Option(help="Unit of coordinates, px or um, where the files do not say.")]
SkipMissing = Annotated[bool, typer.Option("--skip-missing", help="Leave out labelled slides without features.")]
Epochs = Annotated[int, typer.Option(help="The most passes over the training slides.")]
Patience = Annotated[int, typer.Option(help="Epochs without gain before stopping; 0 = all epochs, no validation.")]
Lr = Annotated[float, typer.Option(help="Learning rate.")]
BatchSize = Annotated[int, typer.Option(help="Slides (or patients) a step.")]
K = Annotated[int, typer.Option("--k", help="Nearest neighbours of a patch.")]
Conv = Annotated[str, typer.Option(help="gat, gcn, gin or sage.")]
Lambda = Annotated[str, typer.Option("--lambda", help="Weight of the jigsaw: a number, em, em-per-slide or balanced.")]
Jigsaw = Annotated[str, typer.Option(help="position, consistency or equivariance.")]
Hidden = Annotated[int, typer.Option(help="Width of the encoder.")]
Level = Annotated[str, typer.Option(help="What is pooled into one prediction: slide or patient.")]
Seed = Annotated[int, typer.Option(help="Decides folds, weights and order.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")]
Setting = Annotated[
    list[str] | None, typer.Option("--set", help="Any other setting, KEY=VALUE, e.g. --set heads=4. Can be repeated.")
]
DEFAULT = Settings()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("demo"),
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    quiet: Quiet = False,
) -> None:
    """A cohort whose label is where patches lie, five methods, three folds: two minutes.

    Example: `jigsawmil demo --out demo`
    """
    console = _console()
    cohort = out / "cohort"
    if not cohort.exists():
        spec = phantom_spec("arrangement", slides=100, seed=0, patches=300)
        write_phantom(_track(phantom_slides(spec), spec.slides, "Drawing 100 slides", console, quiet), cohort)
    console.print(
        "A phantom cohort: 100 slides hold the same patches, finely mixed in one class, in clumps in the other.\n"
        "Only a model that knows where patches lie can tell them apart; ABMIL should be at chance (0.5).\n"
    )
    study = Study(
        cohorts={"arrangement": cohort_spec({"labels": cohort / "labels.csv", "features": cohort / "features"})},
        variants={name: make_settings({"method": name, "epochs": 20, "patience": 5}) for name in METHODS},
        attention=True,
    )
    _run(study, out / "run", jobs, console, quiet)


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
    console = _console()
    write_phantom(_track(phantom_slides(spec), slides, f"Drawing {slides} slides", console, quiet), out)
    console.print(f"{out / 'labels.csv'}\n{out / 'features'}", soft_wrap=True)


@app.command(name="check")
def check_cohort(
    labels: Labels,
    features: Features,
    slide_column: SlideColumn = None,
    patient_column: PatientColumn = None,
    label_column: LabelColumn = None,
    site_column: SiteColumn = None,
    slide_table: SlideTable = None,
    sheet: Sheet = None,
    mpp: Mpp = None,
    patch_size: PatchSize = None,
    unit: Unit = None,
    skip_missing: SkipMissing = False,
    json: Annotated[bool, typer.Option("--json", help="Everything by name, as JSON.")] = False,
) -> None:
    """What a cohort holds and what is wrong with it, before anything runs.

    Example: `jigsawmil check --labels labels.csv --features features`
    """
    options = _given(
        slide_column=slide_column, patient_column=patient_column, label_column=label_column, site_column=site_column,
        slide_table=slide_table, sheet=sheet, mpp=mpp, patch_size=patch_size, unit=unit,
    )  # fmt: skip
    report = check(labels, features, skip_missing=skip_missing, **options)
    typer.echo(report.to_json() if json else report.summary())
    if report.errors:
        raise typer.Exit(1)


@app.command()
def compare(
    labels: Labels,
    features: Features,
    out: Out,
    methods: Annotated[str, typer.Option(help="Methods, comma separated; all five by default.")] = ",".join(METHODS),
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 3,
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(help="Repetitions: seeds SEED, SEED + 1, ..., each with its own folds.")] = 1,
    epochs: Epochs = DEFAULT.epochs,
    patience: Patience = DEFAULT.patience,
    lr: Lr = DEFAULT.lr,
    batch_size: BatchSize = DEFAULT.batch_size,
    k: K = DEFAULT.k,
    conv: Conv = DEFAULT.conv,
    lambda_: Lambda = str(DEFAULT.lambda_),
    jigsaw: Jigsaw = DEFAULT.jigsaw,
    hidden: Hidden = DEFAULT.hidden,
    level: Level = DEFAULT.level,
    device: Device = DEFAULT.device,
    settings: Setting = None,
    jobs: Annotated[int, typer.Option(help="Processes; the cores are shared out among them.")] = 1,
    splits: Annotated[Path | None, typer.Option(help="Folds of another tool: CLAM, STAMP, Patho-Bench.")] = None,
    by_site: Annotated[bool, typer.Option("--by-site", help="Keep the slides of a site in one fold.")] = False,
    shuffle_control: Annotated[
        bool, typer.Option("--shuffle-control", help="Also with patches shuffled over the places of their slide.")
    ] = False,
    attention: Annotated[bool, typer.Option("--attention", help="Keep the attention of every test slide.")] = False,
    memory_gb: Annotated[float, typer.Option(help="Memory for prepared slides, in all.")] = 4.0,
    slide_column: SlideColumn = None,
    patient_column: PatientColumn = None,
    label_column: LabelColumn = None,
    site_column: SiteColumn = None,
    slide_table: SlideTable = None,
    sheet: Sheet = None,
    positive: Positive = None,
    ordinal: Ordinal = False,
    mpp: Mpp = None,
    patch_size: PatchSize = None,
    unit: Unit = None,
    skip_missing: SkipMissing = False,
    quiet: Quiet = False,
) -> None:
    """Cross-validate methods on a cohort: tables, tests and plots in a run folder. Running again resumes.

    Example: `jigsawmil compare --labels labels.csv --features features --methods abmil,graph-abmil+jigsaw --out run`
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    for name in names:
        choose("--methods", name, METHODS)
    shared = {
        "epochs": epochs, "patience": patience, "lr": lr, "batch_size": batch_size, "k": k, "conv": conv,
        "lambda_": lambda_, "jigsaw": jigsaw, "hidden": hidden, "level": level, "device": device, **_pairs(settings),
    }  # fmt: skip
    source = _given(
        labels=labels, features=features, slide_column=slide_column, patient_column=patient_column,
        label_column=label_column, site_column=site_column, slide_table=slide_table, sheet=sheet, positive=positive,
        ordinal=ordinal or None, mpp=mpp, patch_size=patch_size, unit=unit, skip_missing=skip_missing or None,
    )  # fmt: skip
    study = Study(
        cohorts={"cohort": cohort_spec(source)},
        variants={name: make_settings({**shared, "method": name}, "compare") for name in dict.fromkeys(names)},
        folds=folds,
        seeds=tuple(range(seed, seed + seeds)),
        splits={"cohort": str(splits)} if splits else {},
        by_site=by_site,
        shuffle_control=shuffle_control,
        attention=attention,
        memory_gb=memory_gb,
    )
    _run(study, out, jobs, _console(), quiet)


@app.command(name="study")
def run_study_file(
    file: Annotated[Path, typer.Argument(help="A study in TOML.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write to; runs/NAME by default.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; the cores are shared out among them.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Run a study file: cohorts x variants x folds x seeds. Running again does what is missing.

    Example: `jigsawmil study studies/example.toml --jobs 2`
    """
    _run(read_study(file), out or Path("runs") / file.stem, jobs, _console(), quiet)


@app.command()
def train(
    labels: Labels,
    features: Features,
    out: Out,
    method: Annotated[str, typer.Option(help="One of the five methods.")] = DEFAULT.method,
    seed: Seed = 0,
    epochs: Epochs = DEFAULT.epochs,
    patience: Patience = DEFAULT.patience,
    lr: Lr = DEFAULT.lr,
    batch_size: BatchSize = DEFAULT.batch_size,
    k: K = DEFAULT.k,
    conv: Conv = DEFAULT.conv,
    lambda_: Lambda = str(DEFAULT.lambda_),
    jigsaw: Jigsaw = DEFAULT.jigsaw,
    hidden: Hidden = DEFAULT.hidden,
    level: Level = DEFAULT.level,
    device: Device = DEFAULT.device,
    settings: Setting = None,
    memory_gb: Annotated[float, typer.Option(help="Memory for prepared slides.")] = 4.0,
    slide_column: SlideColumn = None,
    patient_column: PatientColumn = None,
    label_column: LabelColumn = None,
    slide_table: SlideTable = None,
    sheet: Sheet = None,
    positive: Positive = None,
    ordinal: Ordinal = False,
    mpp: Mpp = None,
    patch_size: PatchSize = None,
    unit: Unit = None,
    skip_missing: SkipMissing = False,
    quiet: Quiet = False,
) -> None:
    """Train one model on all slides of a cohort, to apply to new ones. Interrupted, it goes on when run again.

    Example: `jigsawmil train --labels labels.csv --features features --method graph-abmil+jigsaw --out model`
    """
    console = _console()
    if (out / "model.json").exists():
        raise StudyError(f"{out} holds a model already. Give another --out, or remove it.")
    values = {
        "method": method, "epochs": epochs, "patience": patience, "lr": lr, "batch_size": batch_size, "k": k,
        "conv": conv, "lambda_": lambda_, "jigsaw": jigsaw, "hidden": hidden, "level": level, "device": device,
        **_pairs(settings),
    }  # fmt: skip
    chosen = make_settings(values, "train")
    source = _given(
        labels=labels, features=features, slide_column=slide_column, patient_column=patient_column,
        label_column=label_column, slide_table=slide_table, sheet=sheet, positive=positive, ordinal=ordinal or None,
        mpp=mpp, patch_size=patch_size, unit=unit, skip_missing=skip_missing or None,
    )  # fmt: skip
    cohort = cohort_spec(source).read()
    _print_cohort(cohort, console, quiet)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(f"{out}: cannot be written ({error.strerror}). Choose another --out.") from error
    graph = chosen.graph_config() if chosen.needs_graph else None
    feed = Feed(cohort, graph, chosen.grid, memory_gb=memory_gb, level=level)
    everything = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
    state = _training_state(out, asdict(chosen), seed)
    with FitProgress(console, chosen.epochs, quiet) as progress:
        model, history = fit_split(feed, everything, chosen, seed, 0, progress, state)
    save_model(out, model, make_card(feed, model, chosen, seed, history))
    state.unlink(missing_ok=True)
    console.print(f"Kept epoch {history.best} of {len(history.epochs)}. The model is in {out}.", soft_wrap=True)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    features: Annotated[list[Path], typer.Argument(help="Feature files, or folders of them.")],
    out: Annotated[Path, typer.Option(help="CSV to write.")] = Path("predictions.csv"),
    attention: Annotated[Path | None, typer.Option(help="Folder for one CSV a slide: x,y,attention.")] = None,
    mpp: Mpp = None,
    device: Device = DEFAULT.device,
    quiet: Quiet = False,
) -> None:
    """Apply a model to new slides.

    Example: `jigsawmil predict model features --out predictions.csv --attention maps`
    """
    console = _console()
    loaded, card = load_model(model)
    paths = [path for item in features for path in _feature_files(item)]
    if attention is not None:
        attention.mkdir(parents=True, exist_ok=True)
    rows = []
    found = apply_model(loaded, card, paths, device=device, mpp=mpp)
    for result in _track(found, len(paths), f"Predicting {len(paths)} slides", console, quiet):
        named = named_probabilities(result.probabilities, card.classes)
        rows.append({"slide_id": result.name, "prediction": card.classes[result.probabilities.argmax()], **named})
        if attention is not None:
            for bag, values in zip(result.bags, result.attention, strict=True):
                table = pd.DataFrame({"x": bag.coords[:, 0], "y": bag.coords[:, 1], "attention": values})
                _write_csv(table, attention / f"{bag.slide_id}.csv")
    _write_csv(pd.DataFrame(rows), out)
    of = f"; probability of {card.classes[-1]!r}" if len(card.classes) == 2 else ""
    console.print(f"{len(rows)} predictions in {out}{of}.", soft_wrap=True)


def main() -> None:
    """Run the program; what is the input's fault is told in plain words."""
    try:
        app(standalone_mode=False)
    except JigsawmilError as error:
        Console(stderr=True).print(f"[bold red]Error:[/] {_escape(str(error))}", highlight=False, soft_wrap=True)
        raise SystemExit(1) from None
    except typer.Exit as stop:
        raise SystemExit(stop.exit_code) from None
    except (KeyboardInterrupt, typer.Abort):
        Console(stderr=True).print("Stopped. Run the same command again to go on.")
        raise SystemExit(130) from None


def _run(study: Study, out: Path, jobs: int, console: Console, quiet: bool) -> None:
    """Run a study, print its tables, draw its pictures; exit 1 where a job failed."""
    with StudyProgress(console, quiet) as progress:
        result = run_study(study, out, processes=jobs, listen=progress, on_plan=progress.plan)
    width = console.width
    console.print(summary_table(result.summary, width))
    if len(result.comparisons):
        console.print(comparison_table(result.comparisons, width))
    if study.shuffle_control:
        _print_control(study, out, result, console)
    if len(result.left_out):
        console.print(f"{len(result.left_out)} slides or files were left out: {out / 'left_out.csv'}", soft_wrap=True)
    classes = {str(name): _classes(out, name) for name in study.cohorts}
    pictures = write_pictures(out, result.predictions, result.summary, classes)
    console.print(f"Tables in {out}, {len(pictures)} pictures in {out / 'plots'}.", soft_wrap=True)
    for name, why in result.failed.items():
        Console(stderr=True).print(f"[bold red]Failed:[/] {_escape(name)}\n{_escape(why)}", soft_wrap=True)
    if result.failed:
        raise typer.Exit(1)


def _print_control(study: Study, out: Path, result: Result, console: Console) -> None:
    text = {"slide_id": str, "patient_id": str, "label": str}
    shuffled = pd.read_csv(out / "control" / "predictions.csv", dtype=text)
    for name in study.cohorts:
        one = len(study.cohorts) == 1
        true, moved = (t if one else t[t["cohort"] == name] for t in (result.predictions, shuffled))
        control = shuffle_control(true, moved, _classes(out, name))
        _write_csv(control, out / "control" / ("control.csv" if one else f"control-{name}.csv"))
        console.print(control_table(control, console.width))
        for line in control_lines(control):
            console.print(line)


def _classes(out: Path, cohort: str) -> list[str]:
    import json

    return json.loads((out / "study.json").read_text())["classes"][cohort]


def _print_cohort(cohort: Cohort, console: Console, quiet: bool) -> None:
    if quiet:
        return
    counts = pd.Series([cohort.classes[label] for label in cohort.labels]).value_counts()
    parts = ", ".join(f"{counts[name]} {name}" for name in cohort.classes)
    console.print(f"{len(cohort)} slides of {len(set(cohort.patients))} patients: {parts}.", soft_wrap=True)
    for note in cohort.notes:
        console.print(f"Note: {_escape(note)}", soft_wrap=True)


def _feature_files(item: Path) -> list[Path]:
    if not item.exists():
        raise FeatureError(f"{item}: no such file or folder.")
    if item.is_dir() and item.suffix != ".zarr":
        found = list(find_bags(item).values())
        if not found:
            raise FeatureError(f"{item}: no feature files in it.")
        return found
    return [item]


def _training_state(out: Path, settings: dict[str, Any], seed: int) -> Path:
    """Named after the settings, so that other settings never go on from it."""
    import hashlib

    key = hashlib.sha256(repr((sorted(settings.items(), key=str), seed)).encode()).hexdigest()[:12]
    return out / f".training-{key}.state"


def _pairs(settings: list[str] | None) -> dict[str, Any]:
    """KEY=VALUE as TOML values, so that 4, 0.5, true and words are what they look like."""
    import tomllib

    values: dict[str, Any] = {}
    for item in settings or []:
        key, sign, text = item.partition("=")
        if not sign:
            raise ConfigError(f"--set {item}: expected KEY=VALUE, such as --set heads=4.")
        try:
            values[key.strip()] = tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = text.strip()
    return values


def _given(**options: Any) -> dict[str, Any]:
    given = {key: value for key, value in options.items() if value is not None}
    return {key: str(value) if isinstance(value, Path) else value for key, value in given.items()}


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            table.to_csv(temporary, index=False)
    except OSError as error:
        raise StudyError(f"{path}: cannot be written ({error.strerror}). Choose another place.") from error


def _track(items: Any, total: int, words: str, console: Console, quiet: bool) -> Iterator[Any]:
    if quiet or not console.is_terminal:
        if not quiet:
            console.print(words)
        return iter(items)
    return iter(track(items, words, total, console=console, transient=True))


def _console() -> Console:
    """A terminal's own width; 100 columns where there is none, so that tables in files read well."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=100)
    return console


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


if __name__ == "__main__":
    main()
