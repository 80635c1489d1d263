"""One run at a time in a run folder."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import StudyError


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; where another process holds it, say so. The system frees it when its holder ends or dies.

    Where a file system knows no locks, nothing is held.
    """
    with open(folder / ".lock", "a", encoding="utf-8") as file:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError) as error:
            raise StudyError(
                f"{folder}: another run is writing there. Wait until it has ended, or give another --out."
            ) from error
        except OSError:
            pass
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[str]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
