"""Pages that state figures state those of the results in the repository."""

import importlib
import json
import re
from typing import Any

import pytest

benchmarks: Any = importlib.import_module("benchmarks")


@pytest.mark.parametrize("name", ["speed.extract", "speed.ray_jobs", "evidence.tissue", "evidence.results_maps"])
def test_a_page_has_the_figures_that_were_measured(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    page = module.PAGE.read_text()
    if benchmarks.history() is None:  # where no commit can be looked up
        page = page.replace(benchmarks.LOST, "")
    assert benchmarks.placed(page, module.COMMAND, module.table(json.loads(module.RESULT.read_text()))) == page


def test_the_page_on_maps_says_of_its_table_what_the_table_says() -> None:
    """Every figure below it, up to the variants that were tried on other cohorts."""
    module: Any = importlib.import_module("benchmarks.evidence.results_maps")
    text = module.PAGE.read_text().split("## Do the maps find what was planted?")[1].split("### Variants of")[0]
    said = re.findall(r"\b[01]\.\d{3}\b", text.split(f"<!-- /{module.COMMAND} -->")[1])
    rows = json.loads(module.RESULT.read_text())["rows"]
    assert said
    assert set(said) <= {f"{row[key]:.3f}" for row in rows for key in ("auc", "slide_auc")}
    later = module.PAGE.read_text().split("### Variants of")[1]
    for variant, figures in (
        ("jigsaw-gat-k50, ensemble of 4", "0.709 and 0.795"),
        ("jigsaw-gat-k50", "0.660 and 0.671"),
    ):
        own = [row["auc"] for row in rows if _whole(row, variant)]
        assert figures == " and ".join(f"{area:.3f}" for area in own)
        assert figures in later


def _whole(row: dict[str, Any], variant: str) -> bool:
    asked = (variant, "attribution, magnitude", "all", "planted")
    return (row["variant"], row["score"], row["slides"], row["region"]) == asked


def test_the_page_of_sizes_has_what_the_command_prints() -> None:
    sizing: Any = importlib.import_module("benchmarks.speed.sizing")
    page = sizing.PAGE.read_text()
    assert benchmarks.placed(page, sizing.COMMAND, sizing.table()) == page
