"""The shipped study files: readable, of the shape the paper's tables have, and with stand-ins of its numbers."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jigsawmil.cohort.recipes import RECIPES
from jigsawmil.study.study import on_standins
from jigsawmil.study.study_file import read_study

STUDIES = Path(__file__).parents[2] / "studies"
FILES = sorted(STUDIES.glob("*.toml"))
SHAPES = {  # cohorts, variants, folds
    "table1-cancers": (["BRCA", "HNSC", "COAD"], 6, 3),
    "table2-encoders": (["GigaPath", "RetCCL", "UNI", "Virchow2"], 4, 10),
    "table3-lambda": (["BRCA", "HNSC", "COAD"], 9, 3),
    "table5-k": (["BRCA", "HNSC", "COAD"], 3, 3),
    "table6-convs": (["BRCA", "HNSC", "COAD"], 6, 3),
    "fig-attention": (["BRCA"], 3, 3),
    "nsclc": (["NSCLC"], 6, 10),
    "panda": (["PANDA"], 6, 5),
    "camelyon16": (["CAMELYON16"], 6, 5),
}


def study(name: str):
    return read_study(STUDIES / f"{name}.toml")


def test_there_is_a_file_for_every_table_and_the_readme_counts_its_jobs() -> None:
    assert {file.stem for file in FILES} == set(SHAPES)
    readme = (STUDIES / "README.md").read_text(encoding="utf-8")
    for name, (cohorts, variants, folds) in SHAPES.items():
        row = next(line for line in readme.splitlines() if line.startswith(f"| `{name}.toml`"))
        assert row.endswith(f"| {folds} | {len(cohorts) * variants * folds} |")


@pytest.mark.parametrize("name", SHAPES)
def test_a_file_has_the_shape_of_its_table(name: str) -> None:
    cohorts, variants, folds = SHAPES[name]
    found = study(name)
    assert list(found.cohorts) == cohorts
    assert (len(found.variants), found.folds) == (variants, folds)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_figure_of_the_paper_is_claimed_and_the_template_for_them_names_what_is_run(
    file: Path, tmp_path: Path
) -> None:
    found = read_study(file)
    if found.published is None:
        assert file.stem == "fig-attention"
        return
    assert found.published.figures == {}
    assert "2603.20386" in found.published.source
    head, rest = file.read_text(encoding="utf-8").split("# [published.", 1)
    template, rest = rest.split("\n\n", 1)
    assert set(re.findall(r'= "(.*)"', template)) == {"mean ± std"}  # no number, not even as an example
    filled = "[published." + template.replace("\n# ", "\n").replace("mean ± std", "0.50 ± 0.10")
    (tmp_path / "s.toml").write_text(f"{head}{filled}\n\n{rest}", encoding="utf-8")
    ((_, figures),) = read_study(tmp_path / "s.toml").published.figures.items()
    assert set(figures.values()) == {"0.50 ± 0.10"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_says_where_its_data_go_and_which_recipe_makes_the_labels(file: Path) -> None:
    head = file.read_text(encoding="utf-8").split("\nfolds")[0]
    assert f"jigsawmil study studies/{file.name} --phantom" in head
    recipes = set(re.findall(r"jigsawmil labels (\S+) ", head))
    assert recipes <= set(RECIPES)
    assert recipes or "table1-cancers.toml, whose head says how to get them" in head
    for source in read_study(file).cohorts.values():
        for path in (source.labels, source.features):
            assert Path(path).is_relative_to(STUDIES / "data")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_classes_of_a_standin_are_those_of_the_recipe(file: Path) -> None:
    found = read_study(file)
    for name, source in found.cohorts.items():
        standin, options = found.standins[name], source.options.given()
        if options.get("ordinal"):
            assert standin.classes == ("0", "1", "2", "3", "4", "5")
        else:
            assert options["positive"] == standin.classes[-1]
            assert options["positive"] in {recipe.positive for recipe in RECIPES.values()}
    assert list(on_standins(found, Path("standins")).cohorts) == [f"phantom {name}" for name in found.cohorts]


@pytest.mark.parametrize("name", ["table1-cancers", "table3-lambda", "table5-k", "table6-convs"])
def test_standins_have_the_papers_numbers(name: str) -> None:
    found = study(name)
    for cohort, n in {"BRCA": 100, "HNSC": 101, "COAD": 78}.items():
        spec = found.standins[cohort].spec()
        assert (spec.slides, len(spec.counts), spec.patients, spec.dim) == (n, n, n, 1024)
        assert (min(spec.counts), max(spec.counts)) == (50, 12050)
        assert np.mean(spec.counts) == pytest.approx(3278, abs=1)
    assert len({standin.seed for standin in found.standins.values()}) == 3  # three cohorts, not one
    assert found.standins == study("table1-cancers").standins


def test_the_encoders_look_at_the_slides_of_table_1() -> None:
    brca = study("table1-cancers").standins["BRCA"]
    encoders = study("table2-encoders").standins
    assert {name: standin.dim for name, standin in encoders.items()} == {
        "GigaPath": 1536,
        "RetCCL": 2048,
        "UNI": 1024,
        "Virchow2": 2560,
    }
    assert all(replace(standin, dim=brca.dim) == brca for standin in encoders.values())


def test_lambda_is_stated_where_there_is_a_jigsaw() -> None:
    """The default may change; a table of the paper may not change with it."""
    for file in FILES:
        text, found = file.read_text(encoding="utf-8"), read_study(file)
        for name, settings in found.variants.items():
            if settings.method.endswith("+jigsaw"):
                own = re.search(
                    rf'^\[variants\.(?:{re.escape(name)}|"{re.escape(name)}")\]\n(.*?)\n\n', text, re.M | re.S
                )
                defaults = re.search(r"^\[defaults\]\n(.*?)\n\n", text, re.M | re.S)
                assert "lambda = " in (own[1] if own else "") + (defaults[1] if defaults else "")
    headline = study("table1-cancers").variants
    assert headline["graph-abmil+jigsaw 0.5"].train.lambda_.policy == 0.5
    assert headline["graph-abmil+jigsaw em"].train.lambda_.policy == "em"
    lambdas = [settings.train.lambda_.policy for settings in study("table3-lambda").variants.values()]
    assert lambdas == [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, "em", "em-per-slide", "balanced"]
    assert [settings.graph.k for settings in study("table5-k").variants.values()] == [8, 24, 50]
    convs = study("table6-convs").variants
    assert [convs[name].model.conv for name in ("GAT", "GCN", "GIN", "SAGE")] == ["gat", "gcn", "gin", "sage"]
    assert study("fig-attention").attention
