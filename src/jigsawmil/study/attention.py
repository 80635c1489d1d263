"""The attention that a job keeps: weights of each slide under its id, and under `id/coords` where its patches lie."""

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..errors import StudyError
from ..files import check_readable

CHECKSUMS = "checksums"  # in the header; files of older versions have none


def write_attention(path: Path, arrays: Mapping[str, NDArray]) -> None:
    sums = json.dumps({name: _sum(own) for name, own in arrays.items()})
    path.write_bytes(save(dict(arrays), {CHECKSUMS: sums}))


def read_attention(path: Path, names: Sequence[str]) -> tuple[str, NDArray, NDArray] | None:
    """Slide, coordinates and weights of the first of these slides that is there; None if none is, or no such file.

    A file that is damaged, or may not be read, is an error."""
    if not path.is_file():
        return None
    check_readable(path)
    try:
        with safe_open(path, framework="numpy") as held:
            keys = set(held.keys())
            name = next((name for name in names if name in keys and f"{name}/coords" in keys), None)
            if name is None:
                return None
            sums = json.loads((held.metadata() or {}).get(CHECKSUMS, "{}"))
            found = {key: held.get_tensor(key) for key in (name, f"{name}/coords")}
        if sums and any(sums.get(key) != _sum(own) for key, own in found.items()):
            raise ValueError("other values than were written, by their checksum")
    except (OSError, ValueError, TypeError, AttributeError, SafetensorError) as error:
        raise StudyError(f"{path}: damaged ({error}). Remove the folder of that job and run again.") from error
    return name, found[f"{name}/coords"], found[name]


def _sum(values: NDArray) -> int:
    return zlib.crc32(np.ascontiguousarray(values).data)
