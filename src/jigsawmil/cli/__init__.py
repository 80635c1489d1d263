"""The command line: parse, call, print. One file a group of verbs."""

from . import cohorts, extract, maps, models, recipes, reports, slides, studies, view  # noqa: F401  (add their verbs)
from .app import app


def main() -> None:
    """Run the program."""
    app()
