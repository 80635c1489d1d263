"""The paper's figures in the study files are those of the paper: by a second transcription, and by its source."""

import hashlib
import re
from pathlib import Path

import pytest

from jigsawmil.study.published import Published, published_figures, published_patches

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "../shared/paper/paper.tex"
FILES = ("table1-cancers", "table2-encoders", "table3-lambda", "table5-k", "table6-convs")
# SHA-256 of the sorted lines `table|row|column|figure` of a second transcription, made independently of the first.
SECOND_TRANSCRIPTION = "a1dcd48497dc339deb75bfe83afd34ee1349ddc9b3e236fc6641f094d47fc37d"
TABLES = {  # label in the source -> number that the paper prints
    "tab:auc_comparison_across_cancer_types": 1,
    "tab:auc_comparison_across_feature_types": 2,
    "tab:auc_comparison_lambda_ablation": 3,
    "tab:tcga_brca_data_summary": 4,
    "tab:auc_comparison_k_ablation": 5,
    "tab:auc_comparison_graph_conv_ablation": 6,
}


def typed() -> dict[int, Published]:
    """Number of the table -> what the study files say."""
    found = [published_figures(ROOT / "studies" / f"{name}.toml") for name in FILES]
    found.append(published_patches(ROOT / "studies" / "table2-encoders.toml"))
    return {int(published.source.removeprefix("arXiv 2603.20386, Table ")): published for published in found}


def lines_of(number: int, published: Published) -> list[str]:
    return [
        f"Table {number}|{published.rows.get(row, row)}|{published.columns.get(column, column)}|{figure}"
        for column, own in published.figures.items()
        for row, figure in own.items()
    ]


def checksum(tables: dict[int, Published]) -> str:
    lines = sorted(line for number, table in tables.items() for line in lines_of(number, table))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def plain(cell: str) -> str:
    """A cell of the source without its commands: `0.93 ± 0.02`."""
    cell = re.sub(r"\\citep\{.*?\}", "", cell).replace("$\\pm$", "±").replace("$\\lambda$", "λ").replace("$k$", "k")
    cell = re.sub(r"\\(?:toprule|midrule|bottomrule)", "", cell)
    cell = re.sub(r"\\(?:textbf|underline)\{([^}]*)\}", r"\1", cell)
    return " ".join(cell.split())


def printed(source: str) -> dict[int, list[list[str]]]:
    """Number of the table -> its rows of cells, the header first."""
    found = {}
    for block in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", source, re.S):
        (label,) = re.findall(r"\\label\{(tab:.*?)\}", block)
        (body,) = re.findall(r"\\begin\{tabular\}\{(?:@\{\}|[lc])*\}(.*?)\\end\{tabular\}", block, re.S)
        rows = [[plain(cell) for cell in line.split("&")] for line in body.split("\\\\") if "&" in line]
        found[TABLES[label]] = rows
    return found


def test_every_figure_is_that_of_the_second_transcription() -> None:
    tables = typed()
    assert {number: len(lines_of(number, table)) for number, table in sorted(tables.items())} == {
        1: 15,
        2: 16,
        3: 21,
        4: 16,
        5: 9,
        6: 15,
    }
    assert checksum(tables) == SECOND_TRANSCRIPTION


def test_the_checksum_sees_a_digit_that_is_lost() -> None:
    tables = typed()
    own = tables[3].figures["HNSC"]
    assert own["0.5"] == "0.833 ± 0.06"
    changed = {**tables[3].figures, "HNSC": {**own, "0.5": "0.833 ± 0.060"}}
    assert checksum({**tables, 3: Published(tables[3].source, changed, tables[3].rows)}) != SECOND_TRANSCRIPTION


def test_every_figure_and_label_is_that_of_the_papers_source() -> None:
    if not PAPER.is_file():
        pytest.skip("the source of the paper is not beside the project (../shared/paper/paper.tex)")
    source = printed(PAPER.read_text(encoding="utf-8"))
    tables = typed()
    assert source.keys() == tables.keys()
    for number, table in tables.items():
        columns = [table.columns.get(name, name) for name in table.figures]
        rows = [[table.rows.get(row, row), *(own[row] for own in table.figures.values())] for row in table.variants]
        assert [[table.corner, *columns], *rows] == source[number], f"Table {number}"


def test_the_folds_are_those_that_the_paper_states() -> None:
    assert {number: table.folds for number, table in typed().items()} == {1: 3, 2: 10, 3: 3, 4: None, 5: 3, 6: 3}
