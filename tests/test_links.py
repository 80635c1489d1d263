"""Links between the documents lead somewhere; those to the web are well formed. No test goes online."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

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


def web(text: str) -> Iterator[str]:
    """Addresses that a reader can click: targets of links, and bare ones outside code."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    yield from re.findall(r"\]\(([a-z]+:[^)]*)\)", prose)
    yield from re.findall(r"(?<!\()\bhttps?://[^\s<>\")|]+", prose)


def malformed(address: str) -> bool:
    """Not https, with blanks, or of a machine that only its owner reaches."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    public = re.fullmatch(r"(?!.*\d$)([a-z0-9-]+\.)+[a-z]{2,}", host) and not host.endswith((".local", ".internal"))
    return parts.scheme != "https" or not public or bool(re.search(r"\s|@", address))


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_the_web_are_well_formed(page: Path) -> None:
    assert not [address for address in web(page.read_text(encoding="utf-8")) if malformed(address)]


def test_the_project_states_well_formed_addresses() -> None:
    files = ["pyproject.toml", "mkdocs.yml", "CITATION.cff"]
    found = [one for name in files for one in re.findall(r"https?://[^\s\"']+", (ROOT / name).read_text("utf-8"))]
    assert found
    assert not list(filter(malformed, found))


@pytest.mark.parametrize(
    "address",
    [
        "http://a.org/x",
        "https://a b.org",
        "https://localhost/x",
        "https://127.0.0.1:5006",
        "https://pc.local",
        "ftp://a.org",
    ],
)
def test_the_check_sees_a_malformed_address(address: str) -> None:
    assert malformed(address)
    assert address.split()[0] in next(web(f"See [this]({address})."))
    assert not malformed("https://arxiv.org/abs/2603.20386#a")
    assert list(web("At https://a.org/b, `http://c.org`.")) == ["https://a.org/b,"]


def test_the_check_sees_a_broken_link(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# One `two`, three\n[x](a.md#one-two-three) [y](#four) [z](b.md) [w](https://a.org/#b)\n")
    assert list(broken(page)) == ["#four", "b.md"]
