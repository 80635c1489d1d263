"""What a finished run is shown by: pictures, and the table in the form of a paper."""

from pathlib import Path
from typing import Any

import pandas as pd

from ..bags.join import Folders
from ..errors import StudyError
from ..files import new_folder, replacing, writing_to
from ..study.run import Run, open_run
from ..study.run_folder import RunFolder
from ..study.runner import cross_validate
from ..study.study import Study
from ..study.validation import write_validation
from .attention import write_attention_figure
from .page import write_report
from .paper_tables import PaperForm, paper_markdown
from .pictures import write_pictures


def run_study(study: Study, out: str | Path, **options: Any) -> Run:
    """Run a study and write everything that `jigsawmil study` writes: tables, then pictures and the paper's table.

    options: those of `jigsawmil.study.cross_validate`, which writes the tables alone.

    Example: `run_study(read_study("study.toml"), Path("run"), processes=4)`
    """
    run = cross_validate(study, out, **options)
    finish_run(run)
    return run


def validate(source: str | Path, labels: str | Path, features: Folders, out: str | Path, **options: Any) -> Run:
    """Score a second, labelled cohort by a trained model, or by all fold models of a run together, and report on it.

    source: folder of a model or a run. labels, features: of the new cohort. out: new folder, which appears whole:
    predictions.csv and summary.csv with the columns of a run, by patient too, and report.html; it opens as a run.
    options: variant, cohort (of a run; by default the last variant), allow_overlap (with the training set, else
    refused), attention (keep it for maps), device, on_cohorts and follow (called with what was read, and with the
    cases), and those of `Cohort.read` about columns and files.

    Example: `validate("model", "new.csv", "new_features", "validation").summary`
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        found = "a folder that is not empty" if out.is_dir() else "a file"
        raise StudyError(f"{out}: found {found}, expected a new folder for the validation. Give another --out.")
    with writing_to(out.parent), new_folder(out) as folder:
        write_validation(source, labels, features, folder, **options)
        write_report(folder, RunFolder(folder).report, name=out.resolve().name)
    return open_run(out)


def finish_run(run: Run) -> list[Path]:
    """Draw the pictures of a run, and write table.md if the study states published figures; the pictures' files.

    Example: `finish_run(open_run("run"))`
    """
    try:
        if form := paper_form(run):
            with replacing(run.files.paper_table) as temporary:
                temporary.write_text(paper_markdown(run.summary, form), encoding="utf-8")
        names = [f"{cohort}-{view.target}" if view.target else cohort for cohort, view in run.by_target]
        views = dict(zip(names, run.by_target, strict=True))
        tables = [_rows(view, cohort).assign(cohort=name) for name, (cohort, view) in views.items()]
        classes = {name: view.classes[cohort] for name, (cohort, view) in views.items()}
        tasks = {name: view.task(cohort) for name, (cohort, view) in views.items()}
        written = write_pictures(run.folder, pd.concat(tables), run.summary, classes, tasks)
        for name, (cohort, view) in views.items():
            written += write_attention_figure(view, cohort, run.files.plots / f"attention-figure-{name}.png")[:1]
        return written
    except OSError as error:
        raise StudyError(f"{run.folder}: cannot be written ({error.strerror}). Choose another folder.") from error


def paper_form(run: Run) -> PaperForm | None:
    """How the paper's table of a run is laid out; None if the study states no published figures."""
    record = run.record
    if record.published is None:
        return None
    variants = record.variants or run.variants
    return PaperForm(variants, run.cohorts, record.published, record.phantom, record.file or "the study file")


def _rows(run: Run, cohort: str) -> pd.DataFrame:
    table = run.predictions
    return table[table["cohort"] == cohort] if len(table) else table
