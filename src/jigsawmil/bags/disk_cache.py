"""Tensors in a folder of bounded size, memory-mapped, shared by all processes that use the folder.

A file appears whole under its name, and readers take no lock: a process may be killed at any time, and a file that
another one removes stays readable where it is mapped. A damaged file, by its checksums, is removed.
"""

import os
import shutil
import time
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..config import require
from ..files import cache_folder, remove, replacing

FOLDER, SIZE = "JIGSAWMIL_CACHE", "JIGSAWMIL_CACHE_GB"  # environment variables
GB = 50.0  # unless SIZE says otherwise
FREE = 0.1  # share of the disk that stays free
PAGE = 4096
SUFFIX = ".safetensors"
Found = tuple[dict[str, Tensor], dict[str, str]]  # tensors, and what is noted about them


class DiskCache:
    """At most `size` bytes of files in a folder.

    What this process has used is never removed for what it wants to keep next: training goes through all slides epoch
    after epoch, and the least recently used one would be the one needed soonest. What nobody has used since this
    process began goes first, the oldest before the others; without such files, nothing more is kept.
    """

    def __init__(self, folder: Path, size: float) -> None:
        self._folder, self._size = folder, size
        self._began = time.time()
        self._checked: set[str] = set()
        self._works = size > 0

    def read(self, name: str) -> Found | None:
        """The tensors of this name, mapped, their pages fetched; None if there are none."""
        path = self._path(name)
        if not self._works or not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                notes = dict(file.metadata())
                tensors = {key: file.get_tensor(key) for key in sorted(file.keys())}
            os.utime(path)  # it was used
        except FileNotFoundError:  # removed by another process
            return None
        except (OSError, SafetensorError, TypeError):
            remove(path)
            return None
        if name in self._checked:
            for tensor in tensors.values():
                _bytes(tensor)[::PAGE].sum()  # fetched here, in the thread that reads ahead, and not during a step
        elif notes.get("sums") != _sums(tensors):
            remove(path)
            return None
        self._checked.add(name)
        return tensors, notes

    def keep(self, name: str, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
        """Write tensors unless they are there, or there is no room."""
        path = self._path(name)
        if not self._works or path.exists():
            return
        whole = {key: tensor.contiguous() for key, tensor in sorted(tensors.items())}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._make_room(sum(tensor.nbytes for tensor in whole.values())):
                with replacing(path) as temporary:
                    save_file(whole, temporary, metadata={**notes, "sums": _sums(whole)})
        except (OSError, SafetensorError) as error:
            self._works = False
            warnings.warn(
                f"{self._folder}: prepared slides cannot be kept there ({error}); they are prepared each time they are "
                f"needed. Name another folder in {FOLDER}.",
                stacklevel=2,
            )

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def _make_room(self, wanted: int) -> bool:
        """Whether so many bytes fit now; removes what is not in use, if that is enough."""
        files = [(entry, entry.stat()) for entry in os.scandir(self._folder) if entry.is_file()]
        used, disk = sum(status.st_size for _, status in files), shutil.disk_usage(self._folder)
        over = max(used + wanted - self._size, wanted + FREE * disk.total - disk.free)
        idle = sorted((status.st_mtime, status.st_size, entry.path) for entry, status in files
                      if status.st_mtime < self._began and entry.name.endswith(SUFFIX))  # fmt: skip
        if over > sum(size for _, size, _ in idle):
            return False
        for _, size, path in idle:
            if over <= 0:
                break
            remove(Path(path))
            over -= size
        return True


def machine_cache() -> DiskCache:
    """The cache of this machine, in the folder and of the size that the environment names; of size 0: none."""
    size = os.environ.get(SIZE, "")
    try:
        gb = float(size) if size else GB
    except ValueError:
        gb = -1.0
    require(SIZE, size, gb >= 0, "a number of gigabytes, or 0 to keep nothing")
    return DiskCache(Path(os.environ.get(FOLDER) or cache_folder() / "slides"), gb * 1e9)


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.flatten().view(torch.uint8)


def _sums(tensors: Mapping[str, Tensor]) -> str:
    return " ".join(f"{key}={zlib.crc32(_bytes(tensor).numpy().data):08x}" for key, tensor in sorted(tensors.items()))
