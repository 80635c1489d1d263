"""What a person sees while models are fitted."""

import io
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from jigsawmil.cli.progress import COLUMNS, FitProgress, StudyProgress, figure_table, figures
from jigsawmil.cohort.splits import Fold
from jigsawmil.study.executors import Event
from jigsawmil.study.job import Job
from jigsawmil.study.study import CohortSpec
from jigsawmil.train.progress import Epoch
from jigsawmil.train.settings import Settings

FULL = Epoch(epoch=15, mil=0.482, jigsaw=4.526, lambda_=0.178, val_loss=0.627, val_auc=0.875, seconds=2.0)
BARE = Epoch(epoch=3, mil=0.6, jigsaw=0.0, lambda_=0.0, val_loss=math.nan, val_auc=math.nan, seconds=2.0)


def job(variant: str = "graph-abmil+jigsaw", fold: int = 0, **changes) -> Job:
    values = {"cohort": "colon", "seed": 0, "shuffled": False, **changes}
    return Job(
        source=CohortSpec("labels.csv", "features"), fingerprint="", variant=variant, settings=Settings(epochs=50),
        graph=None, fold=fold, split=Fold(train=(), test=()), attention=False, memory_gb=1.0, folder=Path(), **values,
    )  # fmt: skip


def screen(width: int = 80, terminal: bool = False) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width, force_terminal=terminal), file


