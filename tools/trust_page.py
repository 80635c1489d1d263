"""The tables of docs/trust.md from the results of `make fuzz` and `make chaos`: `python -m tools.trust_page`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import paragraph, placed

from . import ROOT, chaos
from .fuzz import __main__ as fuzz
from .parts import Parts

PAGE, COMMAND = ROOT / "docs" / "trust.md", "tools.trust_page"


def _read(path: Path) -> Parts:
    return Parts(path, None, resume=True)


def fuzz_text() -> str:
    parts = _read(fuzz.RESULT)
    counts: dict[str, dict[str, int]] = parts.total("counts")
    rows = [_fuzz_row(name, found) for name, found in counts.items()]
    rows.append(_fuzz_row("**all**", dict(sum(map(Counter, counts.values()), Counter()))))
    header = ["what was damaged", "files", "clear error", "equal", "changed", "failures"]
    said = paragraph(f"{_about(parts, 'files', 'files')} Failures: {_failures(parts.total('failures'))}")
    return f"{_table(header, rows)}\n\n{said}"


def _fuzz_row(name: str, found: dict[str, int]) -> list[str]:
    bad = sum(found.get(kind, 0) for kind in fuzz.BAD)
    return [name, *(f"{n:,}" for n in (sum(found.values()), *(found.get(kind, 0) for kind in fuzz.GOOD), bad))]


def _failures(failures: Sequence[dict[str, Any]]) -> str:
    counts = Counter(f"{one['result']} ({one['target']})" for one in failures)
    return ", ".join(f"{n} x {what}" for what, n in counts.items()) + "." if counts else "none."


def chaos_text() -> str:
    parts = _read(chaos.RESULT)
    counts: dict[str, dict[str, int]] = parts.total("counts")
    total = dict(sum(map(Counter, counts.values()), Counter()))
    rows = [
        [name, *(f"{found.get(kind, 0):,}" for kind in chaos.COUNTS)]
        for name, found in [*((verb, counts[verb]) for verb in chaos.NAMES if verb in counts), ("**all**", total)]
    ]
    header = ["verb", "kills", "runs", "files that differ", "files lost", "leftovers", "errors"]
    return f"{_table(header, rows)}\n\n{paragraph(_about(parts, 'kills', 'kills'))}"


def _about(parts: Parts, key: str, noun: str) -> str:
    """Seed, machine, and how much was done at which commit."""
    done = [part.get(key) or sum(found[key] for found in part["counts"].values()) for part in parts.done]
    commits = [f"{n:,} {noun} at commit {part['commit'][:7]}" for n, part in zip(done, parts.done, strict=True)]
    machine = parts.done[0]["machine"]
    hours = sum(part["seconds"] for part in parts.done) / 3600
    return f"Seed {parts.seed}: {', '.join(commits)}; {hours:.1f} hours in one process on {machine['cpu']}, shared."


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(text: str) -> str:
    return placed(text, COMMAND, f"{fuzz_text()}\n\n{chaos_text()}")


def main() -> None:
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
