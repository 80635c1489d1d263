"""Files and folders that appear whole or not at all (written under a temporary name, then renamed), and locks."""

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path for the new content of a file; renamed to `path` on success, removed on failure."""
    temporary = _beside(path)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that becomes `path` on success (which must not exist, or be empty), removed on failure."""
    temporary = _beside(path)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if path.exists():
            path.rmdir()  # a folder cannot replace another one on every system
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """Hold a lock file; False where another process holds it. The system frees it when its holder ends or dies.

    Where a file system knows no locks, it counts as held.
    """
    with open(path, "a", encoding="utf-8") as file:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):
            yield False
            return
        except OSError:
            pass
        yield True


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[str]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}-{threading.get_ident()}.partial")
