"""Published figures: only of what is run, only where they stand, digits as printed. All figures here are made up."""

from typing import Any

import pytest

from jigsawmil.errors import ConfigError
from jigsawmil.study.published import Published, figure_text, read_published


def read(table: Any) -> Published:
    return read_published(table, ["BRCA", "COAD"], ["abmil", "graph-mil"], "s.toml: published")


def test_figures_keep_their_digits() -> None:
    found = read({"source": " Table 9 ", "BRCA": {"abmil": "0.50 +- 0.10", "graph-mil": 0.5}, "COAD": {"abmil": "1"}})
    figures = {"BRCA": {"abmil": "0.50 ± 0.10", "graph-mil": "0.5"}, "COAD": {"abmil": "1"}}
    assert found == Published("Table 9", figures)
    assert read({"source": "Table 9"}) == Published("Table 9", {})


@pytest.mark.parametrize("given", ["0.93 ± 0.02", "0.93±0.02", "0.93 +/- 0.02", " 0.93 +-  0.02 "])
def test_there_are_several_ways_to_write_plus_minus(given: str) -> None:
    assert figure_text(given, "here") == "0.93 ± 0.02"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (3, "s.toml: published: found 3, expected a table"),
        ({}, "s.toml: published: found source = None, expected where the figures stand"),
        ({"source": " "}, "found source = ' '"),
        ({"source": "T", "BRC": {}}, "published: cohort: found 'BRC', .*Did you mean 'BRCA'"),
        ({"source": "T", "BRCA": 0.5}, "published.BRCA: found 0.5, expected a table of figures"),
        ({"source": "T", "BRCA": {"abml": 0.5}}, "published.BRCA: variant: found 'abml', .*Did you mean 'abmil'"),
        ({"source": "T", "BRCA": {"abmil": "high"}}, "published.BRCA.abmil: found 'high', expected an AUC such as"),
        ({"source": "T", "BRCA": {"abmil": True}}, "found True, expected an AUC"),
        ({"source": "T", "BRCA": {"abmil": 93.1}}, "found 93.1, expected an AUC"),
        ({"source": "T", "BRCA": {"abmil": "0.93 ± 2"}}, "found '0.93 ± 2', expected an AUC"),
        ({"source": "T", "BRCA": {"abmil": "0.93 ±"}}, "found '0.93 ±', expected an AUC"),
        ({"source": "T", "BRCA": {"abmil": [0.9]}}, "expected an AUC"),
        ({"source": "T", "BRCA": {"abmil": -0.5}}, "expected an AUC"),
    ],
)
def test_mistakes_are_named(table: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(table)
