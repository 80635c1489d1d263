"""Files and folders that appear whole or not at all: written under a temporary name beside, then renamed."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}-{threading.get_ident()}.partial")
