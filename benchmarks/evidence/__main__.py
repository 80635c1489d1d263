"""All of docs/results.md that fits in two hours on two cores: `python -m benchmarks.evidence`, or `make evidence`.

The plan comes first, with expected times; then the parts one after the other, each of which does only what is missing
in runs/evidence; then the page. A part is begun only if it is expected to end within the budget; one that fails, or
whose data are absent, is named, and the others go on.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .. import ROOT
from . import results_page


@dataclass(frozen=True)
class Part:
    """A command that ends in one file of results. minutes: from nothing, on two cores. data: what it has to find."""

    name: str
    arguments: tuple[str, ...]
    minutes: int
    data: str = "benchmarks"

    @property
    def absent(self) -> str:
        """What is not there, or nothing."""
        script = f"benchmarks/evidence/{self.name}.py"
        if not (ROOT / script).is_file():
            return script
        return "" if (ROOT / self.data).exists() else self.data


PARTS = (
    Part("unseen", ("--processes", "2"), 8),
    Part("jigsaw_cases", ("--processes", "2"), 25),
    Part("learning_curve", ("--processes", "2"), 12),
    Part("presets", ("--processes", "2"), 10),
    Part("small_cohorts", ("--processes", "2"), 55),
    Part("selection_bias", (), 20),
    Part("choosing", (), 10),
    Part("crc_codex", (), 20, data="../shared/data/crc_codex"),
    Part("lung", (), 30, data="../shared/data/lung_mif"),
    Part("rivals", ("--processes", "2"), 50),
)


def plan(parts: Sequence[Part]) -> list[Part]:
    """The parts to run. Every part is printed, with the reason if it is left out."""
    chosen = []
    for part in parts:
        if part.absent:
            print(f"  {part.name:16} left out: {part.absent} is not there")
        else:
            print(f"  {part.name:16} about {part.minutes} minutes from nothing, less where it was begun")
            chosen.append(part)
    return chosen


def run(part: Part) -> bool:
    """Whether it came through; what it says goes to the terminal."""
    command = [sys.executable, "-m", f"benchmarks.evidence.{part.name}", *part.arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=120, help="no part is begun that would end after this")
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
