"""HDF5 files: their headers at once, their arrays on demand.

A file is opened in a child process first, see `hdf5_child`. What that has read without harm can be read here.
"""

import atexit
import json
import os
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from ...errors import FeatureError, summarize_error
from . import hdf5_child
from .guard import forbidden, refuse_bomb
from .source import Stored

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = (".h5", ".hdf5")
DEEP = (".h5ad",)  # whose arrays lie in groups
CHECKSUMS = "checksums"  # attribute of files that this program wrote
HEADER: dict[str, Any] = {"do": "header", "deep": False}
PIPE = 1 << 14  # characters of questions that wait; a pipe of Linux holds four times as many bytes
Mark = tuple[str, int, int]  # path, size and time of change
FATAL = f"libhdf5 crashed over it, or did not end within {hdf5_child.SECONDS} s"


@dataclass(frozen=True)
class Hdf5:
    """The top level of one file: attributes of the root, and its datasets, unread."""

    attrs: dict[str, Any]
    arrays: dict[str, Stored]


def read_header(path: Path, *, deep: bool = False) -> Hdf5:
    """Names, shapes, types and attributes; no data. deep: also in groups, by their path."""
    found = _CHILD.ask(path, do="header", deep=deep)
    expected = _checksums(path, found)
    arrays = {}
    for key, item in found["arrays"].items():
        arrays[key] = Stored(
            tuple(item["shape"]),
            item["dtype"],
            _reader(path, key, item["packed"], item["nbytes"], expected.get(key, (None, None))[1]),
            item["attrs"],
            fault=item["fault"] and f"dataset '{key}' {item['fault']}",
            some=None if item["packed"] is not None else _some(path, key),
        )
    return Hdf5(found["attrs"], arrays)


def keys(path: Path) -> set[str]:
    """Names at the top level; of a file whose header was not looked at ahead, nothing else is touched."""
    try:
        return (
            set(_CHILD.ask(path, keep=True, do="header", deep=False)["names"]) if _CHILD.knows(path) else _names(path)
        )
    except FeatureError:
        return _names(path)


def _names(path: Path) -> set[str]:
    return set(_CHILD.ask(path, do="names"))


def look_ahead(paths: Sequence[Path]) -> None:
    """Have the headers of many files looked at, before `keys` and `read_header` ask for them one by one: the child
    process is not waited for in between."""
    _CHILD.look_ahead(paths)


@contextmanager
def open_once() -> Iterator[None]:
    """In this block and thread, a file whose arrays are read is opened once for all of them."""
    _here.files = {}
    try:
        yield
    finally:
        files, _here.files = _here.files, None
        for file in files.values():
            file.close()


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    files = getattr(_here, "files", None)
    if files is None:
        with h5py.File(path, "r") as file:
            yield file
    else:
        if path not in files:
            files[path] = h5py.File(path, "r")
        yield files[path]


_here = threading.local()


def seal(file: h5py.File) -> None:
    """Write into a file of ours the checksums of what it holds: at its root and, lest they be lost, at its features."""
    sums = {name: (_sum(hdf5_child.attributes(file[name])), zlib.crc32(file[name][()])) for name in sorted(file)}
    for item in _sealed(file):
        item.attrs[CHECKSUMS] = json.dumps(sums)


def unseal(file: h5py.File) -> None:
    """Of a file that is about to be changed."""
    for item in _sealed(file):
        item.attrs.pop(CHECKSUMS, None)


def _sealed(file: h5py.File) -> list[h5py.File | h5py.Dataset]:
    return [file, file["features"]] if "features" in file else [file]


