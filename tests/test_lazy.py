"""Packages whose names are imported on first use."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jigsawmil.lazy import lazy_imports

PACKAGE = '''"""A package."""
from typing import TYPE_CHECKING

from jigsawmil.lazy import attach

if TYPE_CHECKING:
    from .heavy import Thing, other
else:
    __getattr__ = attach(__name__, __file__)

__all__ = ["Thing", "other"]
'''


@pytest.fixture
def lazy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "lazypackage"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "heavy.py").write_text("Thing = object\ndef other(): return 7\n")
    (folder / "light.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "lazypackage"]:
        del sys.modules[name]


def test_a_module_is_imported_when_one_of_its_names_is_first_used(lazy: Path) -> None:
    import lazypackage.light

    assert "lazypackage.heavy" not in sys.modules
    assert lazypackage.other() == 7
    assert "lazypackage.heavy" in sys.modules
    assert "other" in vars(lazypackage)  # the second use costs nothing
    from lazypackage import Thing

    assert Thing is object


def test_an_unknown_name_is_an_error_like_any_other(lazy: Path) -> None:
    import lazypackage

    with pytest.raises(AttributeError, match="module 'lazypackage' has no attribute 'nothing'"):
        _ = lazypackage.nothing
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from lazypackage import nothing  # noqa: F401


def test_only_imports_under_type_checking_are_lazy() -> None:
    source = "from .a import x\nif TYPE_CHECKING:\n    from ..b.c import y, z\nif other:\n    from .d import w\n"
    assert lazy_imports(source) == {"y": "..b.c", "z": "..b.c"}
