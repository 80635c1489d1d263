"""What was found on this machine, as rows of a table."""

from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

MISSING = "not installed"


class Fact(NamedTuple):
    what: str
    found: str
    note: str = ""


def installed(name: str) -> str | None:
    """The version of a package, without importing it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
