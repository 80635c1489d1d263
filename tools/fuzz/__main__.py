"""Damage files, read them in a process that may die, and print what came out. Fails if anything but a clear error, the
undamaged content or a changed payload did.

python -m tools.fuzz --files 100000 --seed 1             # writes benchmarks/results/fuzz.json
python -m tools.fuzz --files 100000 --seed 1 --resume    # what is missing of it
python -m tools.fuzz --seed 1 --first 4711 --files 1     # one file again, which writes nothing
"""

import argparse
import json
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import ROOT
from ..parts import SEED, Parts, add_options

RESULT = ROOT / "benchmarks" / "results" / "fuzz.json"
PART = 10_000  # files, after which the results are written
GOOD = ("clear error", "equal", "changed")
BAD = ("unnoticed", "zeros", "other error", "no name", "memory", "hang", "crash")
PATIENCE = 60.0  # seconds without progress


class Table:
    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.failures: list[dict[str, Any]] = []

    @property
    def files(self) -> int:
        return sum(found.total() for found in self.counts.values())

    def add(self, case: dict[str, Any], result: str, words: str) -> None:
        self.counts.setdefault(case["target"], Counter())[result] += 1
        if result in BAD:
            self.failures.append({**case, "result": result, "words": words})


def lines(counts: dict[str, dict[str, int]]) -> list[str]:
    """counts: reader -> what came out -> files."""
    columns = (*GOOD, *BAD)
    width = max([len(name) for name in counts] + [6])
    rows = [f"{'reader':{width}}  {'files':>7}  " + "  ".join(f"{name:>11}" for name in columns)]
    total: Counter[str] = sum(map(Counter, counts.values()), Counter())
    for name, found in [*counts.items(), ("all", total)]:
        cells = "  ".join(f"{found.get(one, 0):11,}" for one in columns)
        rows.append(f"{name:{width}}  {sum(found.values()):7,}  {cells}")
    return rows


def run(files: int, seed: int, first: int = 0, only: list[str] | None = None, patience: float = PATIENCE) -> Table:
    """Damage and read files; a reader that hangs is ended, one that died is started again after the file.

    Ctrl-C ends it early: the table is then of the files so far."""
    table, number, last = Table(), first, first + files
    with suppress(KeyboardInterrupt):
        while number < last:
            with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory()) as place:
                number = _follow(table, number, last, seed, only or [], Path(place), patience)
    return table


def _memory() -> str | None:
    """Where files cost no disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _follow(table: Table, first: int, last: int, seed: int, only: list[str], place: Path, patience: float) -> int:
    """One reader, until it is done or dead; the number to begin the next one with."""
    command = [sys.executable, "-m", "tools.fuzz.work", *map(str, (seed, first, 1, last)), json.dumps(only), str(place)]
    case: dict[str, Any] | None = None
    number = first
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, cwd=ROOT) as process,
    ):
        assert process.stdout is not None
        reader = selectors.DefaultSelector()
        reader.register(process.stdout, selectors.EVENT_READ)
        while True:
            wait = patience if case else 10 * patience  # between two files, samples are made
            line = process.stdout.readline() if reader.select(wait) else None
            if line is None:
                process.kill()
                _count(table, case, "hang", f"no progress in {patience:g} s")
                return number + 1
            if not line:
                break
            said = json.loads(line)
            if "number" in said:
                case, number = said, said["number"]
            elif case is not None:
                table.add(case, said["result"], said["words"])
                case, number = None, number + 1
        if process.wait() == 0:
            return last
        complaints.seek(0)
        said_last = complaints.read().decode(errors="replace")[-2000:]
        _count(table, case, "crash", f"exit {process.returncode}: {said_last}")
        return number + 1


def _count(table: Table, case: dict[str, Any] | None, result: str, words: str) -> None:
    if case is None:
        raise RuntimeError(f"the reader ended between two files: {words}")
    table.add(case, result, words)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--first", type=int, help="number of the first file; the results are not written")
    parser.add_argument("--only", action="append", help="a reader, also several; the results are not written")
    add_options(parser, RESULT)
    given = parser.parse_args(arguments)
    if given.first is not None or given.only:
        started = time.perf_counter()
        seed = given.seed or SEED
        table = run(given.files, seed, given.first or 0, given.only)
        return _tell(_part(table, started), seed, given.only)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was done until then is written
    parts = Parts(given.out, given.seed, given.resume)
    while (done := parts.total("files") or 0) < given.files:
        started, count = time.perf_counter(), min(PART, given.files - done)
        table = run(count, parts.seed, done)
        parts.add(_part(table, started))
        print(
            f"{done + table.files:,} files, {len(table.failures)} failures among the last {table.files:,}", flush=True
        )
        if table.files < count:  # Ctrl-C
            break
    return _tell({key: parts.total(key) for key in ("files", "seconds", "counts", "failures")}, parts.seed, None)


def _part(table: Table, started: float) -> dict[str, Any]:
    seconds = round(time.perf_counter() - started, 1)
    counts = {name: dict(found) for name, found in table.counts.items()}
    return {"files": table.files, "seconds": seconds, "counts": counts, "failures": table.failures}


def _tell(found: dict[str, Any], seed: int, only: list[str] | None) -> int:
    print("\n".join(lines(found["counts"])))
    print(f"seed {seed}, {found['files']:,} files, {found['seconds']:.0f} s")
    names = "".join(f" --only '{name}'" for name in only or ())
    for one in found["failures"][:100]:
        print(f"{one['result']}: {one['target']}, {one['how']}: {one['words']}")
        print(f"    again: python -m tools.fuzz --seed {seed} --first {one['number']} --files 1{names}")
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
