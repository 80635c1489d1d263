"""Benchmarks of speed/ and of accuracy (evidence/): see README.md.

Here: what every benchmark writes down."""

import datetime
import importlib.metadata
import os
import platform
import string
import subprocess
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("jigsawmil", "torch", "numpy", "scipy", "numba", "torchmil", "torch_geometric")


LOST = " of a history that was rebased since"


def _git(*args: str) -> str | None:
    """What git says of the repository; None if it says nothing."""
    try:
        run = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.strip()


@cache
def history() -> tuple[str, ...] | None:
    """All commits up to the present one; None if they are not all here: no repository, or a shallow clone."""
    if _git("rev-parse", "--is-shallow-repository") != "false":
        return None
    return tuple((_git("rev-list", "HEAD") or "").split())


def named(commit: str, digits: int = 10) -> str:
    """A commit in a text. Says so if the history does not have it, where that can be known."""
    own, known = commit[:digits], history()
    looked_up = known is not None and set(own) <= set(string.hexdigits)
    return own if not looked_up or any(one.startswith(own) for one in known or ()) else own + LOST


def provenance() -> dict[str, Any]:
    """Commit, machine and versions that the figures belong to."""
    changes = _git("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
    models = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if changes is None else bool(changes),
        "machine": {
            "cpu": models[0] if models else platform.processor(),
            "cores": os.cpu_count(),
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "system": f"{platform.system()} {platform.machine()}",
            "load": os.getloadavg()[0],  # before the first step; well above 0 means that others were at work
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def _lines(path: str) -> list[str]:
    """Of a file that only Linux has."""
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def free_memory() -> float:
    """Bytes that can be taken without swapping; unlimited where the system does not say."""
    lines = [line for line in _lines("/proc/meminfo") if line.startswith("MemAvailable")]
    return float(lines[0].split()[1]) * 1024 if lines else float("inf")


def paragraph(*sentences: str) -> str:
    """As wide as the pages are written."""
    return textwrap.fill(" ".join(sentences), 130)


def where(found: dict[str, Any]) -> str:
    """The machine and the commit that figures belong to, in a few words."""
    machine = found["machine"]
    load, commit = f"load {machine['load']:.1f} before", f"commit {named(found['commit'], 7)}"
    return f"{machine['cpu']}, {machine['cores']} cores, {load}, {commit}"


def placed(page: str, command: str, text: str) -> str:
    """A page with `text` between two marks, the first of which names the command that writes it."""
    begin, end = f"<!-- written by `python -m {command}` -->", f"<!-- /{command} -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text + "\n")
    os.replace(unfinished, path)