def _checksums(path: Path, header: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Of the attributes and the values of each dataset, if the file has any; attributes are compared at once."""
    arrays = header["arrays"]
    texts = [header["attrs"].pop(CHECKSUMS, None)]
    texts += [text for name in sorted(arrays) if (text := arrays[name]["attrs"].pop(CHECKSUMS, None)) is not None]
    if texts == [None]:
        return {}
    try:
        expected = {str(name): (int(about), int(values)) for name, (about, values) in json.loads(texts[0]).items()}
        same = texts == [texts[0]] * (1 + ("features" in expected))
        intact = same and all(_sum(arrays[name]["attrs"]) == about for name, (about, _) in expected.items())
    except (ValueError, TypeError, AttributeError, KeyError):
        intact = False
    if not intact:
        raise FeatureError(
            f"{path.name}: its attributes or datasets are not those that were written, by their checksums. Copy or "
            f"extract it again. If they were changed on purpose, remove the attribute '{CHECKSUMS}' of the file and of "
            "its datasets."
        )
    return expected


def _sum(attrs: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(attrs, sort_keys=True, default=str).encode())


def _mark(path: Path) -> Mark | None:
    """A file as it is now; None if it is none, such as a pipe, which would be waited for."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (str(path), status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _line(path: Path, question: dict[str, Any]) -> str:
    return json.dumps({"path": str(path.absolute()), **question})


class _Child:
    """The child process, begun when needed and again after it died. One question at a time, as libhdf5 has it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0
        self._fatal: set[Mark] = set()  # files that ended it
        self._turn = threading.Lock()
        self._ahead: dict[Mark, str] = {}  # headers that nobody has asked for yet

    def ask(self, path: Path, *, keep: bool = False, **question: Any) -> Any:
        """keep: an answer that was asked for ahead stays for who asks again."""
        mark = _mark(path)
        if mark is None:
            raise FeatureError(f"{path}: no file. Check the path, or extract the slide.")
        with self._turn:
            if mark in self._fatal:
                raise _unreadable(path, FATAL)
            line = self._ahead.get(mark) if question == HEADER else None
            if line is None:
                line = next(self._answers([(mark, _line(path, question))]), "")
            elif not keep:
                del self._ahead[mark]
            if not line:
                raise _unreadable(path, FATAL)
        said = json.loads(line)
        if said.get("forbidden"):
            raise forbidden(path)
        if "error" in said:
            raise _unreadable(path, said["error"], question.get("key"))
        return said["value"]

    def knows(self, path: Path) -> bool:
        return _mark(path) in self._ahead

    def look_ahead(self, paths: Sequence[Path]) -> None:
        with self._turn:
            marks = [(path, mark) for path in paths if (mark := _mark(path)) and mark not in self._fatal]
            left = [(mark, _line(path, HEADER)) for path, mark in marks]
            while left:  # a file that ends the process costs its own answer
                count = 0
                for (mark, _), line in zip(left, self._answers(left), strict=False):
                    count += 1
                    if line:
                        self._ahead[mark] = line
                left = left[count:]

    def _answers(self, questions: Sequence[tuple[Mark, str]]) -> Iterator[str]:
        """The answer to each, in order, while further questions wait in the pipe; "" and no more of a file that ended
        the process, which is remembered."""
        process, sent, waiting = self._running(), 0, 0
        for mark, own in questions:
            try:
                while sent < len(questions) and (sent == 0 or waiting + len(questions[sent][1]) < PIPE):
                    print(questions[sent][1], file=process.stdin)
                    waiting, sent = waiting + len(questions[sent][1]), sent + 1
                if process.stdin:
                    process.stdin.flush()
                line = process.stdout.readline() if process.stdout else ""
            except BrokenPipeError:
                line = ""
            waiting -= len(own)
            if not line:
                self.stop()
                self._fatal.add(mark)
            yield line
            if not line:
                return

    def _running(self) -> subprocess.Popen[str]:
        if self._owner != os.getpid() or (self._process is not None and self._process.poll() is not None):
            self.stop()
        if self._process is None:
            self._owner = os.getpid()
            code = f"import sys; sys.path[:] = {sys.path!r}; from {hdf5_child.__name__} import serve; "
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"{code}serve({hdf5_child.SECONDS})"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for the parent
            )
        return self._process

    def stop(self) -> None:
        """End it, unless this process is a fork: then it answers the parent."""
        process, self._process = self._process, None
        if process is not None:
            if self._owner == os.getpid():
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()


_CHILD = _Child()
stop = _CHILD.stop  # it is begun again when it is needed
atexit.register(stop)


def _unreadable(path: Path, why: str, key: str | None = None) -> FeatureError:
    if key is not None:
        return FeatureError(f"{path.name}: dataset '{key}' is damaged ({why}). Copy or extract it again.")
    return FeatureError(
        f"{path.name}: cannot be read as HDF5 ({why}). "
        "It is truncated, damaged, still being written, or not an HDF5 file: copy or extract it again."
    )


def _reader(path: Path, key: str, packed: int | None, nbytes: int, expected: int | None) -> Callable[[], "Tensor"]:
    """packed: bytes that the dataset takes in the file, if it is compressed. expected: checksum of its values."""

    def read() -> "Tensor":
        if packed is not None:
            refuse_bomb(f"{path.name}: dataset '{key}'", packed, nbytes)
            _CHILD.ask(path, do="unpack", key=key)
        try:
            with _opened(path) as file:
                dataset = file[key]
                array = dataset[()]  # in one call: TRIDENT's chunks are one row each
                _check_written(dataset, array)
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise _unreadable(path, summarize_error(error), key) from error
        if expected is not None and zlib.crc32(np.ascontiguousarray(array).data) != expected:
            raise _unreadable(path, "its values are not those that were written, by their checksum", key)
        return _as_tensor(array)

    return read


def _some(path: Path, key: str) -> Callable[[Sequence[slice]], "Tensor"]:
    """Rows of a dataset that is not compressed."""

    def read(rows: Sequence[slice]) -> "Tensor":
        try:
            with _opened(path) as file:
                dataset = file[key]
                if dataset.ndim == 3:  # (1, patch, d)
                    return _as_tensor(np.concatenate([dataset[0, some] for some in rows]))
                return _as_tensor(np.concatenate([dataset[some] for some in rows]))
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise _unreadable(path, summarize_error(error), key) from error

    return read


def _check_written(dataset: h5py.Dataset, array: np.ndarray) -> None:
    """A chunk that is missing reads as the fill value, zeros as a rule: chunks full of it have to be there."""
    if dataset.chunks is None or not array.size:
        return
    filled = array == dataset.fillvalue
    if dataset.chunks[1:] == dataset.shape[1:] and not filled.reshape(len(filled), -1).all(axis=1).any():
        return
    places = [range(0, extent, step) for extent, step in zip(dataset.shape, dataset.chunks, strict=True)]
    for corner in product(*places):
        part = tuple(slice(start, start + step) for start, step in zip(corner, dataset.chunks, strict=True))
        if filled[part].all():
            dataset.id.read_direct_chunk(corner)  # raises if there is none


def _as_tensor(array: np.ndarray) -> "Tensor":
    import torch

    if hdf5_child.dtype_name(array.dtype) == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
