"""HDF5 files: their headers at once, their arrays on demand."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from ...errors import FeatureError, summarize_error
from .source import Stored

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = (".h5", ".hdf5")


@dataclass(frozen=True)
class Hdf5:
    """The top level of one file: attributes of the root, and its datasets, unread."""

    attrs: dict[str, Any]
    arrays: dict[str, Stored]


def read_header(path: Path) -> Hdf5:
    """Names, shapes, types and attributes; no data."""
    with _open(path) as file:
        arrays = {
            key: Stored(item.shape, _dtype_name(item.dtype), _reader(path, key), _clean(item.attrs))
            for key, item in file.items()
            if isinstance(item, h5py.Dataset) and item.shape is not None
        }
        return Hdf5(_clean(file.attrs), arrays)


def keys(path: Path) -> set[str]:
    """Names at the top level; nothing else is touched."""
    with _open(path) as file:
        return set(file)


def _open(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise FeatureError(
            f"{path.name}: cannot be read as HDF5 ({summarize_error(error)}). "
            "It is truncated, still being written, or not an HDF5 file: copy or extract it again."
        ) from error


def _reader(path: Path, key: str) -> Callable[[], "Tensor"]:
    def read() -> "Tensor":
        with _open(path) as file:
            try:
                array = file[key][()]  # in one call: TRIDENT's chunks are one row each
            except OSError as error:
                raise FeatureError(
                    f"{path.name}: dataset '{key}' is damaged ({summarize_error(error)}). Copy or extract it again."
                ) from error
        return _as_tensor(array)

    return read


def _as_tensor(array: np.ndarray) -> "Tensor":
    import torch

    if _dtype_name(array.dtype) == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def _dtype_name(dtype: np.dtype) -> str:
    # NumPy has no bfloat16, so h5py stores what ml_dtypes calls bfloat16 as two opaque bytes.
    return "bfloat16" if dtype.kind == "V" and dtype.itemsize == 2 else dtype.name


def _clean(attrs: h5py.AttributeManager) -> dict[str, Any]:
    """Attributes as Python values, without those that say nothing: TRIDENT writes None as the string 'None'."""
    values: dict[str, Any] = {}
    for key, value in attrs.items():
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, h5py.Empty) and not (isinstance(value, str) and value == "None"):
            values[key] = value
    return values
