"""Kill verbs at random moments, run them again until they end, and compare every byte with an undisturbed run.

python -m tools.chaos --kills 500 --seed 1             # writes benchmarks/results/chaos.json
python -m tools.chaos --kills 500 --seed 1 --resume    # what is missing of it
python -m tools.chaos --kills 20 --only train          # one verb, which writes nothing

A verb runs in a fork of this process, which has imported everything: a kill costs no second import. Trainings are saved
all the time instead of every 30 s, or there would be nothing to resume. Times and memory are no results and set aside.
"""

import argparse
import importlib
import json
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import jigsawmil

from . import ROOT
from .parts import SEED, Parts, add_options

RESULT = ROOT / "benchmarks" / "results" / "chaos.json"
PART = 10  # kills of a verb, after which the results are written and the next verb has its turn
COUNTS = ("kills", "runs", "differ", "lost", "leftovers", "errors")
BAD = ("differ", "lost", "errors")
CLOCK = {"seconds", "peak_mb", "python_seconds"}  # keys and columns that tell of the run, not of its result
PATIENCE = 600.0  # seconds that a verb may take


@dataclass(frozen=True)
class Verb:
    name: str
    arguments: Sequence[str]  # without --out


NAMES = ("study", "train", "extract", "export")


def verb(name: str, place: Path) -> Verb:
    """One of those that write most, on inputs of some kilobytes, which are made when they are first asked for."""
    if name == "extract":
        return Verb(name, ["extract", str(_slides(place)), "--encoder", str(_encoder(place)), "--quiet"])
    cohort, run = place / "cohort", place / "run"
    if not cohort.exists():
        _once(["phantom", "arrangement", "--slides", "12", "--patches", "40", "--dim", "16", "--out", str(cohort)])
    data = ["--labels", str(cohort / "labels.csv"), "--features", str(cohort / "features")]
    small = ["--epochs", "6", "--patience", "0", "--k", "4", "--set", "hidden=8", "--quiet"]
    compare = ["compare", *data, "--methods", "graph-abmil,graph-abmil+jigsaw", "--folds", "2", *small, "--attention"]
    if name == "export" and not run.exists():
        _once([*compare, "--out", str(run)])
    return {
        "study": Verb("study", compare),
        "train": Verb("train", ["train", *data, "--method", "graph-abmil+jigsaw", "--members", "2", *small]),
        "export": Verb("export", ["export", str(run), "--quiet"]),
    }[name]


def _slides(place: Path) -> Path:
    if not (place / "slides").exists():
        _once(["paint", "--slides", "3", "--patches", "20", "--out", str(place / "slides")])
    return place / "slides" / "slides"


def _encoder(place: Path) -> Path:
    import torch

    path = place / "colour.pt"

    class Colour(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x.mean(dim=[2, 3]), x.std(dim=[2, 3])], dim=1)

    torch.jit.script(Colour()).save(str(path))
    return path


