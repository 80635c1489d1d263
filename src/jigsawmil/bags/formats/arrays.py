"""`.pt`, `.npy` and `.npz` files, read without ever running what a pickle says."""

import pickle
import threading
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import FeatureError, summarize_error
from .guard import refuse_bomb
from .source import Stored

if TYPE_CHECKING:
    from torch import Tensor

# All that a pickled NumPy array of numbers needs. `_reconstruct` moved from numpy.core to numpy._core in NumPy 2.
_RECONSTRUCT = np.zeros(0).__reduce__()[0]
_NUMPY_GLOBALS: list[Any] = [
    (_RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
    (_RECONSTRUCT, "numpy._core.multiarray._reconstruct"),
    np.ndarray,
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("f2", "f4", "f8", "i4", "i8")),
]
_ALLOWED = threading.Lock()  # torch keeps its allow-list in a global, and bags are prefetched in threads


def stored_pt(path: Path) -> Stored:
    """The tensor or NumPy array in a file of `torch.save`; its data stay on disk until read."""
    packed = zipfile.is_zipfile(path)  # the format before torch 1.6 is no zip and has no mmap
    if packed:
        _refuse_zip_bomb(path)
    array = _load_pt(path, mmap=packed)
    dtype = str(array.dtype).removeprefix("torch.")
    return Stored(tuple(array.shape), dtype, lambda: _load_pt(path, mmap=False), some=partial(_rows_pt, path))


def stored_npy(path: Path) -> Stored:
    array = _load_npy(path, "r")
    return Stored(
        array.shape, array.dtype.name, lambda: as_tensor(_load_npy(path, None)), some=partial(_rows_npy, path)
    )


def _rows_pt(path: Path, rows: Sequence[slice]) -> "Tensor":
    import torch

    array = _load_pt(path, mmap=zipfile.is_zipfile(path))
    return torch.cat([array.reshape(-1, array.shape[-1])[some] for some in rows])


def _rows_npy(path: Path, rows: Sequence[slice]) -> "Tensor":
    array = _load_npy(path, "r")
    return as_tensor(np.concatenate([array.reshape(-1, array.shape[-1])[some] for some in rows]))


def stored_npz(path: Path) -> Stored:
    """The one array of an archive, or the one that `np.savez` names `arr_0`."""
    try:
        _refuse_zip_bomb(path)
        with np.load(path, allow_pickle=False) as archive:
            key = "arr_0" if "arr_0" in archive.files else archive.files[0]
            array = archive[key]
    except (OSError, ValueError, IndexError, EOFError, zipfile.BadZipFile) as error:
        raise FeatureError(_unreadable(path, "a NumPy archive", error)) from error
    return Stored(array.shape, array.dtype.name, lambda: as_tensor(array))


def _refuse_zip_bomb(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        refuse_bomb(path.name, path.stat().st_size, sum(entry.file_size for entry in archive.infolist()))


def as_tensor(array: np.ndarray) -> "Tensor":
    import torch

    return torch.from_numpy(array)


def _load_npy(path: Path, mmap_mode: Any) -> np.ndarray:
    try:
        return np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FeatureError(_unreadable(path, "a NumPy array of numbers", error)) from error


def _load_pt(path: Path, *, mmap: bool) -> "Tensor":
    import torch

    def load() -> Any:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)

    try:
        try:
            value = load()
        except Exception:  # no plain tensor: TRIDENT saves NumPy arrays. Or another thread's allowance, of which torch
            # has one for the whole process, ended while it was looked at
            with _ALLOWED, torch.serialization.safe_globals(_NUMPY_GLOBALS):
                value = load()
    except pickle.UnpicklingError as error:
        raise FeatureError(
            f"{path.name}: holds Python objects other than a tensor or a NumPy array, and was not opened, because "
            "a pickle can run any code. Save the features alone: torch.save(features, path)."
        ) from error
    except Exception as error:  # torch raises RuntimeError, EOFError, ValueError, ... for damaged files
        raise FeatureError(_unreadable(path, "a file of torch.save", error)) from error
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        value = as_tensor(value)
    if not isinstance(value, torch.Tensor):
        raise FeatureError(
            f"{path.name}: holds a {type(value).__name__}, expected one tensor or NumPy array of features (N, d). "
            "Save the features alone: torch.save(features, path)."
        )
    if value.layout != torch.strided:
        raise FeatureError(f"{path.name}: a tensor of layout {value.layout}, expected a dense one. Save it as dense.")
    refuse_bomb(path.name, value.untyped_storage().nbytes(), value.numel() * value.element_size())  # of stride zero
    return value.detach()


def _unreadable(path: Path, expected: str, error: Exception) -> str:
    why = summarize_error(error)
    return f"{path.name}: cannot be read as {expected} ({why}). It is truncated or of another kind: copy it again."
