"""Published figures: only of what is run, only where they stand, digits as printed. All figures here are made up."""

from pathlib import Path
from typing import Any

import pytest

from jigsawmil.errors import ConfigError
from jigsawmil.study.published import Published, figure_text, published_figures, published_patches, read_published


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
        ({}, "s.toml: published: found source = None, expected the paper and table, such as"),
        ({"source": " "}, "found source = ' '"),
        ({"source": "T", "BRC": {}}, "published: cohort: found 'BRC', .*Did you mean 'BRCA'"),
        ({"source": "T", "BRCA": 0.5}, "published.BRCA: found 0.5, expected a table of figures"),
        ({"source": "T", "BRCA": {"abml": 0.5}}, "published.BRCA: variant: found 'abml', .*Did you mean 'abmil'"),
        ({"source": "T", "BRCA": {"abmil": "high"}}, "published.BRCA.abmil: found 'high', expected an AUROC such as"),
        ({"source": "T", "BRCA": {"abmil": True}}, "found True, expected an AUROC"),
        ({"source": "T", "BRCA": {"abmil": 93.1}}, "found 93.1, expected an AUROC"),
        ({"source": "T", "BRCA": {"abmil": "0.93 ± 2"}}, "found '0.93 ± 2', expected an AUROC"),
        ({"source": "T", "BRCA": {"abmil": "0.93 ±"}}, "found '0.93 ±', expected an AUROC"),
        ({"source": "T", "BRCA": {"abmil": [0.9]}}, "expected an AUROC"),
        ({"source": "T", "BRCA": {"abmil": -0.5}}, "expected an AUROC"),
        ({"source": "T", "rows": {"abml": "x"}}, "published.rows: name: found 'abml', .*Did you mean 'abmil'"),
        ({"source": "T", "rows": ["abmil"]}, "published.rows: found .*, expected a table of labels"),
        ({"source": "T", "columns": {"abmil": "x"}}, "published.columns: name: found 'abmil', expected one of BRCA"),
        ({"source": "T", "columns": {"BRCA": 3}}, "published.columns.BRCA: found 3, expected text"),
        ({"source": "T", "folds": "3"}, "published: folds: found '3', expected a whole number"),
        ({"source": "T", "corner": 3}, "published: corner: found 3, expected text"),
    ],
)
def test_mistakes_are_named(table: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(table)


def test_labels_of_the_paper_are_kept() -> None:
    labels = {"rows": {"abmil": "ABMIL"}, "columns": {"COAD": "MSI"}, "corner": "Method", "folds": 3}
    found = read({"source": "T", **labels, "COAD": {"graph-mil": 0.5}, "BRCA": {"abmil": 0.5}})
    assert (found.rows, found.columns, found.corner, found.folds) == tuple(labels.values())
    assert list(found.figures) == ["COAD", "BRCA"]  # the paper's order, not the study's
    assert found.variants == ["graph-mil", "abmil"]


FILE = """
[cohorts.BRCA]
[variants.abmil]
[published]
source = "A paper, Table 9"
BRCA.abmil = "0.12 ± 0.34"
[published_patches]
source = "A paper, Table 8"
BRCA = { dim = 16, mean = "20.50", fewest = 1, most = 40 }
"""


def test_a_table_is_read_from_a_file_without_the_rest_of_it(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(FILE, encoding="utf-8")
    assert published_figures(tmp_path / "s.toml") == Published("A paper, Table 9", {"BRCA": {"abmil": "0.12 ± 0.34"}})
    assert published_patches(tmp_path / "s.toml").figures == {
        "BRCA": {"dim": "16", "mean": "20.50", "fewest": "1", "most": "40"}
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("[published_patches]", "[published_patch]"), r"s.toml: found no figures .* expected a table \[published_pat"),
        (("mean =", "median ="), "s.toml: published_patches.BRCA: variant: found 'median', .*'mean'"),
        (('"20.50"', '"many"'), "published_patches.BRCA.mean: found 'many', expected a number such as"),
        (('"20.50"', "true"), "published_patches.BRCA.mean: found True, expected a number such as"),
        (("[cohorts.BRCA]", "cohorts = 3"), "s.toml: cohorts: found 3, expected a table"),
    ],
)
def test_mistakes_in_the_statistics_of_patches_are_named(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    (tmp_path / "s.toml").write_text(FILE.replace(*change), encoding="utf-8")
    with pytest.raises(ConfigError, match=told):
        published_patches(tmp_path / "s.toml")


@pytest.mark.parametrize("text", ["[cohorts.c]", "[cohorts.c]\n[published]\nsource = 'T'"])
def test_a_file_without_figures_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"s.toml: found no figures of a paper, expected a table \[published\]"):
        published_figures(tmp_path / "s.toml")
