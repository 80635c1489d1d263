"""The paper's tables on stand-ins: each training once, in every table that has it."""

import json
from types import SimpleNamespace
from typing import Any

import pandas as pd
from benchmarks.evidence.results_standins import standins
from benchmarks.evidence.standins import outcome, read_tables, union


def test_every_row_of_a_table_is_a_variant_with_its_settings() -> None:
    tables = read_tables()
    study, rows = union(tables)
    for table, own in tables.items():
        assert {row: study.variants[name] for row, name in rows[table].items()} == dict(own.variants)
    settings = [json.dumps(variant.flat(), sort_keys=True) for variant in study.variants.values()]
    assert len(set(settings)) == len(settings) < sum(len(own.variants) for own in tables.values())


def section(variants: dict[str, Any], **cohort: Any) -> str:
    tables = {"a": {"x": "x"}, "b": {"y": "x"}}
    return "\n".join(
        standins({"tables": tables, "processes": 2, "cohorts": {"BRCA": {"variants": variants, **cohort}}})
    )


ONE = {"auc": [0.5, 0.1], "jobs": 3, "processor_seconds": 60, "peak_mb": 1000.0}


def test_a_training_that_two_tables_have_is_counted_once_in_the_sum() -> None:
    text = section({"x": {**ONE, "wall_seconds": 120}}, elapsed_seconds=180)
    assert "| `b.toml` | 3 | 1 | 2 | 1.0 |" in text
    assert "| all four, each training once | 3 | 1 | 2 | 1.0 |" in text
    assert "| BRCA | 3 | 1 | 2 | 1.0 | 3 |" in text
    assert "| `x` | 2 |" in text
    assert "Not run yet: HNSC, COAD." in text


def test_a_time_that_was_not_recorded_is_a_dash() -> None:
    """Cohorts of a file that was written before wall time was recorded, or that were resumed."""
    text = section({"x": ONE, "z": {**ONE, "wall_seconds": 60, "peak_mb": None}}, elapsed_seconds=None)
    assert "| `b.toml` | 3 | 1 | - | 1.0 |" in text
    assert "| BRCA | 6 | 2 | - | 1.0 | - |" in text
    assert "| `x` | - |" in text
    assert "| `z` | 1 |" in text


def test_wall_time_of_a_variant_is_that_of_its_jobs() -> None:
    seconds = [{"fit": 10.0, "predict": 2.0, "processor": 20.0}, {"fit": 30.0, "predict": 4.0, "processor": 60.0}]
    jobs = [SimpleNamespace(variant="x", seconds=own, peak_mb=mb) for own, mb in zip(seconds, (5, 7), strict=True)]
    summary = pd.DataFrame({"variant": ["x"], "auc_mean": [0.75], "auc_std": [0.25]})
    found = outcome(SimpleNamespace(summary=summary, jobs=jobs))  # type: ignore[arg-type]
    assert found["x"]["wall_seconds"] == 46
    assert (found["x"]["processor_seconds"], found["x"]["peak_mb"]) == (80, 7)
