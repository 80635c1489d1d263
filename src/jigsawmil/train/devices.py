"""Which device runs a model, and in which precision."""

import torch

from ..errors import ConfigError
from .config import AUTO


def pick_device(name: str) -> torch.device:
    """The device that a name means on this machine; one that is not there is refused."""
    device, found = read_device(name), torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= found:
        raise ConfigError(f"device: {name!r}, but torch sees {found} CUDA devices here. Use auto or cpu.")
    return device


def read_device(name: str) -> torch.device:
    """The same for jobs that run on another machine: only a name that no machine knows is refused."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device: found {name!r}, expected auto, cpu, cuda or cuda:1.") from error


def use_threads(threads: int | None) -> None:
    """Compute with so many CPU threads from now on; None: as torch has it, one per core or OMP_NUM_THREADS."""
    if threads is not None:
        torch.set_num_threads(threads)


def autocast(device: torch.device, precision: str) -> torch.autocast:
    precision = pick_precision(precision, device)
    return torch.autocast(device.type, getattr(torch, precision), enabled=precision != "float32")


def pick_precision(name: str, device: torch.device) -> str:
    """The precision that a name means on a device: `auto` is bfloat16 if the device computes in it natively."""
    if name != AUTO:
        return name
    return "bfloat16" if _native_bfloat16(device) else "float32"


def _native_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":  # ROCm, too
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":  # by name: these functions of torch are not public
        return any(getattr(torch.cpu, f"_is_{flag}_supported", bool)() for flag in ("avx512_bf16", "amx_tile"))
    return False
