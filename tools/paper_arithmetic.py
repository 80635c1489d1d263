"""What docs/paper.md derives from the paper's tables, and docs/lambda.md from the EM rule, as numbers.

`python -m tools.paper_arithmetic` prints them, from the figures under `[published]` in `studies/`. A test holds the
pages to what it prints.
"""

import math
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

from jigsawmil.study.published import published_figures, published_patches

from . import ROOT

STUDIES = ROOT / "studies"
FILES = {1: "cancers", 2: "encoders", 3: "lambda", 5: "k", 6: "convs"}
CANCERS = ("BRCA", "HNSC", "COAD")
ENCODERS = ("GigaPath", "RetCCL", "UNI", "Virchow2")
JIGSAW, GAT, EM = "Graph-ABMIL + Jigsaw", "Spatial-GAT (Ours)", "EM Update"
FIXED = ("0.01", "0.1", "0.5", "1.0", "2.0", "5.0")
CELLS = 100  # G = 10


class Tables:
    """The paper's tables by row and column, as printed; Table 5's column MSI is called COAD, as elsewhere."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, str, str], str] = {}
        found = {n: published_figures(STUDIES / f"table{n}-{name}.toml") for n, name in FILES.items()}
        found[4] = published_patches(STUDIES / "table2-encoders.toml")
        for number, table in found.items():
            for column, figures in table.figures.items():
                for row, figure in figures.items():
                    self.cells[number, table.rows.get(row, row), column] = figure

    def auc(self, table: int, row: str, column: str) -> Decimal:
        return Decimal(self.cells[table, row, column].split(" ± ")[0])

    def std(self, table: int, row: str, column: str) -> Decimal:
        return Decimal(self.cells[table, row, column].split(" ± ")[1])

    def row(self, table: int, row: str, columns: Iterable[str] = CANCERS) -> str:
        return ", ".join(str(self.auc(table, row, column)) for column in columns)

    def gain(self, new: tuple[int, str], old: tuple[int, str], columns: Iterable[str] = CANCERS) -> str:
        return ", ".join(signed(self.auc(*new, column) - self.auc(*old, column)) for column in columns)

    def place(self, table: int, row: str, column: str, rows: Iterable[str]) -> str:
        """The rank of a row among rows, the largest first."""
        values = sorted((self.auc(table, other, column) for other in rows), reverse=True)
        return f"{values.index(self.auc(table, row, column)) + 1} of {len(values)}"


def rounded(value: Decimal, digits: int = 3) -> str:
    return str(value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def signed(value: Decimal, digits: int = 3) -> str:
    return f"{Decimal(rounded(value, digits)):+}"


def mean(values: Iterable[Decimal]) -> Decimal:
    found = list(values)
    return sum(found, Decimal(0)) / len(found)


def disagreements(t: Tables) -> dict[int, list[str]]:
    """By the number of the item in "Where the text and the tables disagree"; items without arithmetic are left out."""
    rise = t.auc(1, "Graph-ABMIL", "BRCA") / t.auc(1, "ABMIL", "BRCA") - 1
    boost = t.auc(1, JIGSAW, "HNSC") / t.auc(1, "Graph-ABMIL", "HNSC") - 1
    rows = (*FIXED, EM)
    ks = ("8", "24", "50")
    convs = (GAT, "GCN", "GIN", "SAGE", "ABMIL")
    spread = {k: max(t.auc(5, k, c) for c in CANCERS) - min(t.auc(5, k, c) for c in CANCERS) for k in ks}
    return {
        1: [
            f"Graph-ABMIL in Table 1: {t.row(1, 'Graph-ABMIL')}; in Table 5: {t.row(5, '50')}",
            f"in Table 6: {t.row(6, GAT)}; Table 1 minus Table 6: {t.gain((1, 'Graph-ABMIL'), (6, GAT))}",
            f"ABMIL in Table 1: {t.row(1, 'ABMIL')}; in Table 6: {t.row(6, 'ABMIL')}",
        ],
        2: [
            f"headline: {t.row(1, JIGSAW)}; lambda 0.5: {t.row(3, '0.5')}; EM: {t.row(3, EM)}",
            f"largest of COAD in Table 3: {max(t.auc(3, row, 'COAD') for row in rows)}, at lambda 5.0",
            f"headline minus lambda 0.5: {t.gain((1, JIGSAW), (3, '0.5'))}",
        ],
        3: [
            f"Table 1: {t.gain((1, JIGSAW), (1, 'Graph-ABMIL'))}",
            f"lambda 0.5 over Table 6: {t.gain((3, '0.5'), (6, GAT))}",
            f"EM over Table 1: {t.gain((3, EM), (1, 'Graph-ABMIL'))}; over Table 6: {t.gain((3, EM), (6, GAT))}",
            f"EM over ABMIL of Table 1: {t.gain((3, EM), (1, 'ABMIL'))}",
        ],
        4: ["in the text: 1,133 slides, 1,009 of them labelled, 892 used"],
        8: [f"mean patches of {name}: {t.cells[4, 'Num of patches (avg)', name]}" for name in ("UNI", "Virchow2")],
        10: [f"COAD at k = 24: {t.auc(5, '24', 'COAD')}; in the text: 0.831"],
        11: ["PANDA in the text: 10,615; Kaggle: 10,616"],
        12: [
            f"BRCA, ABMIL to Graph-ABMIL: {t.auc(1, 'ABMIL', 'BRCA')} to {t.auc(1, 'Graph-ABMIL', 'BRCA')}, "
            f"{t.gain((1, 'Graph-ABMIL'), (1, 'ABMIL'), ['BRCA'])}, {signed(100 * rise, 1)} %; in the text: +6.6 %, "
            f"which would end at {rounded(t.auc(1, 'ABMIL', 'BRCA') * Decimal('1.066'))}",
            f"HNSC, Graph-ABMIL to jigsaw: {t.auc(1, 'Graph-ABMIL', 'HNSC')} to {t.auc(1, JIGSAW, 'HNSC')}, "
            f"{signed(100 * boost, 1)} %",
        ],
        13: [
            f"ABMIL+Jigsaw over ABMIL: {t.gain((1, 'ABMIL+Jigsaw'), (1, 'ABMIL'))}",
            f"COAD: Graph-MIL {t.auc(1, 'Graph-MIL', 'COAD')}, jigsaw {t.auc(1, JIGSAW, 'COAD')}",
            f"Table 2, jigsaw over Graph-ABMIL: {t.gain((2, JIGSAW), (2, 'Graph-ABMIL'), ENCODERS)}",
        ],
        14: [
            f"Graph-ABMIL over Graph-MIL, Table 1: {t.gain((1, 'Graph-ABMIL'), (1, 'Graph-MIL'))}",
            f"Table 2: {t.gain((2, 'Graph-ABMIL'), (2, 'Graph-MIL'), ENCODERS)}",
        ],
        15: [
            f"jigsaw over ABMIL, Table 1: {t.gain((1, JIGSAW), (1, 'ABMIL'))}",
            f"Table 2: {t.gain((2, JIGSAW), (2, 'ABMIL'), ENCODERS)}",
            f"Graph-MIL over ABMIL on RetCCL: {t.gain((2, 'Graph-MIL'), (2, 'ABMIL'), ['RetCCL'])}",
            f"Graph-ABMIL over ABMIL on Virchow2: {t.gain((2, 'Graph-ABMIL'), (2, 'ABMIL'), ['Virchow2'])}",
        ],
        16: [
            f"rank of EM: {', '.join(t.place(3, EM, cohort, rows) for cohort in CANCERS)}",
            f"COAD: EM {t.cells[3, EM, 'COAD']}; mid-range 0.5, 1.0, 2.0: "
            f"{', '.join(t.cells[3, row, 'COAD'] for row in ('0.5', '1.0', '2.0'))}",
            f"smaller spread than EM: 0.1 with {t.std(3, '0.1', 'COAD')}, 5.0 with {t.std(3, '5.0', 'COAD')}",
        ],
        17: [f"COAD at {row}: {t.auc(3, row, 'COAD')}" for row in ("0.01", "1.0", "5.0")],
        18: [
            f"k = 8, 24, 50: BRCA {', '.join(str(t.auc(5, k, 'BRCA')) for k in ks)}; "
            f"COAD {', '.join(str(t.auc(5, k, 'COAD')) for k in ks)}",
            f"mean over cohorts: {', '.join(rounded(mean(t.auc(5, k, c) for c in CANCERS)) for k in ks)}",
            f"best minus worst cohort: {', '.join(rounded(spread[k]) for k in ks)}",
            f"mean standard deviation: {', '.join(rounded(mean(t.std(5, k, c) for c in CANCERS)) for k in ks)}",
        ],
        19: [
            f"BRCA, over ABMIL, of GAT, GCN, GIN, SAGE: "
            f"{', '.join(t.gain((6, conv), (6, 'ABMIL'), ['BRCA']) for conv in convs[:4])}",
            f"ABMIL's rank in the column: BRCA {t.place(6, 'ABMIL', 'BRCA', convs)}, "
            f"COAD {t.place(6, 'ABMIL', 'COAD', convs)}",
            f"HNSC: SAGE {t.auc(6, 'SAGE', 'HNSC')}, ABMIL {t.auc(6, 'ABMIL', 'HNSC')}",
        ],
        20: [
            f"HNSC: jigsaw over Graph-ABMIL {t.gain((1, JIGSAW), (1, 'Graph-ABMIL'), ['HNSC'])}; "
            f"standard deviation at lambda 0.5: {t.std(3, '0.5', 'HNSC')}"
        ],
    }


def claims(t: Tables) -> list[str]:
    """For "What the paper reports", beside the figures of the tables themselves."""
    gains = [t.auc(2, JIGSAW, encoder) - t.auc(2, "ABMIL", encoder) for encoder in ENCODERS]
    best = [t.auc(2, JIGSAW, encoder) for encoder in ENCODERS]
    return [
        f"Table 2: jigsaw over ABMIL {signed(min(gains))} to {signed(max(gains))}; best minus worst encoder "
        f"{rounded(max(best) - min(best))}",
    ]


def em_rule() -> list[str]:
    """For docs/lambda.md: what lambda = a / (b + L) gives."""
    start = math.log(CELLS)
    losses = (start, 3, math.log(4), 0.5, 0.1)
    lines = [f"log 100 = {start:.3f}, log 4 = {math.log(4):.3f}"]
    for a, b in ((1, 1), (10, 10), (0.1, 0.1), (1, 0.1)):
        lines.append(f"a, b = {a}, {b}: {' '.join(f'{a / (b + loss):.3f}' for loss in losses)}, at 0 {a / b:g}")
    mil, em = math.log(2), 1 / (1 + start)
    share = [weight * start / (mil + weight * start) for weight in (em, 0.5)]
    return [
        *lines,
        f"summed over 2,950 patches, a = b = 1: {1 / (1 + 2950 * start):.5f}",
        f"share of the loss at the start: em {share[0]:.0%}, fixed 0.5 {share[1]:.0%}; 0.5 / em: {0.5 / em:.1f}",
        f"balanced at the start: {mil / start:.3f}; em at log 4: {1 / (1 + math.log(4)):.2f}",
    ]


def main() -> None:
    tables = Tables()
    print("Where the text and the tables disagree (docs/paper.md)")
    for number, lines in disagreements(tables).items():
        print(*(f"{number:4}. {line}" for line in lines), sep="\n")
    print("\nWhat the paper reports (docs/paper.md)", *claims(tables), sep="\n")
    print("\nThe EM rule (docs/lambda.md)", *em_rule(), sep="\n")


if __name__ == "__main__":
    main()
