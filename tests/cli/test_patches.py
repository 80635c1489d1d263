"""`patches`: of a study's cohorts, of its stand-ins, of folders, and the paper's own. Published figures are made up."""

from pathlib import Path

import pytest

STUDY = """
[cohorts.one]
labels = "LABELS"
features = "FEATURES"

[cohorts.one.standin]
n = 12
patches = { fewest = 12, mean = 20, most = 40 }
dim = 16
classes = ["a", "b"]
balance = 0.5

[variants.abmil]

[published_patches]
source = "A paper, Table 8"
corner = "Method"
rows = { dim = "Width", most = "Most" }
columns = { one = "eins" }
one = { dim = 999, most = "7777" }
"""


@pytest.fixture
def file(tmp_path: Path, cohort: Path) -> Path:
    text = STUDY.replace("LABELS", str(cohort / "labels.csv")).replace("FEATURES", str(cohort / "features"))
    (tmp_path / "s.toml").write_text(text)
    return tmp_path / "s.toml"


def rows_of(out: str) -> dict[str, list[str]]:
    """Label -> its cells."""
    parts = [line.split("  ") for line in out.splitlines()]
    return {words[0].strip(): [cell.strip() for cell in words[1:] if cell.strip()] for words in parts}


def test_a_cohorts_patches_stand_beside_the_papers(jigsawmil, file: Path, cohort: Path, table) -> None:
    out = file.parent / "new" / "patches.csv"
    ran = jigsawmil("patches", file, "--out", out)
    assert ran.code == 0, ran.err
    rows, (written,) = rows_of(ran.out), table(out).to_dict("records")
    assert written["cohort"] == "one"
    assert rows["Slides"] == ["18", "-"]
    assert rows["Embedding dim"] == [str(written["dim"]), "999"]
    assert rows["Patches per slide (mean)"] == [f"{float(written['mean']):.1f}", "-"]
    assert rows["Patches per slide (max)"] == [str(written["most"]), "7777"]
    assert "A paper, Table 8" in ran.out
    assert "PHANTOM" not in ran.out


def test_folders_are_columns(jigsawmil, cohort: Path) -> None:
    ran = jigsawmil("patches", cohort / "features", cohort / "features" / ".." / "features", columns=400)
    assert ran.code == 0, ran.err
    assert rows_of(ran.out)["Slides"] == ["18", "18"]  # two folders of one name are two columns
    alone = jigsawmil("patches", cohort / "features")
    assert " features\n" in alone.out


def test_standins_are_counted_without_being_drawn_and_the_papers_are_below(jigsawmil, file: Path) -> None:
    ran = jigsawmil("patches", file, "--phantom")
    assert ran.code == 0, ran.err
    ours, paper = ran.out.split("A paper, Table 8, as published")
    rows = rows_of(ours)
    assert (rows["Slides"], rows["Embedding dim"]) == (["12"], ["16"])
    assert (rows["Patches per slide (min)"], rows["Patches per slide (max)"]) == (["12"], ["40"])
    assert "NO EVIDENCE" in ours
    assert "7777" not in ours
    assert "7777" in paper
    assert list(file.parent.iterdir()) == [file]


def test_the_papers_table_alone(jigsawmil, file: Path) -> None:
    ran = jigsawmil("patches", file, "--published")
    assert ran.code == 0, ran.err
    assert [line.split() for line in ran.out.splitlines()][1:5:2] == [["Method", "eins"], ["Width", "999"]]
    assert "Slides" not in ran.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{folder}", "--published"], "need one study file"),
        (["{folder}", "--phantom"], "need one study file"),
        (["{file}", "--unit", "px"], "do not apply to a study file"),
        (["{folder}/nowhere"], "no such folder"),
    ],
)
def test_wrong_input_is_refused(jigsawmil, file: Path, cohort: Path, words: list[str], told: str) -> None:
    ran = jigsawmil("patches", *(word.format(folder=cohort / "features", file=file) for word in words))
    assert ran.code == 1
    assert told in " ".join(ran.err.split())
