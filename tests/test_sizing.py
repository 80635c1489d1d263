"""The table of docs/cluster.md is the one that the command prints."""

import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks/ is no part of the installed package
sizing: Any = importlib.import_module("benchmarks.sizing")


def test_the_page_has_what_the_command_prints() -> None:
    page = sizing.PAGE.read_text()
    assert sizing.placed(page, sizing.table()) == page
