"""Arrays of a Zarr store, whose chunks are looked at before they are unpacked.

Zarr reads a chunk whose file is missing as zeros, and Blosc believes the lengths that stand in a chunk: of one that was
cut off it unpacks whatever lies in memory behind it.
"""

from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FeatureError
from .guard import refuse_bomb

BLOSC, ZSTD, OTHER = "blosc", "zstd", "other"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def read_array(store: Path, array: Any, *, zeros: bool = False) -> np.ndarray:
    """Its values. zeros: chunks of zeros may be missing, as Zarr leaves them out, and the caller knows what they mean.

    array: of an open group of the store.
    """
    where = f"{store.name}: array '{array.path}'"
    if not hasattr(array, "shape"):
        raise FeatureError(f"{where} is a group. The store is damaged: copy it again.")
    shape, steps = array.shape, array.shards or array.chunks
    places = list(product(*(range(-(-extent // step)) for extent, step in zip(shape, steps, strict=True))))
    files = [store / array.path / array.metadata.encode_chunk_key(place) for place in places]
    there = [file for file in files if file.is_file()]
    if len(there) < len(files) and not zeros:
        raise FeatureError(
            f"{where}: {len(files) - len(there)} of {len(files)} chunks are missing, and would read as zeros. "
            "Copy the store again, whole."
        )
    refuse_bomb(where, sum(file.stat().st_size for file in there), prod(shape) * array.dtype.itemsize)
    kind = None if array.shards else _packing(array)
    for file in there:
        found = _declared(file, kind)
        if found is not None and found != prod(array.chunks) * array.dtype.itemsize:
            raise FeatureError(f"{where}: chunk {file.name} is damaged or cut off. Copy the store again.")
    return np.asarray(array[:])


def _packing(array: Any) -> str | None:
    """How chunks are compressed; None where their own lengths are not those of the array's."""
    if array.filters or len(array.compressors) != 1:
        return None
    name = type(array.compressors[0]).__name__.lower().removesuffix("codec")
    return name if name in (BLOSC, ZSTD) else OTHER


def _declared(file: Path, kind: str | None) -> int | None:
    """Bytes to which a chunk says that it unpacks: -1 if it cannot be, None if it does not say."""
    with open(file, "rb") as opened:
        head = opened.read(18)
    if kind == BLOSC:  # version, flags, size of a number, then three lengths: unpacked, of a block, packed
        whole = len(head) >= 16 and int.from_bytes(head[12:16], "little") == file.stat().st_size
        return int.from_bytes(head[4:8], "little") if whole else -1
    if kind == ZSTD:
        return _zstd_length(head)
    return None


def _zstd_length(head: bytes) -> int | None:
    """The length in the header of a frame (RFC 8878, 3.1.1), whose place depends on the flags in its first byte."""
    if len(head) < 6 or head[:4] != ZSTD_MAGIC:
        return -1
    flags = head[4]
    size, single, dictionary = flags >> 6, flags >> 5 & 1, (0, 1, 2, 4)[flags & 3]
    start = 5 + (1 - single) + dictionary
    if size == 0:
        return head[start] if single and len(head) > start else None
    field = head[start : start + (0, 2, 4, 8)[size]]
    return int.from_bytes(field, "little") + (256 if size == 1 else 0)
