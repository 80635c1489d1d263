"""docs/api.md from the docstrings of what is public: `python -m tools.api_page`. A test holds the page to them."""

import importlib
import inspect
from collections.abc import Mapping

from . import ROOT

PAGE = ROOT / "docs" / "api.md"
PARTS = (
    *("bags", "slides", "statistics", "tasks", "cohort", "synthetic"),
    *("nn", "train", "maps", "study", "report", "doctor"),
)
PUBLIC = ("jigsawmil", *(f"jigsawmil.{part}" for part in PARTS))
HEAD = """# Python interface

Written by `python -m tools.api_page` from the docstrings; `help(name)` in Python shows them in full.

The packages below and the names they list are the public interface: they change only with a note in the
[changelog](../CHANGELOG.md). Import them from these packages, as in `from jigsawmil.bags import read_bag`. Everything
else, such as the modules inside the packages, may move without notice. Names are imported on first use, so that
`import jigsawmil` is quick.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(section(name) for name in PUBLIC)])


def section(name: str) -> str:
    """One package: its docstring, and one row per name."""
    package = importlib.import_module(name)
    doc = inspect.getdoc(package) or ""
    about, _, example = doc.partition("\nExample:\n")
    code = f"```python\n{inspect.cleandoc(example)}\n```" if example else ""
    rows = [f"| `{each}` | {first_sentence(getattr(package, each))} |" for each in package.__all__ if each[0] != "_"]
    table = "\n".join(["| name | what |", "| --- | --- |", *rows])
    return "\n\n".join(filter(None, [f"## `{name}`", about.split("\n\n")[0].strip(), code, table])) + "\n"


def first_sentence(value: object) -> str:
    """Of the docstring; for a table of parts, its keys."""
    if isinstance(value, Mapping) and not inspect.isclass(value):
        return ", ".join(f"`{key}`" for key in value)
    paragraph = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".").replace("|", "\\|") + "."


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
