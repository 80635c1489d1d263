"""Links between the documents lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("[bes]*/README.md")])


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page.parent / name if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield target


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert not list(broken(page))


def test_the_check_sees_a_broken_link(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# One `two`, three\n[x](a.md#one-two-three) [y](#four) [z](b.md) [w](https://a.org/#b)\n")
    assert list(broken(page)) == ["#four", "b.md"]
