"""The command line: parse, call, print. One file per group of verbs."""

from .app import app
from .screen import print_anywhere

__all__ = ["app", "main"]


def main() -> None:
    """Run the program."""
    print_anywhere()
    app(prog_name="jigsawmil")
