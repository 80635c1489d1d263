"""One run at a time in a run folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StudyError
from ..files import held


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; where another process holds it, say so."""
    with held(folder / ".lock") as mine:
        if not mine:
            raise StudyError(f"{folder}: another run is writing there. Wait until it has ended, or give another --out.")
        yield
