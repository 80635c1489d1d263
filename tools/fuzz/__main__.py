"""Damage files, read them in a process that may die, and print what came out. Fails if anything but a clear error, the
undamaged content or a changed payload did.

python -m tools.fuzz --files 100000 --seed 1
python -m tools.fuzz --seed 1 --first 4711 --files 1     # one file again
"""

import argparse
import json
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import ROOT

GOOD = ("clear error", "equal", "changed")
BAD = ("unnoticed", "zeros", "other error", "no name", "memory", "hang", "crash")
PATIENCE = 60.0  # seconds without progress


class Table:
    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.failures: list[dict[str, Any]] = []

    def add(self, case: dict[str, Any], result: str, words: str) -> None:
        self.counts.setdefault(case["target"], Counter())[result] += 1
        if result in BAD:
            self.failures.append({**case, "result": result, "words": words})

    def lines(self) -> list[str]:
        columns = (*GOOD, *BAD)
        width = max([len(name) for name in self.counts] + [6])
        rows = [f"{'reader':{width}}  {'files':>7}  " + "  ".join(f"{name:>11}" for name in columns)]
        total: Counter[str] = sum(self.counts.values(), Counter())
        for name, found in [*self.counts.items(), ("all", total)]:
            rows.append(
                f"{name:{width}}  {sum(found.values()):7,}  " + "  ".join(f"{found[one]:11,}" for one in columns)
            )
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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--only", action="append", help="a reader; may be given several times")
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    table = run(given.files, given.seed, given.first, given.only)
    seconds = time.perf_counter() - started
    print("\n".join(table.lines()))
    done = sum(sum(found.values()) for found in table.counts.values())
    print(f"seed {given.seed}, files {given.first} to {given.first + done - 1}, {seconds:.0f} s")
    only = "".join(f" --only '{name}'" for name in given.only or ())
    for one in table.failures[:100]:
        print(f"{one['result']}: {one['target']}, {one['how']}: {one['words']}")
        print(f"    again: python -m tools.fuzz --seed {given.seed} --first {one['number']} --files 1{only}")
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
