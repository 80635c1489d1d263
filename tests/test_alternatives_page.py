"""docs/alternatives.md and README.md: their excerpts repeat its tables, in words that the page explains."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "alternatives.md"
TOOLS = ["jigsawmil", "torchmil", "STAMP", "CLAM", "slideflow", "nnMIL", "LazySlide", "PyG"]


def tables(page: Path = PAGE, tools: list[str] = TOOLS) -> list[dict[str, list[str]]]:
    """Of each table of tools: the entries of every row, by the row's name."""
    found: list[dict[str, list[str]]] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[1:] == tools:
            found.append({})
        elif found and len(cells) == len(tools) + 1 and not re.fullmatch("-+", cells[0]):
            found[-1][cells[0]] = cells[1:]
    return found


def test_the_readme_repeats_the_first_tools_of_the_tables() -> None:
    shown = TOOLS[:5]
    (excerpt,) = tables(ROOT / "README.md", shown)
    rows = {name: entries[: len(shown)] for part in tables() for name, entries in part.items()}
    assert len(excerpt) > 10
    assert {name: rows.get(name) for name in excerpt} == excerpt


def test_the_excerpt_repeats_rows_of_the_tables() -> None:
    excerpt, *parts = tables()
    rows = {name: entries for part in parts for name, entries in part.items()}
    assert len(excerpt) == 10
    assert {name: rows.get(name) for name in excerpt} == excerpt


def test_entries_are_words_that_the_page_explains() -> None:
    rows = {name: entries for part in tables() for name, entries in part.items()}
    free = {"Licence", "Described in"}
    assert free <= set(rows)
    entries = {entry for name, row in rows.items() if name not in free for entry in row}
    assert entries == {"yes", "no", "part", "?", "-"}
