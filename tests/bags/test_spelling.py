"""Ids and labels that are one but for their spelling, and those that are not."""

import pytest

from jigsawmil.bags.spelling import plain_id, plain_label, spellings, tcga_patient


@pytest.mark.parametrize(
    "names",
    [
        ("P01", "p01", "P 01", "P-01", "P_1", "P\u200b01", "\uff30\uff10\uff11"),
        ("7", "007", "7.0", " 7 "),
        ("Ren\u00e9e", "Rene\u0301e"),
        ("TCGA-A1-A0SB", "tcga-a1-a0sb", "TCGA-A1-A0SB-01A", "TCGA.A1.A0SB.01B", "TCGA-A1-A0SB-01Z-00-DX1.2F-3C"),
    ],
)
def test_spellings_of_one_id(names: tuple[str, ...]) -> None:
    assert len({plain_id(name) for name in names}) == 1
    assert spellings(names) == [tuple(sorted(names))]


@pytest.mark.parametrize(
    "names",
    [
        ("1-11", "11-1", "111"),
        ("P1", "P10", "P11", "1P"),
        ("7.5", "75", "7"),
        ("TCGA-A1-A0SB", "TCGA-A2-A0SB", "TCGA-A1-A0SC"),
        ("-", "+", "\u00e9", "e"),
    ],
)
def test_ids_that_are_different(names: tuple[str, ...]) -> None:
    assert len({plain_id(name) for name in names}) == len(names)
    assert spellings([*names, *names, ""]) == []


def test_of_slides_the_whole_barcode_counts() -> None:
    names = ("TCGA-A1-A0SB-01Z-00-DX1", "TCGA-A1-A0SB-01Z-00-DX2")
    assert len({plain_id(name, barcode=False) for name in names}) == 2
    assert tcga_patient("tcga-a1-a0sb-01z") == "TCGA-A1-A0SB"
    assert tcga_patient("TCGA-A1-A0SBX") == tcga_patient("xTCGA-A1-A0SB") == ""


def test_labels_keep_their_signs() -> None:
    assert plain_label("Grade 1") == plain_label("grade_1") == plain_label(" GRADE\u00a01")
    assert plain_label("1") == plain_label("01") == plain_label("1.0")
    assert len({plain_label(text) for text in ("CD3+", "CD3-", "1", "-1", "10")}) == 5
