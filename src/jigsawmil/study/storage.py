"""A run folder kept at an fsspec URL such as s3://bucket/run: a local copy to work in, every finished job sent up.

Only the driver speaks to the storage. What is sent is whole: a job's `job.json` goes last, and a job without one is not
there. A driver that is started elsewhere fetches what is done and goes on.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import StudyError
from .executors import Event, Listener

LAST = "job.json"  # its presence says that the folder is whole


def is_url(out: str) -> bool:
    return "://" in out


class Mirror:
    """url: where the run is kept. folder: the local copy."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url.rstrip("/"), folder
        with self._told():
            import fsspec

            self._files, self._root = fsspec.url_to_fs(self.url)

    @classmethod
    def of(cls, url: str, cache: Path) -> "Mirror":
        """The copy has a folder of its own in `cache`, the same one each time."""
        name = url.rstrip("/").rsplit("/", 1)[-1]
        return cls(url, cache / f"{name}-{hashlib.sha256(url.rstrip('/').encode()).hexdigest()[:8]}")

    def fetch(self) -> int:
        """Bring finished jobs and folds that the local copy lacks; the number of jobs brought."""
        with self._told():
            found = self._files.find(self._root) if self._files.exists(self._root) else []
        paths = [str(path)[len(self._root) :].lstrip("/") for path in found]
        whole = {path.rpartition("/")[0] for path in paths if path.rpartition("/")[2] == LAST}
        brought = 0
        for job in sorted(whole):
            if not (self.folder / job / LAST).exists():
                names = [path for path in paths if path.rpartition("/")[0] == job]
                self._get(sorted(names, key=lambda path: path.endswith(LAST)))
                brought += 1
        self._get([path for path in paths if "/" not in path and path.startswith("folds") and self._lacks(path)])
        return brought

    def send(self, folder: Path) -> None:
        """A finished job's folder, its `job.json` last."""
        for file in sorted(folder.iterdir(), key=lambda file: file.name == LAST):
            self._put(file)

    def send_tables(self) -> None:
        """Everything of the run that is not a job's: tables, plots, folds."""
        for file in sorted(self.folder.rglob("*")):
            inside = file.relative_to(self.folder).parts
            if file.is_file() and "jobs" not in inside and not file.name.startswith("."):
                self._put(file)

    def sending(self, listen: Listener) -> Listener:
        """A listener that sends every job that is done, and then passes the event on."""

        def told(event: Event) -> None:
            if event.ended and event.error is None:
                self.send(event.job.folder)
            listen(event)

        return told

    def _get(self, paths: list[str]) -> None:
        for path in paths:
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._told():
                self._files.get_file(f"{self._root}/{path}", str(target))

    def _put(self, file: Path) -> None:
        path = f"{self._root}/{file.relative_to(self.folder).as_posix()}"
        with self._told():
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(file), path)

    def _lacks(self, path: str) -> bool:
        return not (self.folder / path).exists()

    @contextmanager
    def _told(self) -> Iterator[Any]:
        """Storages fail in many ways of their own: say which storage, and keep what is local."""
        try:
            yield
        except ImportError as error:
            raise StudyError(f"{self.url}: this kind of storage needs another package ({error}).") from error
        except Exception as error:
            raise StudyError(
                f"{self.url}: the storage failed ({type(error).__name__}: {error}). What is done is in {self.folder}; "
                "run the same command again."
            ) from error
