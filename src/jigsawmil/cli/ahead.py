"""What comes before a study runs: the paper's figures, what it would cost, whether its data are there, stand-ins."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from .options import key_values
from .screen import console, tracked

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
        "an estimate, right to about a factor of two, from times measured on one machine.",
        f"Features to draw: {gigabytes:.1f} GB." if phantom else "The features exist already.",
        "Nothing was run.",
    ]
    columns = [Column("cohort", list(costs), name=True), *(Column(name, cells) for name, cells in figures.items())]
    print_stacked(
        [
            Table(
                f"{len(study.variants)} variant{'s' * (len(study.variants) > 1)}: {', '.join(study.variants)}",
                columns,
                notes,
            )
        ],
        console(),
    )


def draw_standins(study: "Study", folder: Path, quiet: bool) -> "Study":
    """The study on phantoms in `folder`; those that are there already are used again."""
    from ..study.study import on_standins
    from ..synthetic.standins import write_standin

    moved, screen = on_standins(study, folder), console()
    for name in study.cohorts:
        standin = study.standins[name]
        words = f"Drawing {standin.n} phantom slides in place of {name}"
        follow = partial(tracked, total=standin.n, words=words, screen=screen, quiet=quiet)
        write_standin(standin, folder / name, follow)
    return moved


def check_data(study: "Study", file: Path) -> None:
    """Features or labels that are not where the file says, reported before anything is read."""
    for name, source in study.cohorts.items():
        missing = [path for path in (source.labels, source.features) if not Path(path).exists()]
        if missing and study.standins:
            raise ConfigError(
                f"{name}: no {' and no '.join(missing)}; expected the labels and features that {file} names. "
                f"Put them there, or run the study on synthetic cohorts: jigsawmil study {file} --phantom"
            )


def study_settings(more: list[str] | None, epochs: int | None) -> dict[str, Any]:
    """Settings for all variants of a study file."""
    given = key_values(more or [])
    if epochs is not None and "epochs" in given:
        raise ConfigError("epochs: found both --epochs and --set epochs, expected one of them.")
    return given if epochs is None else {**given, "epochs": epochs}