def _import_all() -> None:
    for module in pkgutil.walk_packages(jigsawmil.__path__, "jigsawmil."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # of an optional package
                importlib.import_module(module.name)


def start(arguments: Sequence[str], log: Path) -> int:
    """The process id of a fork that runs the command line."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        with open(log, "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        from jigsawmil.cli import main
        from jigsawmil.train import fit

        fit.SAVE_SECONDS = 0.0
        sys.argv = ["jigsawmil", *arguments]
        code = main() or 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait(pid: int, seconds: float) -> int | None:
    """Its exit code; None if it is still at work."""
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= until:
            return None
        time.sleep(0.002)


def kill(pid: int) -> None:
    """The process and all that it started."""
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _once(arguments: Sequence[str]) -> float:
    """Run a verb undisturbed; the seconds that it took."""
    started = time.monotonic()
    with tempfile.NamedTemporaryFile() as log:
        code = wait(start(arguments, Path(log.name)), PATIENCE)
        if code != 0:
            raise RuntimeError(f"{' '.join(arguments)}: exit {code}: {log.read().decode(errors='replace')[-2000:]}")
    return time.monotonic() - started


def content(folder: Path, at: Path) -> dict[str, bytes]:
    """Every file by its name, without what tells of clocks and of the folder's own place. Locks are no content."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path.relative_to(folder)): _plain(path).replace(str(at).encode(), b"OUT") for path in files}


def _plain(path: Path) -> bytes:
    if path.suffix == ".json":
        return json.dumps(_timeless(json.loads(path.read_text())), sort_keys=True).encode()
    if path.suffix == ".csv" and path.stat().st_size > 1:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        return table.drop(columns=[name for name in table if name in CLOCK]).to_csv(index=False).encode()
    return path.read_bytes()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in CLOCK}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def torment(verb: Verb, kills: int, rng: np.random.Generator, place: Path, say: Callable[[str], None]) -> Counter[str]:
    """Kill a verb so many times, in as many runs as that takes; what happened, counted."""
    out, whole, log = place / "out", place / "whole", place / "log"
    took = _once([*verb.arguments, "--out", str(out)])
    expected = content(out, out)
    os.replace(out, whole)
    found: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
    while found["kills"] < kills:
        fresh, began = True, time.monotonic()
        while True:
            pid = start([*verb.arguments, "--out", str(out)], log)
            code = wait(pid, rng.uniform(0, 1.05 * took) if found["kills"] < kills else PATIENCE)
            if code is not None:
                break
            kill(pid)
            found["kills"] += 1
            fresh = False
        if fresh:  # the first took longer than this one, and the machine may be busier or idler by now
            took = time.monotonic() - began
        words = log.read_text(errors="replace")
        if code != 0:
            found["errors"] += 1
            say(f"{verb.name}: exit {code} after {found['kills']} kills: {words[-1500:]}")
        given = content(out, out)
        left = [name for name in given if ".partial" in name or ".state" in name]
        lost = sorted(expected.keys() - given.keys())
        differ = sorted(name for name in expected.keys() & given.keys() if given[name] != expected[name])
        found["runs"] += 1
        for kind, names in (("differ", differ), ("lost", lost), ("leftovers", left)):
            found[kind] += len(names)
            if names:
                say(f"{verb.name}: {kind} after {found['kills']} kills: {', '.join(names[:5])}")
        shutil.rmtree(out)
    shutil.rmtree(whole)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--only", action="append", choices=NAMES, help="a verb, also several; results are not written")
    add_options(parser, RESULT)
    given = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # OpenMP does not survive a fork
    import torch

    torch.set_num_threads(1)
    _import_all()
    parts = None if given.only else Parts(given.out, given.seed, given.resume)
    seed = parts.seed if parts else given.seed or SEED
    found = _all(given.only or NAMES, given.kills, seed, parts)
    print("\n".join(lines(found)))
    print(f"seed {seed}")
    return 1 if any(counts[name] for counts in found.values() for name in BAD) else 0


def _all(names: Sequence[str], kills: int, seed: int, parts: Parts | None) -> dict[str, dict[str, int]]:
    """Kill the verbs in turns until each has had its share; what happened to each, with what was before."""
    found: dict[str, Counter[str]] = {name: Counter() for name in names}
    for name, counts in ((parts.total("counts") if parts else None) or {}).items():
        found[name].update(counts)
    share = {name: kills // len(names) + (number < kills % len(names)) for number, name in enumerate(names)}
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        while left := [name for name in names if found[name]["kills"] < share[name]]:
            name = min(left, key=lambda name: found[name]["kills"])
            before, started, said = found[name]["kills"], time.monotonic(), []
            rng = np.random.default_rng([seed, NAMES.index(name), before])
            new = torment(verb(name, Path(place)), min(PART, share[name] - before), rng, Path(place), said.append)
            found[name].update(new)
            seconds = round(time.monotonic() - started, 1)
            print("\n".join([f"{name}: {found[name]['kills']} kills, {seconds:.0f} s", *said]), flush=True)
            if parts:
                parts.add({"seconds": seconds, "counts": {name: dict(new)}, "said": said})
    return {name: dict(counts) for name, counts in found.items()}


def lines(found: dict[str, dict[str, int]]) -> list[str]:
    header = f"{'verb':8}" + "".join(f"{name:>11}" for name in COUNTS)
    return [header, *(f"{name:8}" + "".join(f"{counts[one]:11,}" for one in COUNTS) for name, counts in found.items())]


if __name__ == "__main__":
    sys.exit(main())
