"""The paper's tables on stand-ins: each training once, in every table that has it."""

import json

from benchmarks.evidence.results_sections import standins
from benchmarks.evidence.standins import read_tables, union


def test_every_row_of_a_table_is_a_variant_with_its_settings() -> None:
    tables = read_tables()
    study, rows = union(tables)
    for table, own in tables.items():
        assert {row: study.variants[name] for row, name in rows[table].items()} == dict(own.variants)
    settings = [json.dumps(variant.flat(), sort_keys=True) for variant in study.variants.values()]
    assert len(set(settings)) == len(settings) < sum(len(own.variants) for own in tables.values())


def test_a_training_that_two_tables_have_is_counted_once_in_the_sum() -> None:
    one = {"auc": [0.5, 0.1], "jobs": 3, "processor_seconds": 60, "peak_mb": 1000.0}
    found = {"tables": {"a": {"x": "x"}, "b": {"y": "x"}}, "cohorts": {"BRCA": {"variants": {"x": one}}}}
    text = "\n".join(standins(found))
    assert "| `b.toml` | 3 | 1 | 0 | 1.0 |" in text
    assert "| all four, each training once | 3 | 1 | 0 | 1.0 |" in text
    assert "Not run yet: HNSC, COAD." in text
