"""Names of a package that are imported on first use, so that importing one of its modules stays cheap.

    if TYPE_CHECKING:
        from .bag import Bag
        from .formats import read_bag, write_bag
    else:
        __getattr__ = attach(__name__, __file__)

    __all__ = ["Bag", "read_bag", "write_bag"]

Type checkers read the imports of the `TYPE_CHECKING` block. At run time `attach` reads the same lines, so that the
home of each name is written once. A name must differ from those of the package's modules, which Python finds first.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> Callable[[str], Any]:
    """A module's `__getattr__` (PEP 562) that makes the imports of its `if TYPE_CHECKING:` block one by one.

    package, file: `__name__` and `__file__` of an `__init__.py`.
    """
    homes = lazy_imports(Path(file).read_text(encoding="utf-8"))

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(import_module(package), name, value)  # asked for once
        return value

    return get


def lazy_imports(source: str) -> dict[str, str]:
    """Names and their modules, from the `from .module import name` lines under `if TYPE_CHECKING:`."""
    return {
        alias.name: "." * line.level + (line.module or "")
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
