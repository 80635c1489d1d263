"""The paper's form: our figures and the published ones each in their place, and phantoms never taken for evidence.

All published figures here are made up.
"""

import re
from collections.abc import Callable, Sequence
from io import StringIO

import pandas as pd
import pytest
from rich.console import Console, RenderableType
from rich.table import Table

from jigsawmil.cli.terminal import stacked
from jigsawmil.report.paper_tables import PHANTOM, PaperForm, paper_markdown, paper_tables, published_table
from jigsawmil.study.compare import summarise
from jigsawmil.study.published import Published

METHODS = ["graph-abmil+jigsaw", "abmil", "graph-mil"]
SOURCE = "A paper, Table 9"
FIGURES = {"colon": {"abmil": "0.50 ± 0.10", "graph-mil": "0.6"}, "breast": {"abmil": "0.4321"}}


@pytest.fixture(scope="module")
def summary(predictions: Callable[..., pd.DataFrame]) -> pd.DataFrame:
    parts = []
    for number, cohort in enumerate(("colon", "breast")):
        table = predictions(noise=number)
        parts.append(summarise(table[table["variant"].isin(METHODS)], resamples=2).assign(cohort=cohort))
    return pd.concat(parts, ignore_index=True)


def form(
    figures: dict[str, dict[str, str]] = FIGURES, cohorts: Sequence[str] = ("colon", "breast"), **more
) -> PaperForm:
    return PaperForm(METHODS, cohorts, Published(SOURCE, figures), file="studies/x.toml", **more)


def text(parts: list[RenderableType], width: int) -> str:
    console = Console(width=width, file=StringIO())
    console.print(*parts, sep="\n")
    return console.file.getvalue()


def shown(summary: pd.DataFrame, form: PaperForm, width: int) -> list[RenderableType]:
    return [part for table in paper_tables(summary, form) for part in stacked(table, width)]


def ours(summary: pd.DataFrame, cohort: str, method: str) -> str:
    row = summary[(summary["cohort"] == cohort) & (summary["variant"] == method)].iloc[0]
    return f"{row['auc_mean']:.3f} ± {row['auc_std']:.3f}"


def rows_of(said: str) -> dict[str, list[str]]:
    """Variant -> its cells."""
    lines = [re.split(r"  +", line.strip()) for line in said.splitlines()]
    return {line[0]: line[1:] for line in lines if line[0] in METHODS and len(line) > 1}


def test_every_figure_stands_beside_the_published_one(summary: pd.DataFrame) -> None:
    said = text(shown(summary, form(), 100), 100)
    found = rows_of(said)
    assert list(found) == METHODS  # in the order of the study
    for method, cells in found.items():
        expected = []
        for cohort in ("colon", "breast"):
            expected += [ours(summary, cohort, method), FIGURES[cohort].get(method, "-")]
        assert cells == expected
    assert re.search(r"variant +colon +paper +breast +paper", said)
    assert SOURCE in said
    assert "not given" not in said


def test_cohorts_keep_the_order_of_the_study(summary: pd.DataFrame) -> None:
    said = text(shown(summary, form(cohorts=("breast", "colon")), 100), 100)
    assert rows_of(said)["abmil"][:2] == [ours(summary, "breast", "abmil"), "0.4321"]


@pytest.mark.parametrize(("width", "blocks"), [(60, 2), (80, 1), (120, 1)])
def test_what_does_not_fit_beside_each_other_stands_below(summary: pd.DataFrame, width: int, blocks: int) -> None:
    tables = shown(summary, form(), width)
    said = text(tables, width)
    assert sum(isinstance(part, Table) for part in tables) == blocks
    assert max(map(len, said.splitlines())) <= width
    assert "…" not in said
    for cohort in ("colon", "breast"):
        for method in METHODS:
            assert ours(summary, cohort, method) in said
    assert " ".join(said.split()).count("standard deviation over 3 test folds") == 1


