"""What the verbs print, and the run of a study with all that a person sees of it."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import typer
from pandas import DataFrame
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ..cluster.ray import ray_cluster
from ..cluster.storage import Mirror, is_url
from ..cluster.studies import run_on_ray
from ..cohort.cohort import Cohort
from ..cohort.positive import positive_lines, positive_words
from ..report.choices import choice_lines, choice_table, choices_of
from ..report.control import blind_variants, control_lines, control_table
from ..report.finish import finish_run, paper_form
from ..report.paper_tables import PHANTOM, paper_tables
from ..report.part import baseline_of
from ..report.tables import by_measure, cohorts, comparison_table, summary_table
from ..slides.find import find_slides
from ..study.gather import by_reason
from ..study.records import StudyRecord
from ..study.run import Run
from ..study.run_folder import RunFolder
from ..study.runner import cross_validate
from ..study.study import Study
from ..tasks import get_task
from ..train.checkpoint import ModelCard
from ..train.devices import use_threads
from .options import WhereOptions
from .progress import StudyProgress
from .screen import console
from .terminal import print_stacked, rendered

MANY_VARIANTS = 4  # above which the terminal shows only the pairs with the baseline
COPIES = Path(".jigsawmil")  # local copies of runs that are kept at a URL


def show_study(study: Study, target: str | Path, where: WhereOptions, quiet: bool) -> None:
    """Run a study, print its tables, draw its pictures; exit 1 where a job failed, or not all could be sent to the URL.
    target: a folder, or a URL that is worked on in a local copy."""
    mirror = Mirror.of(str(target), COPIES) if is_url(str(target)) else None
    out, screen = run_folder(target), console()
    use_threads(where.threads)
    devices = [settings.train.device for settings in study.variants.values()]
    for device in devices:
        where.check_device(device)  # once and now, not in every job
    if mirror:
        mirror.check_writable()
        brought = mirror.fetch()
        screen.print(f"Working in {out}; {brought} finished jobs were fetched from {mirror.url}.", soft_wrap=True)
        if sent := mirror.send_missing():
            screen.print(f"{sent} finished jobs of an earlier run were uploaded.", soft_wrap=True)
    ray = where.executor == "ray"
    with ExitStack() as stack:
        if ray:
            words = stack.enter_context(ray_cluster(where.address))
            screen.print(f"{words}.", highlight=False)
        progress = stack.enter_context(StudyProgress(screen, quiet))
        listen = mirror.sending(progress) if mirror else progress
        before = recorded_variants(out)

        def begin(read: Mapping[str, Cohort]) -> None:
            show_positive(positive_lines(read, file=study.file), screen)
            if study.phantom:
                screen.print(Text(PHANTOM, "bold red"), "")

        run = cross_validate(
            study,
            out,
            processes=where.processes(devices),
            listen=listen,
            on_cohorts=begin,
            on_plan=progress.plan,
            executor=partial(run_on_ray, cpus=where.cpus, on_cluster=progress.cluster) if ray else None,
        )
    for shown, frame in ((summary_table, run.summary), (comparison_table, pairs_to_show(study, run))):
        for rows in by_measure(frame):
            screen.print(rendered(shown(rows), screen.width), "")
    if len(study.variants) > MANY_VARIANTS:
        words = f"Pairs with the baseline only; {run.files.table('comparisons')} has all {len(run.comparisons)}."
        screen.print(words, highlight=False, soft_wrap=True)
    for cohort in run.cohorts:
        for variant, rows in choices_of(run, cohort):
            for line in choice_lines(run, cohort, variant, rows):
                screen.print(escape(line), highlight=False, soft_wrap=True)
            screen.print(rendered(choice_table(variant, rows), screen.width), "")
    show_control(study, run, screen)
    if form := paper_form(run):
        print_stacked(paper_tables(run.summary, form), screen)
    for cohort, notes in run.notes.items():
        for note in () if quiet else notes:
            screen.print(f"Note on {escape(cohort)}: {escape(note)}", highlight=False, soft_wrap=True)
    if len(run.left_out):
        were = "slide or file was" if len(run.left_out) == 1 else "slides or files were"
        screen.print(f"{len(run.left_out)} {were} left out: {run.files.table('left_out')}", soft_wrap=True)
    if gone := [name for name in before if name not in study.variants]:
        screen.print(
            f"Left out of the tables, though in an earlier run into {out}: {', '.join(gone)}. Their models are kept: "
            "name these variants again to restore them.",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
    pictures = finish_run(run)
    screen.print(f"Tables in {out}, {len(pictures)} pictures in {run.files.plots}.", soft_wrap=True)
    if run.failed:
        show_failures(run, console(stderr=True))
    if mirror:
        mirror.send_missing()
        mirror.send_tables()
        screen.print(f"All results are at {mirror.url}.", soft_wrap=True)
    if run.failed:
        raise typer.Exit(1)


def pairs_to_show(study: Study, run: Run) -> DataFrame:
    """All pairs of variants, or those with the baseline if there are many."""
    if len(study.variants) <= MANY_VARIANTS or run.comparisons.empty:
        return run.comparisons
    baseline = baseline_of(list(study.variants), {name: own.method for name, own in study.variants.items()})
    return run.comparisons[(run.comparisons[["variant_a", "variant_b"]] == baseline).any(axis=1)]


def recorded_variants(folder: Path) -> tuple[str, ...]:
    """Those of the run that is in a folder already."""
    try:
        return StudyRecord.read(RunFolder(folder).study).variants
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()


def run_folder(target: str | Path) -> Path:
    """Where a run is worked on: its folder, or the local copy of a URL."""
    return Mirror.of(str(target), COPIES).folder if is_url(str(target)) else Path(target)


def show_failures(run: Run, screen: Console) -> None:
    for why, stopped in by_reason(run.failed).items():
        screen.print(f"[bold red]Failed:[/] {escape(', '.join(stopped))}\n{escape(why)}", soft_wrap=True)
    screen.print("Run the same command again: only what is missing runs.", soft_wrap=True)


def show_control(study: Study, run: Run, screen: Console) -> None:
    """Does patch position matter? For each cohort a table and what it means; nothing if the control was not run."""
    blind = blind_variants({name: settings.method for name, settings in study.variants.items()})
    for _, control in cohorts(run.control_tests) if len(run.control_tests) else ():
        screen.print(rendered(control_table(control), screen.width))
        for line in control_lines(control, blind):
            screen.print(line, highlight=False)
        screen.print()


def show_positive(lines: Iterable[str], screen: Console) -> None:
    """The first line of a result."""
    for line in lines:
        screen.print(line, markup=False, highlight=False, soft_wrap=True)


def show_class_of(card: ModelCard, screen: Console) -> None:
    """The same for the predictions of a model."""
    if positive := get_task(card.model.task).positive(card.classes):
        show_positive([f"Positive class: {positive_words(positive, card.guessed, trained=True)}."], screen)


def show_cohort(cohort: Cohort, screen: Console, quiet: bool) -> None:
    show_positive(positive_lines({"cohort": cohort}), screen)
    if quiet:
        return
    labels = [cohort.label_of(slide) for slide in cohort.slides]
    parts = get_task(cohort.task).cohort_words(labels, cohort.classes)
    screen.print(f"{len(cohort)} slides of {len(set(cohort.patients))} patients: {parts}.", soft_wrap=True)
    for note in cohort.notes:
        screen.print(f"Note: {escape(note)}", soft_wrap=True)


def slide_files(items: Iterable[Path], screen: Console) -> list[Path]:
    """Slides among files and folders; what was passed over in folders is said."""
    found = find_slides(items)
    show_left_out(found.left_out, screen)
    return found.files


def show_failed(failed: Mapping[str, Exception], screen: Console) -> None:
    """Slides without a prediction, and why."""
    for name, error in failed.items():
        screen.print(f"[bold red]No prediction of {escape(name)}:[/] {escape(str(error))}", soft_wrap=True)


def show_left_out(files: list[Path], screen: Console) -> None:
    if files:
        named = ", ".join(file.name for file in files[:3]) + ", ..." * (len(files) > 3)
        kinds = "pictures beside slides, or DICOM files; name one file of a DICOM slide to use it"
        words = f"Skipped {len(files)} files ({kinds}): {escape(named)}"
        screen.print(words, highlight=False, soft_wrap=True)
