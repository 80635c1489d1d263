"""`jigsawmil labels`: what it writes, prints and refuses, and that `check` and `compare` take the result."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

CLINICAL = Path(__file__).resolve().parents[2] / "../shared/data/clinical"
Table = Callable[[Path], pd.DataFrame]


@pytest.fixture
def coad(tmp_path: Path) -> list[object]:
    """A table of 12 patients with COAD and one with READ, and a folder with a diagnostic and a frozen slide of each."""
    lines = ["Patient ID,TCGA PanCanAtlas Cancer Type Acronym,MSIsensor Score"]
    folder = tmp_path / "features"
    folder.mkdir()
    for i in range(13):
        lines.append(f"TCGA-AA-{i:04},{'READ' if i == 12 else 'COAD'},{20 * (i % 2)}")
        for end in ("01Z-00-DX1", "01A-01-TS1"):
            with h5py.File(folder / f"TCGA-AA-{i:04}-{end}.h5", "w") as file:
                file["features"] = np.random.default_rng(i).normal(size=(8, 4)).astype(np.float32)
                file["coords"] = 256 * np.arange(16).reshape(8, 2)
                file["coords"].attrs.update(patch_size=256, patch_size_level0=256)
    (tmp_path / "clinical.csv").write_text("\n".join(lines))
    return ["tcga-coad", "--clinical", tmp_path / "clinical.csv", "--features", folder]


def test_the_table_the_rest_and_the_account(jigsawmil, coad, tmp_path: Path, table: Table) -> None:
    out = tmp_path / "new" / "labels.csv"
    ran = jigsawmil("labels", *coad, "--out", out)
    assert ran.code == 0, ran.err
    made, rest = table(out), pd.read_csv(out.with_name("labels_dropped.csv"), dtype=str, keep_default_na=False)
    assert list(made) == ["slide_id", "patient_id", "label", "site"]
    assert made["label"].value_counts().to_dict() == {"MSS": 6, "MSI": 6}
    assert rest.groupby("rule").size().to_dict() == {
        "cancer type COAD": 1,
        "diagnostic slide (DX)": 12,
        "has a label": 2,
    }
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "rows of clinical.csv - 13 - - -" in lines
    assert "cancer type COAD - 12 - 1 1 READ: 1" in lines
    assert "slides in features/ 26 13 - - -" in lines
    assert "has a label 24 12 2 1 2 READ: 2" in lines
    assert "diagnostic slide (DX) 12 12 12 - 12 frozen (TS): 12" in lines
    assert "12 slides of 12 patients. MSI: 6, MSS: 6." in lines


def test_the_next_command_works(jigsawmil, coad, quick, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = jigsawmil("labels", *coad, "--out", "labels.csv", "--quiet")
    (line,) = [line for line in ran.out.splitlines() if line.startswith("Next: jigsawmil ")]
    assert "--positive MSI" in line
    words = line.removeprefix("Next: jigsawmil ").split()
    compared = jigsawmil(*words, *quick, "--methods", "abmil", "--folds", "2", "--quiet")
    assert compared.code == 0, compared.err
    assert "positive class MSI; 12 patients" in compared.out
    checked = jigsawmil("check", "--labels", "labels.csv", "--features", tmp_path / "features")
    assert "12 slides of 12 patients can be used" in checked.out


def test_quiet_leaves_the_result(jigsawmil, coad, tmp_path: Path) -> None:
    ran = jigsawmil("labels", *coad, "--out", tmp_path / "labels.csv", "--quiet")
    assert ran.code == 0
    assert "dropped, by value" not in ran.out
    assert "12 slides of 12 patients" in ran.out


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_the_table_fits_the_terminal(jigsawmil, coad, tmp_path: Path, columns: int) -> None:
    ran = jigsawmil("labels", *coad, "--out", tmp_path / "labels.csv", columns=columns)
    shown = ran.out[: ran.out.index("12 slides of")]
    assert max(map(len, shown.splitlines())) <= columns
    assert "…" not in shown  # no figure is cut


def test_grades_are_ordinal_and_providers_sites(jigsawmil, tmp_path: Path, table: Table) -> None:
    rows = ["image_id,data_provider,isup_grade,gleason_score", "01,radboud,0,negative", "02,karolinska,5,4+5"]
    (tmp_path / "train.csv").write_text("\n".join(rows))
    ran = jigsawmil("labels", "panda", "--clinical", tmp_path / "train.csv", "--out", tmp_path / "labels.csv")
    assert "--ordinal --site-column site" in ran.out
    assert "0: 1, 5: 1." in ran.out
    assert table(tmp_path / "labels.csv")["slide_id"].tolist() == ["01", "02"]


def test_help_has_an_example_and_the_recipes(jigsawmil) -> None:
    said = " ".join(jigsawmil("labels", "--help", columns=200).out.split())
    assert "Example: jigsawmil labels tcga-coad --clinical clinical.xlsx --features features --out labels.csv" in said
    for recipe in ("tcga-brca", "tcga-coad", "tcga-hnsc", "tcga-nsclc", "panda", "camelyon16"):
        assert recipe in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({0: "tcga-colon"}, ["found 'tcga-colon'", "Did you mean 'tcga-coad'?"]),
        ({0: "tcga-luad"}, ["part of tcga-nsclc", "Give tcga-nsclc"]),
        ({0: "tcga-hnsc"}, ["no column subtype", "Found the columns 'Patient ID'"]),
        ({2: "absent.csv"}, ["absent.csv", "there is no such file"]),
        ({4: "absent"}, ["absent", "no such folder"]),
        ({5: "--several", 6: "drop"}, ["--several", "'drop'", "remove, keep"]),
        ({5: "--kind", 6: "ffpe"}, ["--kind", "'ffpe'", "diagnostic, frozen, both"]),
        ({5: "--slides", 6: "clinical.csv"}, ["no column of slides"]),
        ({5: "--out", 6: "labels.xlsx"}, ["'.xlsx'", "expected .csv"]),
    ],
)
def test_wrong_input_is_refused_and_nothing_written(
    jigsawmil, coad, tmp_path: Path, monkeypatch, change, words
) -> None:
    monkeypatch.chdir(tmp_path)
    given = dict(enumerate(coad)) | change
    out = [] if "--out" in given.values() else ["--out", "labels.csv"]
    ran = jigsawmil("labels", *given.values(), *out)
    assert ran.code == 1, ran.out
    assert "Traceback" not in ran.err
    said = " ".join(ran.err.split())
    assert [word for word in ["Error: ", *words] if word not in said] == []
    assert not list(tmp_path.glob("labels*"))


def test_the_real_list_of_brca(jigsawmil, tmp_path: Path) -> None:
    if not CLINICAL.is_dir():
        pytest.skip("the real clinical tables are not beside the project (../shared/data/clinical)")
    given = ["--clinical", CLINICAL / "tcga_brca_slides.csv", "--out", tmp_path / "labels.csv"]
    ran = jigsawmil("labels", "tcga-brca", *given)
    assert "802 slides of 802 patients. IDC: 663, ILC: 139." in ran.out
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "stage slides paper patients paper IDC paper ILC paper" in lines
    assert "all slides 937 1,133 897 1,062 - - - -" in lines
    assert "ductal or lobular 875 1,009 837 948 726 805 149 204" in lines
    assert "one per patient 802 892 802 892 663 710 139 182" in lines
    assert "937 slides here and 1,133 in the paper; 93.4 % and 89.1 % of them have a label" in " ".join(lines)
    kept = jigsawmil("labels", "tcga-brca", *given, "--several", "keep")
    assert "875 slides of 837 patients. IDC: 726, ILC: 149." in kept.out
    assert "one per patient - 892 - 892 - 710 - 182" in [" ".join(line.split()) for line in kept.out.splitlines()]
    quiet = jigsawmil("labels", "tcga-brca", *given, "--quiet")
    assert "in the paper" not in quiet.out


def test_only_the_cohort_that_the_paper_counts_is_shown_beside_it(jigsawmil, coad, tmp_path: Path) -> None:
    assert "in the paper" not in jigsawmil("labels", *coad, "--out", tmp_path / "labels.csv").out
    rows = ["Patient ID,Oncotree Code", "TCGA-AA-0001,IDC", "TCGA-AA-0002,ILC"]
    (tmp_path / "clinical.csv").write_text("\n".join(rows))
    given = ["tcga-brca", "--clinical", tmp_path / "clinical.csv", "--out", tmp_path / "labels.csv"]
    assert "in the paper" not in jigsawmil("labels", *given).out  # patients alone: no slides to count