def test_without_figures_it_says_where_they_go(summary: pd.DataFrame) -> None:
    tables = shown(summary, form({}), 100)
    said = " ".join(text(tables, 100).split())
    assert "The study file does not give the paper's figures; add them under [published] in studies/x.toml." in said
    assert rows_of(text(tables, 100))["abmil"][1::2] == ["-", "-"]
    assert "add them under [published] in studies/x.toml" in paper_markdown(summary, form({}))


def test_phantoms_are_called_so_loudly_and_the_papers_figures_are_a_table_of_their_own(summary: pd.DataFrame) -> None:
    phantom = summary.assign(cohort="phantom " + summary["cohort"])
    wanted = form(cohorts=("phantom colon", "phantom breast"), phantom=True)
    parts = shown(phantom, wanted, 100)
    for said in (text(parts, 100), paper_markdown(phantom, wanted)):
        above, below = said.split(f"{SOURCE}, as published")
        joined = " ".join(above.split())
        assert PHANTOM in joined
        assert "NO EVIDENCE" in joined
        assert f"{SOURCE}, run on SYNTHETIC STAND-INS (PHANTOMS)" in joined
        assert ours(summary, "colon", "abmil") in above
        figures = [figure for own in FIGURES.values() for figure in own.values()]
        assert not any(figure in above for figure in figures)
        assert all(figure in below for figure in figures)
        assert "phantom" not in below.lower()
        assert ours(summary, "colon", "abmil") not in below
    notes = stacked(paper_tables(phantom, wanted)[0], 100)[-1]
    assert "bold red" in " ".join(str(span.style) for span in notes.spans)


def test_without_figures_phantoms_stand_alone(summary: pd.DataFrame) -> None:
    """Runs of older versions kept none."""
    phantom = summary.assign(cohort="phantom " + summary["cohort"])
    (table,) = paper_tables(phantom, form({}, cohorts=("phantom colon", "phantom breast"), phantom=True))
    assert table.warning == PHANTOM


def test_the_papers_table_alone_has_its_own_labels_order_and_digits() -> None:
    labels = {"rows": {"abmil": "ABMIL"}, "columns": {"breast": "Mamma"}, "corner": "Method", "folds": 7}
    table = published_table(Published(SOURCE, FIGURES, **labels))
    assert table.title == f"{SOURCE}, as published"
    assert [column.header for column in table.columns] == ["Method", "colon", "Mamma"]
    assert table.rows == [("ABMIL", "0.50 ± 0.10", "0.4321"), ("graph-mil", "0.6", "-")]
    said = " ".join(table.notes)
    assert "AUROC of 7-fold cross-validation, mean ± standard deviation" in said
    assert "Mamma is breast in the study file." in said
    plain = published_table(Published(SOURCE, {"colon": {"abmil": "0.6"}}))
    assert "standard deviation" not in " ".join(plain.notes)


def test_a_variant_that_failed_is_a_dash(summary: pd.DataFrame) -> None:
    lacking = summary[(summary["cohort"] != "colon") | (summary["variant"] != "graph-mil")]
    said = text(shown(lacking, form(), 100), 100)
    assert rows_of(said)["graph-mil"][:2] == ["-", "0.6"]
    assert "- where a job failed" in " ".join(said.split())
    assert "failed" not in text(shown(summary, form(), 100), 100)


def test_markdown_holds_the_same_table(summary: pd.DataFrame) -> None:
    page = paper_markdown(summary, form())
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert lines[0] == "| variant | colon | paper | breast | paper |"
    assert len(lines) == 2 + len(METHODS)
    row = next(line for line in lines if line.startswith("| abmil |"))
    assert (
        row
        == f"| abmil | {ours(summary, 'colon', 'abmil')} | 0.50 ± 0.10 | {ours(summary, 'breast', 'abmil')} | 0.4321 |"
    )
    assert "80 patients" in page
    bars = PaperForm(["a|b"], ["colon"], Published(SOURCE, {}))
    assert "| a\\|b | - | - |" in paper_markdown(summary, bars)
