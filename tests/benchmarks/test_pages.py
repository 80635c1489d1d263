"""Pages that state figures state those of the results in the repository."""

import importlib
import json
from typing import Any

import pytest

benchmarks: Any = importlib.import_module("benchmarks")


@pytest.mark.parametrize("name", ["speed.extract", "speed.ray_jobs", "evidence.tissue"])
def test_a_page_has_the_figures_that_were_measured(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    page = module.PAGE.read_text()
    if benchmarks.history() is None:  # where no commit can be looked up
        page = page.replace(benchmarks.LOST, "")
    assert benchmarks.placed(page, module.COMMAND, module.table(json.loads(module.RESULT.read_text()))) == page


def test_the_page_of_sizes_has_what_the_command_prints() -> None:
    sizing: Any = importlib.import_module("benchmarks.speed.sizing")
    page = sizing.PAGE.read_text()
    assert benchmarks.placed(page, sizing.COMMAND, sizing.table()) == page
