"""The verbs that a new user begins with: the demo, and files to fill in."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from ..files import writing_to
from ..nn.options import DEFAULT_METHOD, PAPER_METHOD
from ..synthetic.phantom_options import CLASSES, phantom_spec
from ..train.settings import Settings
from .app import app
from .arguments import Jobs, Out, Quiet
from .options import WhereOptions
from .screen import console, tracked
from .studies import COMPARED

DEMO, QUICK = ("abmil", PAPER_METHOD, DEFAULT_METHOD), {"epochs": 12, "patience": 4, "members": 1}
DEMO_FOLDS = 3  # for time


@app.command()
def demo(out: Out = Path("demo"), jobs: Jobs = 2, quiet: Quiet = False) -> None:
    """Try it out: a synthetic cohort whose label is the arrangement of patches, three methods, a report. Three minutes.

    Example: `jigsawmil demo --out demo`
    """
    from ..report.page import write_report
    from ..study.run_folder import RunFolder
    from ..study.study import Study, cohort_spec
    from ..synthetic.phantom import phantom_slides, write_phantom
    from .show import show_study

    screen, cohort = console(), out / "cohort"
    if not cohort.exists():
        if out.is_dir() and any(out.iterdir()):
            raise ConfigError(f"--out {out}: found files that are not from a demo. Give a new or empty folder.")
        spec = phantom_spec("arrangement", slides=100, seed=0)
        with writing_to(out):
            slides = phantom_slides(spec)
            write_phantom(tracked(slides, spec.slides, "Drawing 100 phantom slides", screen, quiet), cohort)
    screen.print(
        "100 slides with the same patches in the same numbers: finely mixed in one class, clustered in the other. "
        "Only a model that uses patch positions can separate them; ABMIL should be at chance (AUROC 0.5).\n"
    )
    source = {"labels": cohort / "labels.csv", "features": cohort / "features", "positive": CLASSES["arrangement"][1]}
    study = Study(
        cohorts={"arrangement": cohort_spec(source)},
        variants={name: Settings.from_flat({"method": name, **QUICK}) for name in DEMO},
        folds=DEMO_FOLDS,
        attention=True,
    )
    show_study(study, out / "run", WhereOptions(jobs), quiet)
    screen.print(f"The report: {write_report(out / 'run', RunFolder(out / 'run').report)}", soft_wrap=True)


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="Folder to write to; made if needed.")]) -> None:
    """Write a commented study file and a label table to fill in.

    Example: `jigsawmil init my-study`
    """
    from ..study.starter import write_starter

    study, labels = write_starter(folder, COMPARED)
    features = folder / "features"
    lines = (
        f"{study}\n{labels}",
        f"Fill in {labels.name}, one row per slide, and put the feature files into {features} (or name their folder in "
        f"{study.name}).",
        f"To try it without data: jigsawmil study {study} --phantom --dry-run",
        f"Next: jigsawmil check --labels {labels} --features {features}",
    )
    for line in lines:
        console().print(line, markup=False, highlight=False, soft_wrap=True)
