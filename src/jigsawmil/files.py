"""Files and folders that appear whole or not at all (written under a temporary name, then renamed), and locks."""

import glob
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .errors import ConfigError, StudyError

if TYPE_CHECKING:
    import pandas as pd

WORKBOOKS = (".xlsx", ".xls", ".ods")
FORMULA = re.compile(r"'*[=+\-@\t\r](?!\d*\.?\d*$).", re.DOTALL)  # numbers, and + or - alone, are none
DAY = 86400.0  # seconds; nothing is written for so long
LOCK = ".lock"
OURS = re.compile(r"\.[0-9a-f]{10}-\d+-[0-9a-f]{8}\.partial$")  # see `_beside`; other programs have partial files too
_UMASK = os.umask(0)  # can only be read by setting it
os.umask(_UMASK)
_swept: set[Path] = set()  # folders that this process has looked through


def cache_folder() -> Path:
    """Where this machine keeps what can be made again, as its system has it; it need not be there."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "jigsawmil"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path for the new content of a file; renamed to `path` on success, removed on failure.

    The content is on the disk before the file has its name: a power cut leaves the old file or the new one."""
    sweep_folder(path.parent)
    temporary = _beside(path)
    try:
        yield temporary
        if temporary.is_file():
            _settle(temporary)
        _rename(temporary, path)
    except OSError as error:
        _name(error, temporary, path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, values: dict[str, Any]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(plain(values), indent=2) + "\n")


def plain(value: Any) -> Any:
    """JSON has no NaN: null instead."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that becomes `path` on success (which must not exist, or be empty), removed on failure."""
    sweep_folder(path.parent)
    temporary = _beside(path)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for item in [*temporary.rglob("*"), temporary]:
            (_settle if item.is_file() else _settle_folder)(item)
        with suppress(FileNotFoundError):
            path.rmdir()  # a folder cannot replace another one on every system
        _rename(temporary, path)
    except OSError as error:
        _name(error, temporary, path)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Make a folder; what cannot be written is an error that says so."""
    if re.match(r"[A-Za-z][\w+.-]+:/", str(folder)):  # a path has made one slash of two; C:/ is a folder
        raise ConfigError(f"{folder}: looks like a URL, expected a folder. Only compare and study write to URLs.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep_folder(folder)
        yield
    except OSError as error:
        raise StudyError(f"{folder}: cannot be written ({error.strerror}). Choose another folder.") from error


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """`replacing` in a folder that is made if need be; what cannot be written is an error that says so."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise StudyError(f"{path}: cannot be written ({error.strerror}). Choose another folder.") from error


def check_target(path: Path) -> None:
    """Refuse a file that cannot be written, before the work and not after it."""
    if path.is_dir():
        raise StudyError(f"{path}: found a folder, expected a file to write. Give {path / 'predictions.csv'}.")
    if path.suffix.lower() in WORKBOOKS:
        raise ConfigError(f"--out {path}: found {path.suffix!r}, expected .csv. Give {path.with_suffix('.csv')}.")
    with writing_to(path.parent):
        pass


def write_csv(table: "pd.DataFrame", path: Path) -> None:
    """A table, whole or not at all, `guarded`."""
    with writing_to(path.parent), replacing(path) as temporary:
        guarded(table).to_csv(temporary, index=False)


def guarded(table: "pd.DataFrame") -> "pd.DataFrame":
    """The same, for a CSV: a text that a spreadsheet would take for a formula begins with an apostrophe, which
    `unguarded` takes away."""
    texts = {name: table[name].map(_guard) for name in table if table[name].dtype.kind not in "biuf"}
    return table.assign(**texts)


def unguarded(text: str) -> str:
    """A text of a table that was `guarded`."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


def _guard(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def sweep(path: Path) -> None:
    """Remove what was begun for `path` and nobody can be writing any more.

    That is what a process of this machine left that is gone, and whatever is a day old: whether a process of another
    machine lives cannot be known from here.
    """
    for left in path.parent.glob(f".{glob.escape(path.name.lstrip('.'))}.*.partial"):
        if _abandoned(left):
            remove(left)


def sweep_folder(folder: Path) -> None:
    """The same for everything in a folder; once in the life of a process."""
    folder = folder.absolute()
    if folder not in _swept:
        _swept.add(folder)
        for left in folder.glob(".*.partial"):
            if OURS.search(left.name) and _abandoned(left):
                remove(left)


def remove(path: Path) -> None:
    """A file or a folder, if it can be: others may be removing it too."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def no_folder(path: Path) -> str:
    """What is wrong with a path that is no folder, to begin an error."""
    return f"{path}: found a file, expected a folder" if path.exists() else f"{path}: no such folder"


def check_readable(path: Path) -> None:
    """A file that may not be read is there: whoever looks for it in vain would say otherwise."""
    if path.exists() and not os.access(path, os.R_OK):
        raise StudyError(f"{path}: may not be read (permission denied). Ask its owner for the right to read it.")


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


@contextmanager
def alone_in(folder: Path, words: str) -> Iterator[None]:
    """Hold the lock of a folder, or say in `words` that another process holds it."""
    with held(folder / LOCK) as mine:
        if not mine:
            raise StudyError(f"{folder}: {words}. Wait until it has ended, or give another --out.")
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


def _settle(file: Path) -> None:
    """Put a file's content on the disk, and let those read it whom the user's umask lets: safetensors lets nobody."""
    if os.name == "posix":
        file.chmod(0o666 & ~_UMASK)
    with open(file, "rb+") as opened:
        os.fsync(opened.fileno())


def _rename(temporary: Path, path: Path) -> None:
    """Give content its name, and put the name on the disk."""
    os.replace(temporary, path)
    _settle_folder(path.parent)


def _settle_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, as far as the system lets a program do so."""
    if os.name != "posix":
        return
    with suppress(OSError):  # some network file systems refuse it
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _name(error: OSError, temporary: Path, path: Path) -> None:
    """Say which file an error is about, by its lasting name: that of a full disk names none."""
    if error.errno is not None:
        error.filename = str(error.filename or path).replace(str(temporary), str(path))


def _beside(path: Path) -> Path:
    """A name that no other attempt has, and that tells whose it is: machine, process, and a random part."""
    owner = f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    return path.with_name(f".{path.name.lstrip('.')}.{owner}.partial")


def _abandoned(partial: Path) -> bool:
    machine, pid, *_ = [*partial.name.split(".")[-2].split("-"), ""]
    if machine == _machine() and pid.isdigit() and not _alive(int(pid)):
        return True
    try:
        return time.time() - partial.stat().st_mtime > DAY
    except OSError:  # gone by itself
        return False


def _machine() -> str:
    """Where a process id means one process: this host, and the container within it."""
    space = ""
    with suppress(OSError):  # only Linux has it
        space = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{socket.gethostname()} {space}".encode()).hexdigest()[:10]


def _alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # not to be asked there: os.kill would end it
    try:
        os.kill(pid, 0)  # signals nothing
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's, and it lives
    return True