def plain(file: io.StringIO) -> str:
    """Without the codes that colour and move."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue())


def test_figures_are_those_that_there_are() -> None:
    assert dict(zip(COLUMNS, figures(FULL, 50), strict=True)) == {
        "epoch": "15/50",
        "MIL": "0.482",
        "jigsaw": "4.526",
        "lambda": "0.178",
        "val loss": "0.627",
        "val AUROC": "0.875",
    }
    assert figures(BARE, 50) == ("3/50", "0.600", "", "", "", "")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_figure_is_cut_where_the_terminal_is_narrow(width: int) -> None:
    console, file = screen(width)
    names = ("a cohort graph-abmil+jigsaw seed 12 fold 0 shuffled", "[red]abmil[/] fold 2")
    console.print(figure_table({names[0]: figures(FULL, 50), names[1]: figures(BARE, 50)}))
    lines = file.getvalue().splitlines()
    assert len(lines) == 3  # nothing wraps
    assert max(map(len, lines)) <= width
    for column, value in zip(COLUMNS, figures(FULL, 50), strict=True):
        assert column in lines[0]
        assert value in lines[1]
    assert lines[2].startswith("[red]a")  # a name is no markup


def test_a_line_a_job_where_there_is_no_terminal() -> None:
    console, file = screen()
    with StudyProgress(console) as progress:
        progress.plan([job(), job(fold=1), job(fold=2)], 1)
        progress(Event(job(fold=1), FULL))
        progress(Event(job(fold=1)))
        progress(Event(job(fold=2), error="Traceback\n  File\nValueError: a [bad] slide"))
    assert file.getvalue().splitlines() == [
        "1 of 3 jobs are done already; running the rest.",
        "done    colon graph-abmil+jigsaw seed 0 fold 1 (2 s); 2 of 3, about 1 s left",  # its first epoch counts
        "failed  colon graph-abmil+jigsaw seed 0 fold 2: ValueError: a [bad] slide",
    ]


def test_a_job_runs_from_its_beginning_to_its_end_and_not_longer() -> None:
    """On a cluster the last epoch of a job may come after its end; the bar must not pass the end."""
    console, _ = screen(terminal=True)
    with StudyProgress(console) as progress:
        progress.plan([job(), job(fold=1)], 0)
        progress(Event(job(), begun=True))
        assert progress._bar.tasks[0].fields["counts"] == "0/2 done, 1 running"
        progress(Event(job(), FULL, begun=True))
        assert progress._bar.tasks[0].completed == pytest.approx(0.3)
        progress(Event(job()))
        progress(Event(job(), FULL, begun=True))
        assert progress._bar.tasks[0].fields["counts"] == "1/2 done, 0 running"
        assert progress._bar.tasks[0].completed == 1


def test_a_cluster_that_changes_is_told() -> None:
    console, file = screen()
    with StudyProgress(console) as progress:
        progress.cluster("Ray: 2 nodes, 4 CPUs")
        progress.cluster("Ray: 1 node, 2 CPUs")
    assert file.getvalue().splitlines() == ["Now Ray: 1 node, 2 CPUs"]


def test_quiet_tells_failures_only() -> None:
    console, file = screen(terminal=True)
    with StudyProgress(console, quiet=True) as progress:
        progress.plan([job(), job(fold=1)], 1)
        progress(Event(job(fold=1), FULL))
        progress(Event(job(fold=1), error="no luck"))
    assert plain(file).splitlines() == ["failed  colon graph-abmil+jigsaw seed 0 fold 1: no luck"]


def test_nothing_is_left_to_do() -> None:
    console, file = screen()
    with StudyProgress(console) as progress:
        progress.plan([job()], 1)
    assert file.getvalue() == "1 of 1 jobs are done already.\n"


def test_a_terminal_shows_every_running_job_with_all_figures() -> None:
    console, file = screen(terminal=True)
    jobs = [job(), job("abmil", 1), job("abmil", 2)]
    with StudyProgress(console) as progress:
        progress.plan(jobs, 0)
        progress(Event(jobs[0], FULL))
        progress(Event(jobs[1], BARE))
        progress(Event(jobs[2], BARE))
        progress(Event(jobs[2]))
        progress._live.refresh()
        shown = plain(file).splitlines()[-4:]
        assert "1/3" in shown[0]
        assert "left" in shown[0]
        assert shown[1].split() == " ".join(COLUMNS).split()
        assert shown[2].split() == ["graph-abmil+jigsaw", "fold", "0", *figures(FULL, 50)]
        assert shown[3].split() == ["abmil", "fold", "1", "3/50", "0.600"]


def test_the_bar_moves_with_epochs_and_ends_full() -> None:
    console, _ = screen(terminal=True)
    progress = StudyProgress(console)
    jobs = [job(fold=i) for i in range(4)]
    progress.plan(jobs, 1)
    bar = progress._bar.tasks[0]
    progress(Event(jobs[1], FULL))
    assert bar.completed == pytest.approx(1 + 15 / 50)
    progress(Event(jobs[1]))  # stopped early
    assert bar.completed == 2
    progress(Event(jobs[2], error="no luck"))
    progress(Event(jobs[3]))
    assert bar.completed == bar.total == 4


def test_what_tells_jobs_apart_is_said() -> None:
    console, file = screen(120, terminal=True)
    jobs = [job(), job(cohort="breast"), job(seed=3), job(shuffled=True)]
    with StudyProgress(console) as progress:
        progress.plan(jobs, 0)
        for one in jobs:
            progress(Event(one, BARE))
        progress._live.refresh()
        names = [line.split("  ")[0] for line in plain(file).splitlines()[-4:]]
    assert names == [
        "colon graph-abmil+jigsaw seed 0 fold 0",
        "breast graph-abmil+jigsaw seed 0 fold 0",
        "colon graph-abmil+jigsaw seed 3 fold 0",
        "colon graph-abmil+jigsaw seed 0 fold 0 shuffled",
    ]


def test_one_training_prints_a_line_an_epoch() -> None:
    console, file = screen()
    with FitProgress(console, 50) as progress:
        progress(BARE)
        progress(FULL)
    assert file.getvalue().splitlines() == [
        "epoch 3/50  MIL 0.600",
        "epoch 15/50  MIL 0.482  jigsaw 4.526  lambda 0.178  val loss 0.627  val AUROC 0.875",
    ]
    console, file = screen()
    with FitProgress(console, 50, quiet=True) as progress:
        progress(FULL)
    assert file.getvalue() == ""


def test_one_training_on_a_terminal() -> None:
    console, file = screen(terminal=True)
    with FitProgress(console, 50) as progress:
        progress(FULL)
        progress._live.refresh()
        bar, names, values = plain(file).splitlines()[-3:]
    assert "left" in bar
    assert names.split() == " ".join(COLUMNS).split()
    assert values.split() == list(figures(FULL, 50))


def test_whole_jobs_are_counted() -> None:
    """The epochs of three jobs are not a job that is done, nor is one that failed."""
    console, _ = screen(terminal=True)
    progress = StudyProgress(console)
    jobs = [job(fold=i) for i in range(4)]
    progress.plan(jobs, 1)
    for half in jobs[1:]:
        progress(Event(half, replace(FULL, epoch=40)))
    assert progress._bar.tasks[0].fields["counts"] == "1/4 done, 3 running"
    progress(Event(jobs[3], error="no luck"))
    assert progress._bar.tasks[0].fields["counts"] == "1/4 done, 2 running, 1 failed"
