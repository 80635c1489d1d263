"""Processor, memory, disk and GPUs of this machine."""

import os
import platform
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import torch

from ..train.devices import pick_precision
from .facts import Fact

FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")  # that kernels and products use
SAMPLE, BLOCK = 128 * 2**20, 2**20  # bytes that are written and read to measure a disk


def machine_facts(folder: Path) -> list[Fact]:
    return [
        Fact("system", f"{platform.system()} {platform.release()}", platform.machine()),
        *processor_facts(),
        *memory_facts(),
        *disk_facts(folder),
        *gpu_facts(),
    ]


def processor_facts() -> list[Fact]:
    described = _read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", described, re.MULTILINE)
    listed = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", described, re.MULTILINE)
    flags = [flag for flag in FLAGS if listed and flag in listed[1].split()]
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    native = pick_precision("auto", torch.device("cpu")) == "bfloat16"
    return [
        Fact("processor", model[1] if model else platform.processor() or platform.machine(),
             f"{cores} cores, of which torch uses {torch.get_num_threads()}"),
        Fact("its instructions", ", ".join(flags) or "not known on this system",
             "bfloat16 is native" if native else "no native bfloat16: float32 is faster"),
    ]  # fmt: skip


def memory_facts() -> list[Fact]:
    known = {
        name: int(kb) * 1024 for name, kb in re.findall(r"^(\w+):\s+(\d+) kB$", _read("/proc/meminfo"), re.MULTILINE)
    }
    if "MemTotal" in known:
        total, free = known["MemTotal"], f"{known.get('MemAvailable', 0) / 1e9:.1f} GB available"
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total, free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), ""
    else:
        return [Fact("memory", "not known on this system")]
    return [Fact("memory", f"{total / 1e9:.1f} GB", free)]


def disk_facts(folder: Path) -> list[Fact]:
    place = f"at {folder.absolute()}"
    try:
        free = shutil.disk_usage(folder).free
        if free < 4 * SAMPLE:
            return [Fact("disk", f"{free / 1e9:.1f} GB free {place}", "too full to be measured")]
        written, read = disk_rates(folder)
    except OSError as error:
        return [Fact("disk", f"not measured {place}", f"no file can be written there ({error.strerror})")]
    rates = f"writes {written / 1e6:,.0f}, reads {read / 1e6:,.0f} MB per second"
    return [Fact("disk", f"{free / 1e9:,.0f} GB free {place}", rates)]


def disk_rates(folder: Path) -> tuple[float, float]:
    """Bytes per second of writing and reading one file, one block after the other, past the system's memory of files
    if the system can be asked to forget them."""
    block = os.urandom(BLOCK)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        start = time.perf_counter()
        for _ in range(SAMPLE // BLOCK):
            file.write(block)
        os.fsync(file.fileno())
        written = time.perf_counter()
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        begun = time.perf_counter()
        while file.read(BLOCK):
            pass
        return SAMPLE / (written - start), SAMPLE / (time.perf_counter() - begun)


def gpu_facts() -> list[Fact]:
    found = []
    for index in range(torch.cuda.device_count()):
        known, native = torch.cuda.get_device_properties(index), pick_precision("auto", torch.device("cuda", index))
        kind = getattr(known, "gcnArchName", "") if torch.version.hip else f"sm_{known.major}{known.minor}"
        words = (
            f"{kind}, {known.total_memory / 1e9:.1f} GB, bfloat16 {'is' if native == 'bfloat16' else 'is not'} native"
        )
        found.append(Fact(f"cuda:{index}", known.name, words))
    return found or [Fact("GPU", "none that torch sees")]


def _read(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""
