"""The command line: parse, call, print. One file per group of verbs."""

from .app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the program."""
    app()
