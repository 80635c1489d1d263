"""Blocks of code in the documents, and the marks before them; `python -m tools.pages` runs the tutorials.

Every fenced block names its language, and tests run it as it stands, in order, page by page. A comment before a block
says what is different about it:

    <!-- not run: needs a GPU -->           nothing of it runs; the options of its commands are checked
    <!-- parsed only: takes an hour -->     the same, of a block that holds commands of jigsawmil alone
    <!-- file: my_models.py -->             the block is a file that later blocks use

Tests run all pages on less. `make tutorials` runs the tutorials as their reader does, each in an empty folder.
"""

import argparse
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import ROOT

DOCUMENTS = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "studies/README.md")),
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
)
TUTORIALS = tuple(path for path in DOCUMENTS if path.name.startswith("tutorial-"))
CODE = ("bash", "python")  # languages that run
DATA = ("toml", "yaml", "json")  # languages that are read
TEXT = ("text", "bibtex")  # nothing to run
FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")
MARK = re.compile(r"<!-- (not run|parsed only|file): (\S.*?) -->")


@dataclass(frozen=True, kw_only=True)
class Block:
    """line: of its first line of code, from 1. mark: the word before the colon of the comment, or nothing."""

    line: int
    language: str
    code: str
    mark: str = ""
    reason: str = ""

    @property
    def runs(self) -> bool:
        return self.language in CODE and not self.mark


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page in order; one that is indented, or that names no language, has none."""
    lines = text.splitlines()
    number, before = 0, ""
    while number < len(lines):
        line = lines[number]
        fence, start = FENCE.fullmatch(line), number
        if fence:
            number += 1
            while number < len(lines) and lines[number].strip() != fence[2]:
                number += 1
            mark, reason = found.groups() if (found := MARK.fullmatch(before.strip())) else ("", "")
            code = "\n".join(one[len(fence[1]) :] for one in lines[start + 1 : number])
            yield Block(line=start + 2, language=fence[3].strip(), code=code, mark=mark, reason=reason)
            before = ""
        elif line.startswith("    ") and (not number or not lines[number - 1].strip()):
            while number + 1 < len(lines) and lines[number + 1].startswith("    "):
                number += 1
            yield Block(line=start + 1, language="", code="\n".join(lines[start : number + 1]))
            before = ""
        elif line.strip():
            before = line
        number += 1


def commands(code: str) -> Iterator[list[str]]:
    """The words of each line of a block of shell, without comments; a backslash continues a line."""
    for line in code.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def read(path: Path) -> list[Block]:
    return list(blocks(path.read_text(encoding="utf-8")))


def run_page(path: Path) -> None:
    """Every block that is not marked, in the current folder; stops at the first that fails."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shell = f'jigsawmil() {{ "{sys.executable}" -m jigsawmil "$@"; }}\n'
    for block in read(path):
        if block.runs and block.language == "bash":
            subprocess.run(["bash", "-e", "-c", shell + block.code], check=True)
        elif block.runs:
            exec(compile(block.code, f"{path.name}, line {block.line}", "exec"), names)


def processor_time() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run pages as they stand, each in an empty folder.")
    parser.add_argument("pages", nargs="*", type=Path, default=TUTORIALS, help="by default all docs/tutorial-*.md")
    parser.add_argument("--keep", type=Path, help="a folder to run in, of which each page gets one of its own")
    options = parser.parse_args()
    pages, keep = [page.resolve() for page in options.pages], options.keep and options.keep.resolve()
    for page in pages:
        began = processor_time()
        with tempfile.TemporaryDirectory() as temporary:
            folder = (keep or Path(temporary)) / page.stem
            folder.mkdir(parents=True)
            os.chdir(folder)
            run_page(page)
            os.chdir(ROOT)
        print(f"{page.name}: {processor_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    main()
