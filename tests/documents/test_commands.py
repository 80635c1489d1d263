"""Commands that the documents show exist, with the options they are shown with."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jigsawmil.cli.app import VERBS, load_verb

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "studies/README.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def unknown(text: str) -> Iterator[str]:
    """Verbs with options, in one line or continued by a backslash, that the program does not have."""
    for verb, rest in re.findall(r"\bjigsawmil ([a-z-]+)\b([^\n`]*)", text.replace("\\\n", " ")):
        asked = set(re.findall(r"(?<!\S)(--[a-z][\w-]*)", rest.split("#")[0]))
        if asked and verb not in VERBS:
            yield f"jigsawmil {verb}"
        elif asked:
            known = {name for option in load_verb(verb).params for name in (*option.opts, *option.secondary_opts)}
            yield from (f"jigsawmil {verb} {name}" for name in sorted(asked - known))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_show_commands_that_exist(path: Path) -> None:
    assert not list(unknown(path.read_text(encoding="utf-8")))


def test_the_check_sees_what_does_not_exist() -> None:
    assert list(unknown("    jigsawmil compare --labels x \\\n  --method abmil  # --note")) == [
        "jigsawmil compare --method"
    ]
    assert list(unknown("`jigsawmil vote --fast`")) == ["jigsawmil vote"]
