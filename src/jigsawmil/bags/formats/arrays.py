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


def stored_items(path: Path) -> dict[str, Stored]:
    """The arrays of numbers in an `.npz`, or in a dictionary in a `.pt`, by their names; none in other files."""
    if path.suffix == ".npz":
        try:
            _refuse_zip_bomb(path)
            with np.load(path, allow_pickle=False) as archive:
                found: dict[str, Any] = {key: archive[key] for key in archive.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise FeatureError(_unreadable(path, "a NumPy archive", error)) from error
    elif path.suffix == ".pt":
        if packed := zipfile.is_zipfile(path):
            _refuse_zip_bomb(path)
        found = _unpickled(path, mmap=packed)
    else:
        found = {}
    if not isinstance(found, dict):
        return {}
    return {str(key): _item(path, str(key), array) for key, array in found.items() if hasattr(array, "dtype")}


def _item(path: Path, key: str, array: Any) -> Stored:
    def read() -> "Tensor":  # those of a .pt lie on disk until now
        return as_tensor(array) if isinstance(array, np.ndarray) else array.clone()

    if not isinstance(array, np.ndarray):
        array = _dense(path, array)
    return Stored(tuple(array.shape), str(array.dtype).removeprefix("torch."), read)


def as_tensor(array: np.ndarray) -> "Tensor":
    import torch

    return torch.from_numpy(array)


def _load_npy(path: Path, mmap_mode: Any) -> np.ndarray:
    try:
        return np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FeatureError(_unreadable(path, "a NumPy array of numbers", error)) from error


def _unpickled(path: Path, *, mmap: bool) -> Any:
    """What a file of `torch.save` holds: tensors, arrays, numbers, text, and lists and dictionaries of them."""
    import torch

    def load() -> Any:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)

    try:
        try:
            return load()
        except Exception:  # no plain tensor: TRIDENT saves NumPy arrays. Or another thread's allowance, of which torch
            # has one for the whole process, ended while it was looked at
            with _ALLOWED, torch.serialization.safe_globals(_NUMPY_GLOBALS):
                return load()
    except pickle.UnpicklingError as error:
        raise FeatureError(
            f"{path.name}: holds Python objects other than a tensor or a NumPy array, and was not opened, because "
            "a pickle can run any code. Save the features alone: torch.save(features, path)."
        ) from error
    except Exception as error:  # torch raises RuntimeError, EOFError, ValueError, ... for damaged files
        raise FeatureError(_unreadable(path, "a file of torch.save", error)) from error


def _load_pt(path: Path, *, mmap: bool) -> "Tensor":
    import torch

    value = _unpickled(path, mmap=mmap)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        value = as_tensor(value)
    if not isinstance(value, torch.Tensor):
        raise FeatureError(
            f"{path.name}: holds a {type(value).__name__}, expected one tensor or NumPy array of features (N, d). "
            "Save the features alone: torch.save(features, path)."
        )
    return _dense(path, value)


def _dense(path: Path, value: "Tensor") -> "Tensor":
    import torch

    if value.layout != torch.strided:
        raise FeatureError(f"{path.name}: a tensor of layout {value.layout}, expected a dense one. Save it as dense.")
    refuse_bomb(path.name, value.untyped_storage().nbytes(), value.numel() * value.element_size())  # of stride zero
    return value.detach()


def _unreadable(path: Path, expected: str, error: Exception) -> str:
    why = summarize_error(error)
    return f"{path.name}: cannot be read as {expected} ({why}). It is truncated or of another kind: copy it again."
