"""What the verbs print, and the run of a study with all that a person sees of it."""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ..cluster.ray import ray_cluster
from ..cluster.storage import Mirror, is_url
from ..cluster.studies import run_on_ray
from ..cohort.cohort import Cohort
from ..files import replacing, write_csv, writing_to
from ..report.control import blind_variants, control_lines, control_table, shuffle_control
from ..report.paper_tables import PHANTOM, PaperForm, paper_markdown, paper_table
from ..report.pictures import write_pictures
from ..report.tables import comparison_table, summary_table
from ..slides.slide import find_slides
from ..study.gather import Result, by_reason
from ..study.published import Published
from ..study.study import Study, run_study
from .options import WhereOptions
from .progress import StudyProgress
from .screen import console
from .terminal import rendered, stacked

COPIES = Path(".jigsawmil")  # local copies of runs that are kept at a URL


def show_study(study: Study, target: str | Path, where: WhereOptions, quiet: bool, file: Path | None = None) -> None:
    """Run a study, print its tables, draw its pictures; exit 1 where a job failed, or not all could be sent to the URL.
    target: a folder, or a URL that is worked on in a local copy. file: the study's own."""
    mirror = Mirror.of(str(target), COPIES) if is_url(str(target)) else None
    out, screen = run_folder(target), console()
    if study.phantom:
        screen.print(Text(PHANTOM, "bold red"), "")
    devices = [settings.train.device for settings in study.variants.values()]
    for device in devices:
        where.check_device(device)  # once and now, not in every job
    if mirror:
        mirror.knock()
        brought = mirror.fetch()
        screen.print(f"Working in {out}; {brought} finished jobs came from {mirror.url}.", soft_wrap=True)
        if sent := mirror.send_missing():
            screen.print(f"{sent} finished jobs of an earlier run were sent there.", soft_wrap=True)
    ray = where.executor == "ray"
    with ExitStack() as stack:
        if ray:
            words = stack.enter_context(ray_cluster(where.address))
            screen.print(f"{words}.", highlight=False)
        progress = stack.enter_context(StudyProgress(screen, quiet))
        listen = mirror.sending(progress) if mirror else progress
        result = run_study(
            study,
            out,
            processes=where.processes(devices),
            listen=listen,
            on_plan=progress.plan,
            executor=partial(run_on_ray, cpus=where.cpus, on_cluster=progress.cluster) if ray else None,
        )
    for table in (summary_table(result.summary), comparison_table(result.comparisons)):
        screen.print(rendered(table, screen.width), "")
    if study.shuffle_control:
        show_control(study, result, out, screen)
    if study.published is not None:
        show_paper(study, study.published, result, out, file, screen)
    for cohort, notes in result.notes.items():
        for note in () if quiet else notes:
            screen.print(f"Note on {escape(cohort)}: {escape(note)}", highlight=False, soft_wrap=True)
    if len(result.left_out):
        were = "slide or file was" if len(result.left_out) == 1 else "slides or files were"
        screen.print(f"{len(result.left_out)} {were} left out: {out / 'left_out.csv'}", soft_wrap=True)
    pictures = write_pictures(out, result.predictions, result.summary, result.classes)
    screen.print(f"Tables in {out}, {len(pictures)} pictures in {out / 'plots'}.", soft_wrap=True)
    if result.failed:
        show_failures(result, Console(stderr=True))
    if mirror:
        mirror.send_missing()
        mirror.send_tables()
        screen.print(f"All of it is at {mirror.url}.", soft_wrap=True)
    if result.failed:
        raise typer.Exit(1)


def run_folder(target: str | Path) -> Path:
    """Where a run is worked on: its folder, or the local copy of a URL."""
    return Mirror.of(str(target), COPIES).folder if is_url(str(target)) else Path(target)


def show_failures(result: Result, screen: Console) -> None:
    for why, stopped in by_reason(result.failed).items():
        screen.print(f"[bold red]Failed:[/] {escape(', '.join(stopped))}\n{escape(why)}", soft_wrap=True)
    screen.print("Run the same command again: it does what is missing.", soft_wrap=True)


def show_control(study: Study, result: Result, out: Path, screen: Console) -> None:
    """Does place matter? For each cohort a table and what it means."""
    tables = []
    blind = blind_variants({name: settings.method for name, settings in study.variants.items()})
    for name, classes in result.classes.items():
        true, moved = (t[t["cohort"] == name] for t in (result.predictions, result.control))
        control = shuffle_control(true, moved, classes)
        tables.append(control.assign(cohort=name))
        screen.print(rendered(control_table(control), screen.width))
        for line in control_lines(control, blind):
            screen.print(line, highlight=False)
        screen.print()
    write_csv(pd.concat(tables, ignore_index=True), out / "control" / "control.csv")


def show_paper(
    study: Study, published: Published, result: Result, out: Path, file: Path | None, screen: Console
) -> None:
    """The table in the paper's form, also as table.md in the run folder."""
    where = str(file) if file else "the study file"
    form = PaperForm(list(study.variants), list(study.cohorts), published, study.phantom, where)
    screen.print(*stacked(paper_table(result.summary, form), screen.width), "", sep="\n")
    with writing_to(out), replacing(out / "table.md") as temporary:
        temporary.write_text(paper_markdown(result.summary, form), encoding="utf-8")


def show_cohort(cohort: Cohort, screen: Console) -> None:
    counts = pd.Series([cohort.classes[label] for label in cohort.labels]).value_counts()
    parts = ", ".join(f"{counts[name]} {name}" for name in cohort.classes)
    screen.print(f"{len(cohort)} slides of {len(set(cohort.patients))} patients: {parts}.", soft_wrap=True)
    for note in cohort.notes:
        screen.print(f"Note: {escape(note)}", soft_wrap=True)


def slide_files(items: Iterable[Path], screen: Console) -> list[Path]:
    """Slides among files and folders; what was passed over in folders is said."""
    found = find_slides(items)
    if found.left_out:
        named = ", ".join(file.name for file in found.left_out[:3]) + ", ..." * (len(found.left_out) > 3)
        kinds = "pictures beside slides, or files of DICOM slides, of which one has to be named"
        words = f"Passed over {len(found.left_out)} files ({kinds}): {escape(named)}"
        screen.print(words, highlight=False, soft_wrap=True)
    return found.files
