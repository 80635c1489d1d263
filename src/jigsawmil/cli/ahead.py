"""What can be said of a study without running it: the paper's figures, and what it would cost."""

from pathlib import Path
from typing import TYPE_CHECKING

from .screen import console

if TYPE_CHECKING:
    from ..study.study import Study


def show_published(file: Path) -> None:
    """The paper's table in a study file, without reading data or importing what trains."""
    from ..report.paper_tables import published_table
    from ..study.published import published_figures
    from .terminal import print_stacked

    print_stacked([published_table(published_figures(file))], console())


def show_cost(study: "Study", *, phantom: bool, processes: int) -> None:
    """What a study would do, and about how long it would take; nothing is run or written."""
    from ..report.tables import Column, Table
    from ..study.cost import study_cost
    from .terminal import print_stacked

    costs = study_cost(study, phantom=phantom)
    figures = {
        "slides": [f"{own.slides:,}" for own in costs.values()],
        "patches": [f"{own.patches:,}" for own in costs.values()],
        "trainings": [f"{own.trainings:,}" for own in costs.values()],
        "hours of\none core": [f"{own.hours:.1f}" for own in costs.values()],
        "GB to\ndraw": [f"{own.gigabytes:.1f}" for own in costs.values()],
    }
    hours = sum(own.hours for own in costs.values()) / processes
    gigabytes = sum(own.gigabytes for own in costs.values())
    notes = [
        f"In all about {hours:.1f} hours with {processes} process{'es' * (processes > 1)}, if no training stops early; "
        "an estimate to a factor of two, from one machine's processor.",
        f"Features to draw: {gigabytes:.1f} GB." if phantom else "The features are there.",
        "Nothing was run.",
    ]
    columns = [Column("cohort", list(costs), name=True), *(Column(name, cells) for name, cells in figures.items())]
    print_stacked([Table(f"{len(study.variants)} variants: {', '.join(study.variants)}", columns, notes)], console())
