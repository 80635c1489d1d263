"""What files and features hold, in a few characters: the same for whatever holds the same."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

ENDS = 1 << 16  # bytes of a file's beginning and end that are looked at
BLOCK, BLOCKS = 1 << 12, 16  # bytes between them, and in how many places
PARTS = 64  # files of a folder that are looked into; the names and sizes of all count

State = tuple[tuple[str, int, int], ...]  # name, size and time of change of files


def digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()[:16]


def file_mark(path: Path) -> str:
    """Of a file's content, at the price of two short reads: its size, its beginning and its end."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(ENDS)
        file.seek(max(0, size - ENDS))
        return digest(str(size).encode(), start, file.read(ENDS))


def whole_mark(path: Path) -> str:
    """Of a short file, every byte."""
    return digest(path.read_bytes())


def content_of(paths: Sequence[Path], *, whole: bool = False) -> str:
    """Of the content of files and folders, wherever they lie: of each its size, beginning, end and some places between,
    or every byte.

    Example: `content_of([Path("a.h5")])`
    """
    parts = []
    for path in paths:
        files = _files(path)
        step = 1 if whole else max(1, len(files) // PARTS)
        for number, file in enumerate(files):
            name = str(file.relative_to(path)) if file != path else ""
            parts += [name.encode(), str(file.stat().st_size).encode()]
            if number % step == 0:
                parts += _blocks(file, whole)
    return digest(*parts)


def state_of(paths: Sequence[Path]) -> State:
    """Of the same files, at the price of a look at their sizes and times: while it stays, so does their content."""
    found = []
    for path in paths:
        for file in _files(path):
            stat = file.stat()
            found.append((str(file), stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _blocks(file: Path, whole: bool) -> Iterator[bytes]:
    size = file.stat().st_size
    with open(file, "rb") as opened:
        if whole or size <= 2 * ENDS + BLOCK * BLOCKS:
            while block := opened.read(1 << 24):
                yield block
            return
        yield opened.read(ENDS)
        for number in range(BLOCKS):
            opened.seek(ENDS + number * (size - 2 * ENDS) // BLOCKS)
            yield opened.read(BLOCK)
        opened.seek(size - ENDS)
        yield opened.read(ENDS)


def content_digest(features: "Tensor") -> str:
    """Of features (patch, d): their shape, and the largest and the smallest value of each column in float16.

    Neither the format, nor the order of patches, nor storage in float16 instead of float32 changes it: rounding keeps
    the order of numbers, so that the rounded maximum is the maximum of the rounded values. Features of another
    encoder or another grid of the same slide have another digest.

    Example: `content_digest(read_bag("a.h5").features)`
    """
    ends = [features.amax(dim=0).half(), features.amin(dim=0).half()]
    mark = hashlib.sha256(repr(tuple(features.shape)).encode())
    for end in ends:
        mark.update((end + 0.0).numpy().tobytes())  # -0 is 0
    return mark.hexdigest()[:16]
