"""May a GPU's own kernels be used? They are checked there before their first use, and the verdict is kept on disk.

A verdict holds for one kind of device, the versions of torch, Triton and jigsawmil, and these very kernels.
"""

import hashlib
import json
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ..errors import summarize_error
from ..files import cache_folder, write_json
from ..version import __version__
from .backends import TORCH, Backend, triton_backend
from .verify import check_backend

SOURCES = ("triton_kernels.py", "triton_sums.py")


def trusted_backend(device: torch.device) -> Backend:
    """Triton's kernels if they are right on this GPU; else torch's operations, with a warning."""
    backend = triton_backend()
    if backend is None:
        return TORCH
    faults = kept_faults(device)
    if faults is None:
        faults = find_faults(backend, device)
        keep_faults(device, faults)
    if faults:
        warnings.warn(
            f"The Triton kernels are not right on {identity(device)['device']} ({faults[0]}): torch's own operations "
            "are used in their place, which are slower. Run `jigsawmil doctor` and report what it prints.",
            RuntimeWarning,
            stacklevel=2,
        )
    return TORCH if faults else backend


def find_faults(backend: Backend, device: torch.device) -> list[str]:
    """What is wrong with a backend on a device, in words; empty if nothing is."""
    try:
        return [str(finding) for finding in check_backend(backend, device) if not finding.right]
    except torch.OutOfMemoryError:  # another program's doing, and no fault
        raise
    except Exception as error:  # of a compiler, a driver or the device: Triton has no class of its own for them
        return [summarize_error(error)]


def kept_faults(device: torch.device) -> list[str] | None:
    """The faults that an earlier process found; None if none has looked."""
    with suppress(OSError, ValueError):
        kept = json.loads(_file(device).read_text(encoding="utf-8"))
        if isinstance(kept, dict) and isinstance(kept.get("faults"), list):
            return [str(fault) for fault in kept["faults"]]
    return None


def keep_faults(device: torch.device, faults: list[str]) -> None:
    with suppress(OSError):  # without a place to keep it, each process looks again
        file = _file(device)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {**identity(device), "faults": faults})


def identity(device: torch.device) -> dict[str, Any]:
    """What a verdict holds for."""
    import triton

    sources = b"".join(Path(__file__).with_name(name).read_bytes() for name in SOURCES)
    return {
        "device": torch.cuda.get_device_name(device),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "jigsawmil": __version__,
        "kernels": hashlib.sha256(sources).hexdigest()[:12],
    }


def _file(device: torch.device) -> Path:
    key = hashlib.sha256(json.dumps(identity(device)).encode()).hexdigest()[:12]
    return cache_folder() / f"gpu-{key}.json"
