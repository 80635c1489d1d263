"""docs/api.md and docs/api-PART.md from the docstrings of what is public: `python -m tools.api_page`.

A test holds the pages to them.
"""

import importlib
import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from . import ROOT
from .signatures import entry, first_sentence, markdown

DOCS = ROOT / "docs"
PARTS = (
    *("bags", "slides", "statistics", "tasks", "cohort", "synthetic"),
    *("nn", "train", "maps", "study", "report", "doctor"),
)
PUBLIC = ("jigsawmil", *(f"jigsawmil.{part}" for part in PARTS))
HEAD = """# Python interface

Written by `python -m tools.api_page` from the source; `help(name)` in Python shows the docstrings too.

The packages below and the names they list are the public interface: they change only with a note in the
[changelog](../CHANGELOG.md). Import them from these packages, as in `from jigsawmil.bags import read_bag`. Everything
else, such as the modules inside the packages, may move without notice. Names are imported on first use, so that
`import jigsawmil` is quick.

Shapes stand in parentheses: `(patch, d)` is one row per patch. `Floats`, `Integers` and `Booleans` are NumPy arrays,
`Folders` is one folder or several, and `Tensor` is that of torch.
"""


@cache
def names() -> dict[str, dict[str, Any]]:
    """Package -> its public names with what they stand for."""
    packages = {name: importlib.import_module(name) for name in PUBLIC}
    return {
        name: {each: getattr(package, each) for each in package.__all__ if each[0] != "_"}
        for name, package in packages.items()
    }


def described(value: Any) -> bool:
    """Whether it has an entry of its own: a function or a class, not a table of parts."""
    return inspect.isclass(value) or inspect.isfunction(value)


def home(each: str) -> str:
    """The package whose page describes a name: the most particular that has it."""
    return next((name for name in PUBLIC[1:] if each in names()[name]), PUBLIC[0])


def file_of(name: str) -> Path:
    return DOCS / (name.replace("jigsawmil", "api").replace(".", "-") + ".md")


def pages() -> dict[Path, str]:
    """File -> its whole text."""
    of_parts = {file_of(name): section(name, "#") for name in PUBLIC[1:]}
    listed = [f"| [`{name}`]({file_of(name).name}) | {about(name)} |" for name in PUBLIC[1:]]
    packages = "\n".join(["## Packages", "", "| package | what |", "| --- | --- |", *listed])
    return {file_of(PUBLIC[0]): f"{HEAD}\n{packages}\n\n{section(PUBLIC[0], '##')}", **of_parts}


def about(name: str) -> str:
    return " ".join((inspect.getdoc(importlib.import_module(name)) or "").split("\n\n")[0].split())


def section(name: str, level: str) -> str:
    """One package: its docstring, one row per name, and the entries of the names whose home it is."""
    _, _, example = (inspect.getdoc(importlib.import_module(name)) or "").partition("\nExample:\n")
    code = f"```python\n{inspect.cleandoc(example)}\n```" if example else ""
    rows = [f"| {shown(name, each)} | {what(value)} |" for each, value in names()[name].items()]
    table = "\n".join(["| name | what |", "| --- | --- |", *rows])
    everything = [value for some in names().values() for value in some.values() if described(value)]
    entries = [
        entry(each, value, everything)
        for each, value in names()[name].items()
        if described(value) and home(each) == name
    ]
    made = "Written by `python -m tools.api_page` from the source." * (level == "#")
    return "\n\n".join(filter(None, [f"{level} `{name}`", markdown(about(name)), made, code, table, *entries])) + "\n"


def shown(package: str, each: str) -> str:
    """A name as a link to its entry."""
    own = home(each)
    if not described(names()[package][each]):
        return f"`{each}`"
    return f"[`{each}`]({'' if own == package else file_of(own).name}#{each.lower()})"


def what(value: Any) -> str:
    """The first sentence of the docstring; of a table of parts, its keys."""
    if isinstance(value, Mapping) and not inspect.isclass(value):
        return ", ".join(f"`{key}`" for key in value)
    return first_sentence(value)


def main() -> None:
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
