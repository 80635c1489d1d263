"""The shipped study files: readable, of the shape the paper's tables have, and with stand-ins of its numbers."""

import re
from pathlib import Path

import numpy as np
import pytest

from jigsawmil.cohort.recipes import RECIPES
from jigsawmil.nn.options import PAPER_METHODS
from jigsawmil.study.published import published_patches
from jigsawmil.study.study import on_standins
from jigsawmil.study.study_file import read_study
from jigsawmil.synthetic.phantom_slide import draw_patients

STUDIES = Path(__file__).parents[2] / "studies"
FILES = sorted(STUDIES.glob("*.toml"))
SHAPES = {  # cohorts, variants, folds
    "table1-cancers": (["BRCA", "HNSC", "COAD"], 5, 3),
    "table2-encoders": (["GigaPath", "RetCCL", "UNI", "Virchow2"], 4, 10),
    "table3-lambda": (["BRCA", "HNSC", "COAD"], 7, 3),
    "lambda-rules": (["BRCA", "HNSC", "COAD"], 3, 3),
    "table5-k": (["BRCA", "HNSC", "COAD"], 3, 3),
    "table6-convs": (["BRCA", "HNSC", "COAD"], 5, 3),
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
def test_a_table_has_a_figure_of_the_paper_for_all_that_is_run_and_the_rest_have_none(file: Path) -> None:
    """Which figures: test_paper_figures.py."""
    found = read_study(file)
    if not file.stem.startswith("table"):
        assert found.published is None
        return
    assert found.published is not None
    assert list(found.published.figures) == list(found.cohorts)
    assert all(list(own) == list(found.variants) for own in found.published.figures.values())
    assert found.published.folds == found.folds
    assert found.published.source == f"arXiv 2603.20386, Table {file.stem[5]}"
    assert f"jigsawmil study studies/{file.name} --published" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_variant_follows_the_paper_but_for_what_its_table_varies(file: Path) -> None:
    for name, settings in read_study(file).variants.items():
        preset, differing = settings.nearest_preset
        assert preset == "paper"
        assert set(differing) <= {"lambda_", "k", "conv"}, name


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


@pytest.mark.parametrize("name", ["table1-cancers", "table3-lambda", "table5-k", "table6-convs", "lambda-rules"])
def test_standins_have_the_papers_numbers(name: str) -> None:
    found = study(name)
    for cohort, n in {"BRCA": 100, "HNSC": 101, "COAD": 78}.items():
        spec = found.standins[cohort].spec()
        assert (spec.slides, len(spec.counts), spec.patients, spec.dim) == (n, n, n, 1024)
        assert (min(spec.counts), max(spec.counts)) == (50, 12050)
        assert np.mean(spec.counts) == pytest.approx(3278.1, abs=1)
    assert len({standin.seed for standin in found.standins.values()}) == 3  # three cohorts, not one
    assert found.standins == study("table1-cancers").standins


def test_the_attention_figure_has_the_slides_of_table_1() -> None:
    assert study("fig-attention").standins["BRCA"] == study("table1-cancers").standins["BRCA"]


def test_standins_of_the_encoders_have_the_papers_slides_and_the_patches_of_table_4() -> None:
    found, table4 = study("table2-encoders"), published_patches(STUDIES / "table2-encoders.toml").figures
    assert list(table4) == ["UNI", "GigaPath", "RetCCL", "Virchow2"]  # the order of the paper's table
    labels = set()
    for name, standin in found.standins.items():
        spec = standin.spec()
        assert str(spec.dim) == table4[name]["dim"]
        assert (str(min(spec.counts)), str(max(spec.counts))) == (table4[name]["fewest"], table4[name]["most"])
        assert np.mean(spec.counts) == pytest.approx(float(table4[name]["mean"]), abs=0.05)
        patients, classes = draw_patients(np.random.default_rng((spec.seed, 1)), spec)
        assert (len(set(patients)), standin.classes, sum(classes)) == (892, ("IDC", "ILC"), 182)
        labels.add((tuple(patients), tuple(classes)))
    assert len(labels) == 1  # the same for all encoders


@pytest.mark.parametrize("name", ["nsclc", "panda", "camelyon16"])
def test_cohorts_without_results_have_uni2_features(name: str) -> None:
    found = study(name)
    assert {Path(source.features).name for source in found.cohorts.values()} == {"features_uni2"}
    assert {standin.dim for standin in found.standins.values()} == {1536}
    assert "reports no result" in (STUDIES / f"{name}.toml").read_text(encoding="utf-8")


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
    methods = [settings.method for settings in study("table1-cancers").variants.values()]
    assert methods == list(PAPER_METHODS)
    jigsaws = [v for v in study("table1-cancers").variants.values() if v.method.endswith("+jigsaw")]
    assert [settings.train.lambda_.policy for settings in jigsaws] == [0.5, 0.5]
    lambdas = [settings.train.lambda_.policy for settings in study("table3-lambda").variants.values()]
    assert lambdas == [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, "em"]
    lambdas = [settings.train.lambda_.policy for settings in study("lambda-rules").variants.values()]
    assert lambdas == ["em", "em-per-slide", "balanced"]
    assert study("fig-attention").attention


def test_tables_5_and_6_have_no_jigsaw() -> None:
    neighbours = study("table5-k").variants.values()
    assert [(settings.method, settings.graph.k) for settings in neighbours] == [
        ("graph-abmil", 8),
        ("graph-abmil", 24),
        ("graph-abmil", 50),
    ]
    convs = study("table6-convs").variants
    assert {settings.graph.k for settings in convs.values()} == {50}
    assert [(name, convs[name].method, convs[name].model.conv) for name in list(convs)[:4]] == [
        (conv.upper(), "graph-abmil", conv) for conv in ("gat", "gcn", "gin", "sage")
    ]
    assert convs["ABMIL"].method == "abmil"
