"""Tables of parts: files are found by their names, and imported when their part is asked for."""

import sys
from pathlib import Path

import pytest

from jigsawmil.registry import Registry


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[str]:
    package = tmp_path / "some_parts"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from jigsawmil.registry import Registry\nPARTS = Registry(__name__, __path__)\n"
    )
    (package / "two_words.py").write_text('from . import PARTS\nPARTS.register("two-words")("a part")\n')
    (package / "_helpers.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("some_parts", "some_parts.two_words"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__("some_parts").PARTS


def test_a_file_is_a_part_and_is_imported_when_it_is_asked_for(table: Registry[str]) -> None:
    assert list(table) == ["two-words"]
    assert "some_parts.two_words" not in sys.modules
    assert table["two-words"] == "a part"
    assert "some_parts.two_words" in sys.modules


def test_other_code_can_register_a_part(table: Registry[str]) -> None:
    assert table.register("mine")("my part") == "my part"
    assert dict(table) == {"two-words": "a part", "mine": "my part"}
    assert len(table) == 2
    assert "yours" not in table
    with pytest.raises(KeyError, match="yours"):
        table["yours"]
