"""Settings: what is impossible is refused with its name, what was found, and what is possible."""

import math
from dataclasses import dataclass

import pytest

from jigsawmil.config import choose, from_mapping, require
from jigsawmil.errors import ConfigError, JigsawmilError
from jigsawmil.graph import GraphConfig


def message(call: object, *args: object, **options: object) -> str:
    with pytest.raises(ConfigError) as error:
        call(*args, **options)  # type: ignore[operator]
    assert isinstance(error.value, JigsawmilError)
    return str(error.value)


def test_a_choice_names_the_options_and_the_nearest() -> None:
    choose("conv", "gat", ("gat", "gcn"))
    told = message(choose, "conv", "gatt", ("gat", "gcn"))
    assert told == "conv: found 'gatt', expected one of gat, gcn. Did you mean 'gat'?"
    assert message(choose, "conv", "xyz", ("gat", "gcn")) == "conv: found 'xyz', expected one of gat, gcn."
    assert "found 3" in message(choose, "conv", 3, ("gat",))
    assert "found None" in message(choose, "conv", None, iter(("gat",)))


def test_a_requirement_names_what_it_found_and_expected() -> None:
    require("k", 5, True, "anything")
    assert message(require, "k", 0, False, "at least 1") == "k: found 0, expected at least 1."


@dataclass(frozen=True)
class Pair:
    left: int
    right: int = 2


def test_a_table_becomes_a_config_and_unknown_keys_are_named() -> None:
    assert from_mapping(Pair, {"left": 1}) == Pair(1, 2)
    told = message(from_mapping, Pair, {"left": 1, "rigth": 3}, "pair.toml")
    assert told == "pair.toml: key: found 'rigth', expected one of left, right. Did you mean 'right'?"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("kind", "voronoi", "graph kind: found 'voronoi', expected one of knn, radius"),
        ("k", 0, "k: found 0"),
        ("k", 2.5, "k: found 2.5, expected a whole number"),
        ("radius", 0.0, "radius: found 0.0, expected microns above 0"),
        ("radius", math.nan, "radius: found nan"),
        ("sigma", "max-neares", "Did you mean 'max-nearest'"),
        ("normalise", "per", "Did you mean 'per-axis'"),  # the beginning of a name is nearer than a shorter one
        ("sigma", -0.5, "sigma: found -0.5, expected a number above 0"),
    ],
)
def test_impossible_graphs_are_refused(name: str, value: object, told: str) -> None:
    assert told in message(GraphConfig, **{name: value})


def test_the_graph_of_the_paper_is_the_default() -> None:
    paper = GraphConfig()
    assert (paper.kind, paper.k, paper.sigma) == ("knn", 50, "max-knn")
    assert GraphConfig(sigma="max-nearest") != paper
    assert hash(GraphConfig(k=5)) == hash(GraphConfig(k=5))  # slides prepared with it are found by it
