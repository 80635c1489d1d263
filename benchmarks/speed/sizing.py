"""How large must the cluster be? Storage, hours and what drives the cost, from rates that were measured.

    .venv/bin/python -m benchmarks.speed.sizing              # prints the table of docs/cluster.md
    .venv/bin/python -m benchmarks.speed.sizing --write      # and puts it there

Rates: a slide of 3,278 patches in the training loop (results/loop.json), tiles read and encoded a second
(results/extract.json). Sizes follow from the file formats. Nothing is measured here.
"""

import argparse
import json
from typing import Any

from .. import RESULTS, ROOT, placed, write

PATCHES, DIM, EPOCHS, FOLDS = 3278, 1024, 30, 5
COHORTS = (1_000, 10_000, 100_000)
PAGE = ROOT / "docs" / "cluster.md"
COMMAND = "benchmarks.speed.sizing --write"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/cluster.md")
    text = table()
    print(text)
    if parser.parse_args().write:
        write(PAGE, placed(PAGE.read_text(), COMMAND, text).rstrip("\n"))


def table() -> str:
    loop = _read("loop.json")
    rows = {row["method"]: row["loop_ms"] / 1000 for row in loop["rows"]}
    cores = loop["machine"]["cores"]
    job = sum(rows.values()) / len(rows)  # seconds a slide and epoch, the mean of the five methods
    tiles = _rate()
    lines = [
        "| slides | " + " | ".join(f"{count:,}" for count in COHORTS) + " |",
        "| --- |" + " --- |" * len(COHORTS),
    ]

    def row(name: str, values: list[str]) -> None:
        lines.append(f"| {name} | " + " | ".join(values) + " |")

    row("features on disk, float16", [_bytes(n * PATCHES * (2 * DIM + 16)) for n in COHORTS])
    row("features on disk, float32", [_bytes(n * PATCHES * (4 * DIM + 16)) for n in COHORTS])
    if tiles is not None:
        hours = [_hours(n * PATCHES / tiles["rate"]) for n in COHORTS]
        row(f"extraction, {tiles['encoder']}, {tiles['threads']} cores", hours)
    share = (FOLDS - 1) / FOLDS
    one = [n * share * EPOCHS * rows["graph-abmil+jigsaw"] for n in COHORTS]
    row(f"one training of graph-abmil+jigsaw, {EPOCHS} epochs, {cores} cores", [_hours(s) for s in one])
    five = [n * share * EPOCHS * job * FOLDS * len(rows) for n in COHORTS]
    row(f"study: five methods x {FOLDS} folds, one machine of {cores} cores", [_hours(s) for s in five])
    jobs = FOLDS * len(rows)
    row(f"the same on {jobs} such machines, one job each (`--cpus {cores}`)", [_hours(s / jobs) for s in five])
    row("predictions and models kept", [_bytes(jobs * (n / FOLDS * 60 + 2.3e6)) for n in COHORTS])
    where = f"{loop['machine']['cpu']}, {cores} cores, commit {loop['commit'][:7]}"
    graph = rows["graph-abmil+jigsaw"]
    lines += [
        "",
        f"A slide has {PATCHES:,} patches of {DIM} columns. Training: {graph * 1000:.0f} ms per slide and epoch for "
        f"graph-abmil+jigsaw, {job * 1000:.0f} ms on average over the five methods ({where}).",
    ]
    if tiles is None:
        lines.append("The rate of extraction has not been measured yet.")
    else:
        ratio = PATCHES / tiles["rate"] / (EPOCHS * graph)
        lines.append(
            f"Extraction: {tiles['rate']:.0f} tiles per second ({tiles['encoder']}, {tiles['threads']} cores), which "
            f"is {ratio:.0f} times the training of one model; a foundation model is slower by the ratio "
            "of its operations."
        )
    return "\n".join(lines)


def _rate() -> dict[str, Any] | None:
    path = RESULTS / "extract.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    most = max(found["speed"], key=lambda row: row["threads"])
    return {"rate": most["tiles_per_second"], "encoder": found["encoder"], "threads": most["threads"]}


def _read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text())


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _hours(seconds: float) -> str:
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 72 * 3600 else f"{seconds / 86400:.0f} days"


if __name__ == "__main__":
    main()
