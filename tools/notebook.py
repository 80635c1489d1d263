"""Run docs/tutorial.ipynb from top to bottom: `make notebook`; `python -m tools.notebook --write` keeps the output.

Cells run in one process without Jupyter, in an empty folder. As in Jupyter the last expression of a cell is shown.
"""

import argparse
import ast
import io
import json
import os
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from . import ROOT

PAGE = ROOT / "docs" / "tutorial.ipynb"
LIMIT = 300  # seconds on a CPU: what the notebook promises


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep what cells print in the notebook")
    options = parser.parse_args()
    book = json.loads(PAGE.read_text(encoding="utf-8"))
    began, here = time.perf_counter(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            printed = run_cells(book)
        finally:
            os.chdir(here)
    seconds = time.perf_counter() - began
    print(f"{len(printed)} cells in {seconds:.0f} s")
    if options.write:
        PAGE.write_text(with_outputs(book, printed), encoding="utf-8")
    check_time(seconds)


def check_time(seconds: float) -> None:
    if seconds > LIMIT:
        raise SystemExit(f"{PAGE.name}: {seconds:.0f} s, expected at most {LIMIT} s. Make its cells smaller.")


def run_cells(book: dict[str, Any]) -> list[str]:
    """What each cell of code prints."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            out = io.StringIO()
            with redirect_stdout(out):
                run_cell("".join(cell["source"]), names)
            printed.append(out.getvalue())
    return printed


def run_cell(source: str, names: dict[str, Any]) -> None:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    if (
        isinstance(last, ast.Expr)
        and (value := eval(compile(ast.Expression(last.value), "cell", "eval"), names)) is not None
    ):
        print(value)


def with_outputs(book: dict[str, Any], printed: list[str]) -> str:
    texts = iter(printed)
    for number, cell in enumerate(cell for cell in book["cells"] if cell["cell_type"] == "code"):
        text = next(texts)
        stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
        cell["outputs"], cell["execution_count"] = [stream] if text else [], number + 1
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
