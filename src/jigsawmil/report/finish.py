"""What a finished run is shown by: pictures, and the table in the form of a paper."""

from pathlib import Path
from typing import Any

from ..errors import StudyError
from ..files import replacing
from ..study.run import Run
from ..study.runner import cross_validate
from ..study.study import Study
from .attention import write_attention_figure
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


def finish_run(run: Run) -> list[Path]:
    """Draw the pictures of a run, and write table.md if the study states published figures; the pictures' files.

    Example: `finish_run(open_run("run"))`
    """
    try:
        if form := paper_form(run):
            with replacing(run.files.paper_table) as temporary:
                temporary.write_text(paper_markdown(run.summary, form), encoding="utf-8")
        tasks = {name: run.task(name) for name in run.cohorts}
        written = write_pictures(run.folder, run.predictions, run.summary, run.classes, tasks)
        for name in run.cohorts:
            written += write_attention_figure(run, name, run.files.plots / f"attention-figure-{name}.png")[:1]
        return written
    except OSError as error:
        raise StudyError(f"{run.folder}: cannot be written ({error.strerror}). Choose another place.") from error


def paper_form(run: Run) -> PaperForm | None:
    """How the paper's table of a run is laid out; None if the study states no published figures."""
    record = run.record
    if record.published is None:
        return None
    variants = record.variants or run.variants
    return PaperForm(variants, run.cohorts, record.published, record.phantom, record.file or "the study file")
