"""A run folder kept at an fsspec URL such as s3://bucket/run: a local copy to work in, every finished job sent up.

Only the driver speaks to the storage. What is sent is whole: a job's `job.json` goes last, and a job without one is not
there. A driver that is started elsewhere fetches what is done and goes on. A storage that fails stops no job: what it
did not take is sent at the end, or by the next run.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from ..errors import StudyError
from ..files import new_folder, replacing, sweep
from ..study.executors import Event, Listener
from ..study.run_folder import JobFolder, RunFolder

T = TypeVar("T")
LAST = JobFolder.RECORD  # its presence says that the folder is whole
OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "cos", "obs"}  # as fsspec calls them
PAUSES = (1.0, 4.0)  # seconds before the storage is asked again


def is_url(out: str) -> bool:
    return "://" in out


class Mirror:
    """url: where the run is kept. folder: the local copy."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url.rstrip("/"), folder
        self._there: set[str] = set()  # jobs that the storage has whole, as far as this driver knows
        import fsspec

        kind = self.url.partition("://")[0]
        try:
            self._files, self._root = fsspec.url_to_fs(self.url)
        except ImportError as error:
            raise StudyError(f"{self.url}: this kind of storage needs another package ({error}).") from error
        except Exception as error:
            raise StudyError(
                f"{self.url}: storage that cannot be used ({error}). Expected a URL such as s3://bucket/run, or a path."
            ) from error
        if kind == "memory":
            raise StudyError(
                f"{self.url}: in-memory storage is lost when the process exits. Give a path, or a URL "
                "such as s3://bucket/run."
            )
        self._has_folders = kind not in OBJECT_STORES

    def check_writable(self) -> None:
        """Write a few bytes and remove them: a bucket that is missing or read-only is refused before any job runs."""
        path = f"{self._root}/.check"

        def check() -> None:
            self._make_folder(self._root)
            self._files.pipe_file(path, b"jigsawmil")
            self._files.rm_file(path)

        self._ask(check)

    @classmethod
    def of(cls, url: str, cache: Path) -> "Mirror":
        """The copy has a folder of its own in `cache`, the same one each time."""
        name = url.rstrip("/").rsplit("/", 1)[-1]
        return cls(url, cache / f"{name}-{hashlib.sha256(url.rstrip('/').encode()).hexdigest()[:8]}")

    def fetch(self) -> int:
        """Bring finished jobs and folds that the local copy lacks; the number of jobs brought."""
        sizes = self._ask(self._list)
        self._there = {path.rpartition("/")[0] for path in sizes if path.rpartition("/")[2] == LAST}
        brought = 0
        for job in sorted(self._there):
            target = self.folder / job
            sweep(target)  # of a driver that was killed
            if not (target / LAST).exists():
                with new_folder(target) as folder:
                    for path in sizes:
                        if path.rpartition("/")[0] == job:
                            self._get(path, folder / path.rpartition("/")[2], sizes[path])
                brought += 1
        for path in sizes:
            target = self.folder / path
            if RunFolder.is_folds(path) and not target.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                with replacing(target) as temporary:
                    self._get(path, temporary, sizes[path])
        return brought

    def send(self, folder: Path) -> None:
        """A finished job's folder, its `job.json` last."""
        for file in sorted(folder.iterdir(), key=lambda file: file.name == LAST):
            self._put(file)
        self._there.add(self._inside(folder))

    def send_missing(self) -> int:
        """Finished jobs of the local copy that the storage lacks; the number sent. After `fetch`, which looks."""
        run = RunFolder(self.folder)
        found = (job for own in (run, run.control) for job in (*own.finished_jobs(), *own.finished_inner_jobs()))
        jobs = [job.path for job in found]
        missing = [job for job in jobs if self._inside(job) not in self._there]
        for job in missing:
            self.send(job)
        return len(missing)

    def send_tables(self) -> None:
        """Everything of the run that is not a job's: tables, plots, folds. Phantoms stay."""
        for file in sorted(self.folder.rglob("*")):
            if file.is_file() and RunFolder.is_shared(file.relative_to(self.folder)):
                self._put(file)

    def sending(self, listen: Listener) -> Listener:
        """A listener that sends every job that is done, and then passes the event on.

        What cannot be sent is left to `send_missing`: an error here would cancel the jobs that run.
        """

        def send_finished(event: Event) -> None:
            if event.ended and event.error is None:
                with suppress(StudyError, OSError):
                    self.send(event.job.folder)
            listen(event)

        return send_finished

    def _list(self) -> dict[str, int | None]:
        """Files that the storage has, by their path in the run, with their bytes where it tells."""
        self._files.invalidate_cache()  # another driver may have written since
        found = self._files.find(self._root, detail=True) if self._files.exists(self._root) else {}
        return {str(path)[len(self._root) :].lstrip("/"): about.get("size") for path, about in found.items()}

    def _get(self, path: str, target: Path, size: int | None) -> None:
        def get() -> None:
            self._files.get_file(f"{self._root}/{path}", str(target))
            if size is not None and (came := target.stat().st_size) != size:
                raise OSError(f"{came} of {size} bytes of {path} came")

        self._ask(get)

    def _put(self, file: Path) -> None:
        path = f"{self._root}/{self._inside(file)}"

        def put() -> None:
            self._make_folder(path.rpartition("/")[0])
            self._files.put_file(str(file), path)

        self._ask(put)

    def _make_folder(self, path: str) -> None:
        if self._has_folders:  # where there are none, a bucket would be made of a typing error
            self._files.makedirs(path, exist_ok=True)

    def _inside(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _ask(self, work: Callable[[], T]) -> T:
        """What the storage answers; one that fails is asked again, a few times."""
        for pause in PAUSES:
            try:
                return work()
            except Exception:
                time.sleep(pause)
        with self._naming_failures():
            return work()

    @contextmanager
    def _naming_failures(self) -> Iterator[Any]:
        """Storages fail in many ways of their own: say which storage, and keep what is local."""
        try:
            yield
        except Exception as error:
            raise StudyError(
                f"{self.url}: the storage failed ({type(error).__name__}: {error}). Finished jobs are in "
                f"{self.folder}; run the same command again to upload the rest."
            ) from error
