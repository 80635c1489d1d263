"""The parts of docs/results.md on accuracy that fit in two hours on two cores: `python -m benchmarks.evidence`, or
`make evidence`.

The plan comes first, with expected times; then the parts one after the other, each of which does only what is missing
in runs/evidence; then the page. All parts from nothing take longer (the plan states the sum): a part is begun only if
it is expected to end within the budget, which `--minutes` raises. One that fails, or whose data are absent, is named,
and the others go on.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from .. import ROOT
from . import results_page
from .parts import BUDGET, PARTS, Part


def plan(parts: Sequence[Part]) -> list[Part]:
    """The parts to run. Every part is printed, with the reason if it is left out."""
    chosen = []
    for part in parts:
        if part.absent:
            print(f"  {part.name:17} left out: {part.absent} is not there")
        else:
            print(f"  {part.name:17} about {part.minutes} minutes from nothing, less where it was begun")
            chosen.append(part)
    print(f"  all of them: about {sum(part.minutes for part in chosen) / 60:.0f} hours from nothing")
    return chosen


def run(part: Part) -> bool:
    """Whether it came through; what it says goes to the terminal."""
    command = [sys.executable, "-m", *part.command]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=BUDGET, help="no part is begun that would end after this")
    options = parser.parse_args(arguments)
    print("Plan:")
    chosen = plan(PARTS)
    started, failed = time.monotonic(), []
    for number, part in enumerate(chosen, start=1):
        spent = (time.monotonic() - started) / 60
        turn = f"[{number}/{len(chosen)}, {spent:.0f} min] {part.name}"
        if spent + part.minutes > options.minutes:
            print(f"{turn}: not begun, it takes about {part.minutes} of {options.minutes:g} minutes in all", flush=True)
            continue
        print(turn, flush=True)
        if not run(part):
            failed.append(part.name)
    results_page.main([])
    if failed:
        raise SystemExit(f"Failed: {', '.join(failed)}. Run the same command again: only what is missing runs.")


if __name__ == "__main__":
    main()
