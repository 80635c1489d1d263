"""The documentation site: what is brought in, links, the navigation, and the tutorial. `make docs` builds the whole."""

import ast
import json
import re
from pathlib import Path

import pytest
from tools.commands_page import PAGE, page
from tools.notebook import LIMIT, check_time, run_cells, with_outputs
from tools.site import BESIDE, ROOT, linked, notebook_page, slug

from jigsawmil.cli.app import VERBS, load_verb

NAMED = {*BESIDE.values(), "tutorial.md"}
BOOK = ROOT / "docs" / "tutorial.ipynb"


def test_the_navigation_names_every_page_once() -> None:
    listed = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == {path.name for path in (ROOT / "docs").glob("*.md")} | NAMED


def test_every_verb_and_option_is_on_the_page_of_commands() -> None:
    text = page()
    assert PAGE.read_text(encoding="utf-8") == text, "run `python -m tools.commands_page`"
    for name in VERBS:
        own = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
        for option in load_verb(name).params:
            if option.name != "help":
                flags = [*option.opts, *option.secondary_opts]
                assert all(f"`{flag}`" in own for flag in flags if flag.startswith("-")), (name, flags)
                assert (option.help or "").replace("|", "\\|").replace("\n", " ") in own, (name, flags)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[a](maps.md#the-attention-figure)", "[a](maps.md#the-attention-figure)"),
        ("[a](../studies/README.md)", "[a](paper-studies.md)"),
        ("[a](../CHANGELOG.md#b)", "[a](changelog.md#b)"),
        ("[a](tutorial.ipynb)", "[a](tutorial.md)"),
        ("[`x`](../benchmarks/results/viewer.json)", "`x`"),
        ("[a](nowhere.md)", "[a](nowhere.md)"),  # mkdocs says that it is broken
        ("[a](https://arxiv.org/abs/2603.20386)", "[a](https://arxiv.org/abs/2603.20386)"),
        ("![a](img/viewer.png)", "![a](img/viewer.png)"),
    ],
)
def test_links_lead_to_pages_of_the_site(written: str, shown: str) -> None:
    assert linked(written, ROOT / "docs" / "api.md") == shown


def test_anchors_are_those_of_other_readers() -> None:
    assert slug("`kinds`: which kinds, and why?", "-") == "kinds-which-kinds-and-why"


def test_a_notebook_runs_in_order_and_keeps_what_it_prints(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": ["x = 2\n", "x + 1"]},
        {"cell_type": "code", "source": ["print(x)\n", "x = 3"]},
    ]
    book = {"cells": [{"cell_type": "markdown", "source": ["# Title"]}, *cells]}
    printed = run_cells(book)
    assert printed == ["3\n", "2\n"]
    (tmp_path / "a.ipynb").write_text(with_outputs(book, printed))
    page = notebook_page(tmp_path / "a.ipynb")
    assert page.startswith("# Title\n\n```python\nx = 2\nx + 1\n```\n\n```text\n3\n```")
    with pytest.raises(ZeroDivisionError):
        run_cells({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]})


def test_a_notebook_that_is_too_slow_fails() -> None:
    check_time(LIMIT)
    with pytest.raises(SystemExit, match="expected at most 300 s"):
        check_time(LIMIT + 1)


def test_the_tutorial_was_run_and_names_what_exists() -> None:
    """`make notebook` runs it; that takes a minute or more. Here: every cell parses, every import is there."""
    book = json.loads(BOOK.read_text(encoding="utf-8"))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        imports = [node for node in ast.parse("".join(cell["source"])).body if isinstance(node, ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), "imports", "exec"), {})
