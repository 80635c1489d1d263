"""The process in which HDF5 files are opened first. libhdf5 may loop for ever, ask for any amount of memory or crash on
a damaged file; here that costs nothing but this process, whose time and memory are limited.

It answers questions, one JSON line each: `{"do": "header", "path": ...}` -> `{"value": ...}` or `{"error": ...}`.
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import h5py
import numpy as np

from ...errors import summarize_error

SECONDS = 10  # of processor time, to answer a question
MEMORY = 2 << 30  # bytes of address space beyond those of a process that has just begun
DEPTH = 4  # of groups in groups; AnnData has uns/spatial/SLIDE/scalefactors
BLOCK = 1 << 26  # bytes of compressed data that are unpacked at a time


def names(path: str) -> list[str]:
    """Names at the top level; nothing else is touched."""
    with h5py.File(path, "r") as file:
        return list(file)


def header(path: str, deep: bool = False) -> dict[str, Any]:
    """Names, shapes, types and attributes; no data. deep: also in groups, by their path, and the value of scalars."""
    with h5py.File(path, "r") as file:
        arrays: dict[str, Any] = {}
        _look_into(file, "", arrays, DEPTH if deep else 0)
        return {"attrs": attributes(file), "arrays": arrays, "names": list(file)}


def _look_into(group: h5py.Group, prefix: str, arrays: dict[str, Any], depth: int) -> None:
    for key in group:
        link = group.get(key, getlink=True)
        if isinstance(link, h5py.HardLink):
            item = group[key]  # raises if it is damaged; `items()` would say it is not there
        elif isinstance(link, h5py.SoftLink):
            item = group.get(key)
        else:
            continue
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            arrays[prefix + key] = _describe(item)
            if prefix and item.shape == ():
                value = item[()]
                value = value.decode(errors="replace") if isinstance(value, bytes) else value
                arrays[prefix + key]["attrs"]["value"] = value.tolist() if isinstance(value, np.generic) else value
        elif isinstance(item, h5py.Group) and depth:
            _look_into(item, f"{prefix}{key}/", arrays, depth - 1)


def unpack(path: str, key: str) -> None:
    """Unpack a compressed dataset, as a reader would: it may now do so."""
    with h5py.File(path, "r") as file:
        dataset = file[key]
        row = max(1, dataset.nbytes // len(dataset))
        step = max(BLOCK // row // dataset.chunks[0], 1) * dataset.chunks[0]
        for start in range(0, len(dataset), step):
            dataset[start : start + step]


def _describe(dataset: h5py.Dataset) -> dict[str, Any]:
    plist = dataset.id.get_create_plist()
    packed = bool(plist.get_nfilters())
    stored = dataset.id.get_storage_size()  # goes through the index of chunks: a reader can now
    nbytes = dataset.size * dataset.id.get_type().get_size()  # as stored
    fault = None  # why there is nothing to read, though the file says how much there should be: libhdf5 gives zeros
    if dataset.is_virtual or plist.get_external_count():
        fault = "is stored in another file, which is not opened"
    elif stored < (1 if packed else nbytes):
        fault = f"was declared, and never written or only in part ({stored:,} of {nbytes:,} bytes)"
    return {
        "shape": dataset.shape,
        "dtype": dtype_name(dataset.dtype),
        "attrs": attributes(dataset),
        "fault": fault,
        "packed": stored if packed and nbytes else None,
        "nbytes": nbytes,
    }


def dtype_name(dtype: np.dtype) -> str:
    # NumPy has no bfloat16, so h5py stores what ml_dtypes calls bfloat16 as two opaque bytes.
    return "bfloat16" if dtype.kind == "V" and dtype.itemsize == 2 else dtype.name


def attributes(item: h5py.File | h5py.Dataset) -> dict[str, Any]:
    """Attributes as JSON has them, without those that say nothing: TRIDENT writes None as the string 'None'."""
    values: dict[str, Any] = {}
    for key, value in item.attrs.items():
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif isinstance(value, np.generic | np.ndarray):
            value = value.tolist()
        if not isinstance(value, h5py.Empty) and not (isinstance(value, str) and value == "None"):
            values[key] = value
    return values


def limit_memory() -> None:
    with suppress(ImportError, OSError, ValueError):  # Windows has no limits, macOS not this one
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


def limit_time(seconds: int) -> None:
    """The system ends the process when it has used so much more of the processor, whatever it does."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        spent = resource.getrusage(resource.RUSAGE_SELF)
        until = int(spent.ru_utime + spent.ru_stime) + 1 + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))


DO: dict[str, Callable[..., Any]] = {"names": names, "header": header, "unpack": unpack}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": DO[question.pop("do")](**question)}
    except MemoryError:
        return {"error": "it needs too much memory"}
    except Exception as error:  # h5py raises OSError, RuntimeError, KeyError, ValueError, TypeError, ...
        return {"error": summarize_error(error), "forbidden": isinstance(error, PermissionError)}


def serve(seconds: int) -> None:
    """Answer until nobody asks any more."""
    limit_memory()
    for line in sys.stdin:
        limit_time(seconds)
        print(json.dumps(answer(json.loads(line)), default=str), flush=True)
