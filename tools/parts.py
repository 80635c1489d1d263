"""A long run in parts that one file keeps: `--resume` continues a run that was cut. Each part names its commit."""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks import provenance, write

SEED = 1


def add_options(parser: argparse.ArgumentParser, result: Path) -> None:
    parser.add_argument("--seed", type=int, help="default: 1, or that of the run to resume")
    parser.add_argument("--out", type=Path, default=result, help="the file of results; written after each part")
    parser.add_argument("--resume", action="store_true", help="add to the parts in that file, which have the same seed")


class Parts:
    """The parts so far, those of a file included if a run is resumed."""

    def __init__(self, path: Path, seed: int | None, resume: bool) -> None:
        self.path, self.seed = path, seed or SEED
        self.done: list[dict[str, Any]] = []
        if resume and path.exists():
            found = json.loads(path.read_text())
            self.seed = found["seed"]
            if seed not in (None, self.seed):
                raise SystemExit(f"{path}: holds seed {found['seed']}, found --seed {seed}. Give its seed to resume.")
            self.done = found["parts"]

    def add(self, part: dict[str, Any]) -> None:
        """Write one more; if it comes from the commit of the last, into that one."""
        about = provenance()
        last = self.done[-1] if self.done else {}
        if all(last.get(key) == about[key] for key in ("commit", "dirty")):
            about = {key: last[key] for key in about}
            part = {key: joined(last[key], value) for key, value in part.items()}
            self.done.pop()
        self.done.append({**part, **about})
        write(self.path, json.dumps({"seed": self.seed, "parts": self.done}, indent=1))

    def total(self, key: str) -> Any:
        """Of all parts; None of none."""
        values = [part[key] for part in self.done]
        whole = values[0] if values else None
        for value in values[1:]:
            whole = joined(whole, value)
        return whole


def joined(one: Any, other: Any) -> Any:
    """Numbers added, lists behind each other, tables key by key."""
    if isinstance(one, dict):
        both = one.keys() & other.keys()
        return {**one, **other, **{key: joined(one[key], other[key]) for key in both}}
    return one + other
