"""Recipes on tables made by hand, rule by rule, and on the real ones where they are beside the project."""

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.labels import read_labels
from jigsawmil.cohort.recipes import RECIPES, Count, Labelled, label_table, make_labels, reasons_text
from jigsawmil.cohort.recipes.rules import barcode
from jigsawmil.cohort.recipes.tables import read_clinical, read_institutions
from jigsawmil.errors import ConfigError, FeatureError, LabelError

CLINICAL = Path(__file__).resolve().parents[2] / "../shared/data/clinical"
PAN = "Patient ID\tSample ID\tTCGA PanCanAtlas Cancer Type Acronym\tOncotree Code\tMSIsensor Score\tSubtype"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def pan_cancer(folder: Path, *rows: str) -> Path:
    """The columns of cBioPortal's table; a row is `patient acronym oncotree score subtype`."""
    lines = [PAN]
    for row in rows:
        patient, *values = row.split()
        lines.append("\t".join([f"TCGA-{patient}", f"TCGA-{patient}-01", *values]))
    return write(folder / "clinical.tsv", "\n".join(lines))


def slide_list(folder: Path, *rows: str) -> Path:
    """As the lists of TCGA-BRCA are: `patient slide code`."""
    lines = ["case_id,slide_id,oncotree_code"]
    for row in rows:
        patient, slide, code = row.split()
        lines.append(f"TCGA-{patient},TCGA-{patient}-{slide}.svs,{code}")
    return write(folder / "slides.csv", "\n".join(lines))


def features(folder: Path, *names: str) -> Path:
    (folder / "features").mkdir()
    for name in names:
        with h5py.File(folder / "features" / f"{name}.h5", "w") as file:
            file["features"] = np.random.default_rng(list(name.encode())).random((3, 4), np.float32)
            file["coords"] = np.arange(6).reshape(3, 2)
            file["coords"].attrs.update(patch_size=256, patch_size_level0=256)
    return folder / "features"


def told(made: Labelled) -> dict[str, dict[str, tuple[int, int]]]:
    """Rule -> reason -> (slides, patients) dropped, for the rules that dropped something."""
    return {step.rule: {why: tuple(n) for why, n in step.dropped.items()} for step in made.steps if step.dropped}


def labels(made: Labelled, key: str = "slide_id") -> dict[str, str]:
    return dict(zip(made.labels[key], made.labels["label"], strict=True))


def check_account(made: Labelled) -> None:
    """Nothing is lost: what each rule kept and dropped adds up, and all that was dropped is in the table."""
    before = made.steps[0]
    for step in made.steps[1:]:
        if not step.opens:
            assert Count(*np.add(step.kept, step.lost)) == before.kept, step.rule
        before = step
    sizes = made.dropped.groupby(["rule", "reason"]).size()
    for step in made.steps:
        for reason, n in step.dropped.items():
            assert sizes[step.rule, reason] >= max(n)
    assert set(made.dropped["reason"]) == {reason for step in made.steps for reason in step.dropped}
    assert (made.dropped[["rule", "reason"]] != "").all(axis=None)
    assert sum(n.slides for n in made.classes.values()) == made.steps[-1].kept.slides


# Rules, one by one


def test_brca_keeps_ductal_and_lobular_patients_with_one_slide(tmp_path: Path) -> None:
    rows = ["A1-0001 01Z-00-DX1 IDC", "A2-0002 01Z-00-DX1 ILC", "A2-0003 01Z-00-DX1 MDLC", "A2-0004 01Z-00-DX1 MBC"]
    rows += ["A3-0005 01Z-00-DX1 IDC", "A3-0005 01Z-00-DX2 IDC", "A3-0006 01Z-00-DX1 MDLC"]
    table = slide_list(tmp_path, *rows)
    made = make_labels("tcga-brca", table)
    check_account(made)
    assert labels(made) == {"TCGA-A1-0001-01Z-00-DX1": "IDC", "TCGA-A2-0002-01Z-00-DX1": "ILC"}
    assert told(made) == {
        "ductal (IDC) or lobular (ILC)": {"MDLC (mixed ductal and lobular)": (2, 2), "MBC (metaplastic)": (1, 1)},
        "one slide per patient": {"2 slides": (2, 1)},
    }
    assert made.labels["site"].tolist() == ["A1", "A2"]
    both = make_labels("tcga-brca", table, several="keep")
    assert both.labels["patient_id"].value_counts()["TCGA-A3-0005"] == 2
    assert len(both.labels) == 4


def test_stages_are_all_slides_those_with_a_label_and_those_of_patients_with_one(tmp_path: Path) -> None:
    rows = ["A1-0001 01Z-00-DX1 IDC", "A2-0002 01Z-00-DX1 ILC", "A2-0003 01Z-00-DX1 MDLC"]
    rows += ["A3-0005 01Z-00-DX1 IDC", "A3-0005 01Z-00-DX2 IDC"]
    table = slide_list(tmp_path, *rows)
    every, labelled, one = make_labels("tcga-brca", table).stages
    assert (every.kept, labelled.kept, one.kept) == (Count(5, 4), Count(4, 3), Count(2, 2))
    assert (labelled.classes, one.classes) == ({"IDC": 3, "ILC": 1}, {"IDC": 1, "ILC": 1})
    every, labelled, one = make_labels("tcga-brca", table, several="keep").stages
    assert (every.kept, labelled.kept, one) == (Count(5, 4), Count(4, 3), None)
    rows = ["A1-0001 BRCA IDC 0 NA", "A2-0002 BRCA ILC 0 NA", "A3-0005 BRCA IDC 0 NA", "A4-0006 BRCA IDC 0 NA"]
    every, labelled, one = make_labels("tcga-brca", pan_cancer(tmp_path, *rows), slides=table).stages
    assert (every.kept, labelled.kept, one.kept) == (Count(5, 4), Count(4, 3), Count(2, 2))  # of the list of slides


def test_the_papers_counts_of_brca_are_consistent() -> None:
    every, labelled, one = RECIPES["tcga-brca"].paper.stages
    assert (every.slides, every.patients) == (1133, 1062)
    assert sum(labelled.classes.values()) == labelled.slides == 1009
    assert sum(one.classes.values()) == one.slides == one.patients == 892
    assert labelled.slides - one.slides >= 2 * (labelled.patients - one.patients)  # the removed have two or more


def test_dropped_slides_are_named_with_rule_and_value(tmp_path: Path) -> None:
    made = make_labels("tcga-brca", slide_list(tmp_path, "A1-0001 01Z-00-DX1 IDC", "A1-0002 01Z-00-DX1 PD"))
    (row,) = made.dropped.to_dict("records")
    assert row == {
        "slide_id": "TCGA-A1-0002-01Z-00-DX1",
        "patient_id": "TCGA-A1-0002",
        "rule": "ductal (IDC) or lobular (ILC)",
        "reason": "PD (Paget)",
    }
    assert "needs two classes" in " ".join(made.notes)


@pytest.mark.parametrize(
    ("score", "label"),
    [("9.99", "MSS"), ("10", "MSI"), ("10.0", "MSI"), ("10.01", "MSI"), ("0", "MSS"), ("1e1", "MSI")],
)
def test_msi_begins_at_ten(tmp_path: Path, score: str, label: str) -> None:
    made = make_labels("tcga-coad", pan_cancer(tmp_path, f"AA-0001 COAD COAD {score} NA"))
    assert labels(made, "patient_id") == {"TCGA-AA-0001": label}


def test_coad_drops_other_cancers_and_missing_scores(tmp_path: Path) -> None:
    rows = ["AA-0001 COAD COAD 0.5 COAD_CIN", "AA-0002 COAD MACR 33 COAD_MSI", "AA-0003 COAD COAD NA COAD_MSI"]
    rows += [
        "AA-0004 READ READ 40 READ_MSI",
        "AA-0005 BRCA IDC 40 NA",
        "AA-0006 COAD COAD 1,5 NA",
        "AA-0007 COAD COAD inf NA",
    ]
    made = make_labels("tcga-coad", pan_cancer(tmp_path, *rows))
    check_account(made)
    assert labels(made, "patient_id") == {"TCGA-AA-0001": "MSS", "TCGA-AA-0002": "MSI"}
    assert told(made) == {
        "cancer type COAD": {"BRCA": (0, 1), "READ": (0, 1)},
        "MSIsensor score given": {"not a number: 1,5": (0, 1), "not a number: inf": (0, 1), "score missing": (0, 1)},
    }


def test_the_data_files_of_cbioportal_are_read_too(tmp_path: Path) -> None:
    """Comment lines, other names, and no acronym: the mucinous ones are of the colon."""
    lines = [
        "#Patient\tSample\tCode\tScore",
        "#STRING\tSTRING\tSTRING\tNUMBER",
        "PATIENT_ID\tSAMPLE_ID\tONCOTREE_CODE\tMSI_SENSOR_SCORE",
    ]
    lines += [
        f"TCGA-AA-000{i}\tTCGA-AA-000{i}-01\t{code}\t{score}" for i, code, score in ((1, "MACR", 12), (2, "READ", 0))
    ]
    made = make_labels("tcga-coad", write(tmp_path / "data_clinical_sample.txt", "\n".join(lines)))
    assert labels(made, "patient_id") == {"TCGA-AA-0001": "MSI"}


def test_hpv_comes_from_the_subtype(tmp_path: Path) -> None:
    rows = ["BA-0001 HNSC HNSC 0 HNSC_HPV+", "BA-0002 HNSC HNSC 0 HNSC_HPV-", "BA-0003 HNSC HNSC 0 NA"]
    made = make_labels("tcga-hnsc", pan_cancer(tmp_path, *rows, "BA-0004 CESC CESC 0 NA"))
    check_account(made)
    assert labels(made, "patient_id") == {"TCGA-BA-0001": "HPV+", "TCGA-BA-0002": "HPV-"}
    assert told(made) == {
        "cancer type HNSC": {"CESC": (0, 1)},
        "HPV status in the subtype": {"subtype missing": (0, 1)},
    }


def test_nsclc_and_the_institutions_behind_the_codes(tmp_path: Path) -> None:
    """TCGA gave an institution one code for each cancer, so that the code alone tells the class."""
    table = pan_cancer(tmp_path, "05-0001 LUAD LUAD 0 NA", "66-0002 LUSC LUSC 0 NA", "NA-0003 LUAD LUAD 0 NA")
    made = make_labels("tcga-nsclc", table)
    assert labels(made, "patient_id") == {"TCGA-05-0001": "LUAD", "TCGA-66-0002": "LUSC", "TCGA-NA-0003": "LUAD"}
    assert made.labels["site"].tolist() == ["05", "66", "NA"]
    assert "Every one of the 3 sites holds one class only" in " ".join(made.notes)
    assert not made.site_column
    sites = write(tmp_path / "sites.csv", "TSS Code;Source Site\n5;Indivumed\n66;Indivumed\nNA;Duke\n")
    made = make_labels("tcga-nsclc", table, sites=sites)
    assert made.labels["site"].tolist() == ["Indivumed", "Indivumed", "Duke"]
    assert not any("one class only" in note for note in made.notes)
    assert made.site_column


def test_a_code_without_institution_stays_and_is_told(tmp_path: Path) -> None:
    sites = write(tmp_path / "sites.csv", "TSS Code;Source Site\n05;Indivumed\n")
    made = make_labels("tcga-nsclc", pan_cancer(tmp_path, "05-0001 LUAD L 0 NA", "ZZ-0002 LUSC L 0 NA"), sites=sites)
    assert made.labels["site"].tolist() == ["Indivumed", "ZZ"]
    assert any("kept as codes: ZZ" in note for note in made.notes)


@pytest.mark.parametrize(
    "header", ["image_id,data_provider,isup_grade,gleason_score", "slide_id,data_provider,label,x"]
)
def test_panda_grades_and_providers(tmp_path: Path, header: str) -> None:
    """Kaggle's own table, and the list that came with GigaPath."""
    rows = [
        "a1,karolinska,0,0+0",
        "b2,radboud,5.0,4+5",
        "c3,radboud,6,4+5",
        "d4,karolinska,,3+3",
        "a1,karolinska,0,0+0",
    ]
    made = make_labels("panda", write(tmp_path / "train.csv", "\n".join([header, *rows])))
    check_account(made)
    assert made.labels.to_numpy().tolist() == [["a1", "a1", "0", "karolinska"], ["b2", "b2", "5", "radboud"]]
    assert told(made) == {
        "ISUP grade 0 to 5": {"6": (1, 1), "grade missing": (1, 1)},
        "one row per slide": {"repeated row": (1, 0)},
    }
    assert made.site_column
    table = read_labels_of(made, tmp_path, site_column="site")
    assert table.rows["site"].tolist() == ["karolinska", "radboud"]


# CAMELYON16: the lines of its reference are test_001,Tumor,IDC,Macro without a header, with CRLF


def test_camelyon_training_slides_say_their_class(tmp_path: Path) -> None:
    folder = features(tmp_path, "normal_001", "tumor_001", "test_001", "slide")
    made = make_labels("camelyon16", features=folder)
    check_account(made)
    assert labels(made) == {"normal_001": "normal", "tumor_001": "tumor"}
    assert told(made)["normal or tumor"] == {"another name": (1, 1), "test slide, not in a reference": (1, 1)}


@pytest.mark.parametrize(
    "text",
    [
        "test_001,Tumor,IDC,Macro\r\ntest_002,Normal,None,None\r\ntest_003,Tumor,ILC,Micro",
        "slide_id,label\ntest_001.tif,tumor\ntest_002.tif,normal\ntest_003.tif,tumor\n",
        "NAME,LABEL\ntest_001,Tumor\ntest_002,Normal\ntest_003,Tumor\n",
    ],
)
def test_camelyon_test_slides_have_it_in_the_reference(tmp_path: Path, text: str) -> None:
    """In any spelling of names: the folder's own is kept."""
    reference = tmp_path / "reference.csv"
    reference.write_bytes(text.encode())
    assert labels(make_labels("camelyon16", reference)) == {
        "test_001": "tumor",
        "test_002": "normal",
        "test_003": "tumor",
    }
    folder = features(tmp_path, "Normal_086", "Test_001", "Test_002", "Test_004")
    made = make_labels("camelyon16", reference, features=folder)
    check_account(made)
    assert labels(made) == {"Normal_086": "normal", "Test_001": "tumor", "Test_002": "normal"}
    assert told(made)["has a slide in features/"] == {"no slide": (1, 1)}
    assert set(made.dropped["slide_id"]) == {"test_003", "Test_004"}
    assert any("Normal_086 (reported to hold tumour)" in note for note in made.notes)


# Patients joined to slides


@pytest.mark.parametrize(
    ("name", "sample", "kind"),
    [
        ("TCGA-3C-AALI-01Z-00-DX1.F6E9A5DF-D8FB", "01", "DX"),
        ("TCGA-A6-2671-01A-01-BS1.13ceec", "01", "BS"),
        ("TCGA-A6-2671-11A-01-TS1", "11", "TS"),
        ("TCGA-A6-2671-01A-02-MSA", "01", "MS"),
        ("TCGA-A6-2671-06", "06", ""),
        ("TCGA-A6-2671", "", ""),
        ("normal_001", "", ""),
    ],
)
def test_what_a_barcode_tells(name: str, sample: str, kind: str) -> None:
    assert barcode(name) == (sample, kind)


NAMES = [
    "TCGA-AA-0001-01Z-00-DX1.0a",
    "TCGA-AA-0001-01Z-00-DX2.0b",
    "TCGA-AA-0001-01A-01-TS1.0c",
    "TCGA-AA-0001-11A-01-TS1.0d",
    "TCGA-AA-0002-01Z-00-DX1.0e",
    "TCGA-AA-0002-06A-00-DX1.0f",
    "TCGA-AA-0003-01A-01-BS1.10",
    "TCGA-AA-0004-01Z-00-DX1.11",
    "TCGA-AA-0005-01Z-00-DX1.12",
    "TCGA-AA-0009-01Z-00-DX1.13",
    "CMU-1",
]
ROWS = ["AA-0001 COAD COAD 33 NA", "AA-0002 COAD COAD 0 NA", "AA-0003 COAD COAD 1 NA", "AA-0004 READ READ 40 NA"]
ROWS += ["AA-0005 COAD COAD NA NA", "AA-0006 COAD COAD 0 NA", "AA-0007 BRCA IDC 0 NA"]


def test_a_mixed_folder_gives_the_diagnostic_slides_of_primary_tumours(tmp_path: Path) -> None:
    made = make_labels("tcga-coad", pan_cancer(tmp_path, *ROWS), features=features(tmp_path, *NAMES))
    check_account(made)
    assert labels(made) == {NAMES[0]: "MSI", NAMES[1]: "MSI", NAMES[4]: "MSS"}
    assert told(made) == {
        "cancer type COAD": {"BRCA": (0, 1), "READ": (0, 1)},
        "MSIsensor score given": {"score missing": (0, 1)},
        "has a slide in features/": {"no slide": (0, 1)},
        "has a label": {
            "READ": (1, 1),
            "not in clinical.tsv": (1, 1),
            "score missing": (1, 1),
            "no TCGA barcode": (1, 0),
        },
        "primary tumour (01)": {"metastasis (06)": (1, 0), "normal tissue (11)": (1, 0)},
        "diagnostic slide (DX)": {"frozen (TS)": (1, 0), "frozen (BS)": (1, 1)},
    }
    slides = set(made.labels["slide_id"]) | set(made.dropped["slide_id"]) - {""}
    assert slides == set(NAMES)  # every file is labelled or accounted for


def test_frozen_slides_when_asked_but_never_normal_tissue(tmp_path: Path) -> None:
    table, folder = pan_cancer(tmp_path, *ROWS), features(tmp_path, *NAMES)
    frozen = make_labels("tcga-coad", table, features=folder, kind="frozen")
    assert labels(frozen) == {NAMES[2]: "MSI", NAMES[6]: "MSS"}
    both = make_labels("tcga-coad", table, features=folder, kind="both")
    assert set(labels(both)) == set(labels(frozen)) | {NAMES[0], NAMES[1], NAMES[4]}
    single = make_labels("tcga-coad", table, features=folder, several="remove")
    assert labels(single) == {NAMES[4]: "MSS"}
    assert told(single)["one slide per patient"] == {"2 slides": (2, 1)}


def test_slides_come_from_a_folder_of_images_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    (folder / "uuid").mkdir(parents=True)
    for name in NAMES[:5]:
        (folder / "uuid" / f"{name}.svs").touch()
    (folder / "uuid" / "annotations.txt").touch()
    made = make_labels("tcga-coad", pan_cancer(tmp_path, *ROWS), features=folder)
    assert labels(made) == {NAMES[0]: "MSI", NAMES[1]: "MSI", NAMES[4]: "MSS"}


def test_slides_come_from_a_table_as_well(tmp_path: Path) -> None:
    """The sample sheet of GDC; of both table and folder, what is in both."""
    lines = ["File ID\tFile Name\tCase ID\tSample Type", *(f"x\t{name}.svs\t{name[:12]}\tTumor" for name in NAMES[:5])]
    lines.append(lines[-1])
    sheet, table = write(tmp_path / "sheet.tsv", "\n".join(lines)), pan_cancer(tmp_path, *ROWS)
    made = make_labels("tcga-coad", table, slides=sheet)
    check_account(made)
    assert labels(made) == {NAMES[0]: "MSI", NAMES[1]: "MSI", NAMES[4]: "MSS"}
    assert told(made)["one row per slide"] == {"repeated row": (1, 0)}
    made = make_labels("tcga-coad", table, slides=sheet, features=features(tmp_path, NAMES[0], NAMES[4], NAMES[7]))
    check_account(made)
    assert labels(made) == {NAMES[0]: "MSI", NAMES[4]: "MSS"}
    assert told(made)["has a slide in features/"] == {"no slide": (1, 0)}
    assert told(made)["has a label"] == {"not in sheet.tsv": (1, 1)}


def test_a_list_of_slides_counts_several_before_the_folder(tmp_path: Path) -> None:
    """A patient with two slides is removed, though the folder holds but one of them."""
    rows = ["A1-0001 01Z-00-DX1 IDC", "A1-0001 01Z-00-DX2 IDC", "A2-0002 01Z-00-DX1 ILC"]
    folder = features(tmp_path, "TCGA-A1-0001-01Z-00-DX1", "TCGA-A2-0002-01Z-00-DX1")
    made = make_labels("tcga-brca", slide_list(tmp_path, *rows), features=folder)
    check_account(made)
    assert labels(made) == {"TCGA-A2-0002-01Z-00-DX1": "ILC"}
    assert told(made)["has a label"] == {"2 slides": (1, 1)}


def test_names_that_do_not_tell_the_kind_of_slide_stay_and_are_told(tmp_path: Path) -> None:
    made = make_labels(
        "tcga-coad", pan_cancer(tmp_path, *ROWS), features=features(tmp_path, "TCGA-AA-0001", "TCGA-AA-0002")
    )
    assert labels(made) == {"TCGA-AA-0001": "MSI", "TCGA-AA-0002": "MSS"}
    assert any("do not say whether they are diagnostic or frozen" in note for note in made.notes)


def test_a_row_of_a_metastasis_labels_no_one(tmp_path: Path) -> None:
    table = pan_cancer(tmp_path, "AA-0001 COAD COAD 0 NA", "AA-0002 COAD COAD 0 NA")
    text = table.read_text().replace("TCGA-AA-0002-01", "TCGA-AA-0002-06")
    text += "\nTCGA-AA-0001\tTCGA-AA-0001-06\tCOAD\tCOAD\t50\tNA"  # and contradicts the primary tumour
    made = make_labels("tcga-coad", write(table, text))
    check_account(made)
    assert labels(made, "patient_id") == {"TCGA-AA-0001": "MSS"}
    assert told(made) == {"primary tumour (01)": {"metastasis (06)": (0, 1)}}
    assert len(made.dropped) == 2


# What is written is what readers read


def read_labels_of(made: Labelled, folder: Path, **columns: str):
    made.labels.to_csv(folder / "made.csv", index=False)
    return read_labels(folder / "made.csv", **columns)


def test_slide_tables_go_through_the_reader(tmp_path: Path) -> None:
    folder = features(tmp_path, *NAMES)
    made = make_labels("tcga-coad", pan_cancer(tmp_path, *ROWS), features=folder)
    table = read_labels_of(made, tmp_path)
    assert table.level == "slide"
    assert table.rows[["slide_id", "patient_id", "label", "site"]].equals(made.labels)
    cohort = Cohort.read(tmp_path / "made.csv", folder, positive="MSI")
    assert sorted(cohort.slide_ids) == sorted(made.labels["slide_id"])
    assert cohort.classes == ("MSS", "MSI")
    assert dict(zip(cohort.slide_ids, cohort.labels, strict=True)) == {NAMES[0]: 1, NAMES[1]: 1, NAMES[4]: 0}


def test_patient_tables_go_through_the_reader(tmp_path: Path) -> None:
    """Joined there by barcode: neither metastases nor normal tissue, but frozen slides, as the note says."""
    made = make_labels("tcga-coad", pan_cancer(tmp_path, *ROWS))
    assert list(made.labels) == ["patient_id", "sample_id", "label", "site"]
    assert any("including frozen sections" in note for note in made.notes)
    table = read_labels_of(made, tmp_path)
    assert table.level == "patient"
    assert table.needs_slides
    cohort = Cohort.read(tmp_path / "made.csv", features(tmp_path, *NAMES), positive="MSI")
    found = {name: cohort.classes[label] for name, label in zip(cohort.slide_ids, cohort.labels, strict=True)}
    assert found == {NAMES[0]: "MSI", NAMES[1]: "MSI", NAMES[2]: "MSI", NAMES[4]: "MSS", NAMES[6]: "MSS"}


def test_patient_tables_go_with_a_slide_table(tmp_path: Path) -> None:
    made = make_labels("tcga-coad", pan_cancer(tmp_path, *ROWS))
    slides = write(
        tmp_path / "slides.csv", f"PATIENT,FILENAME\nTCGA-AA-0001,{NAMES[0]}.h5\nTCGA-AA-0002,{NAMES[4]}.h5\n"
    )
    rows = read_labels_of(made, tmp_path, slide_table=str(slides)).rows
    assert rows.loc[rows["slide_id"] != "", ["slide_id", "label"]].to_numpy().tolist() == [
        [NAMES[0], "MSI"],
        [NAMES[4], "MSS"],
    ]


def test_identifiers_stay_text(tmp_path: Path) -> None:
    made = make_labels("panda", write(tmp_path / "t.csv", "image_id,data_provider,isup_grade\n007,1e5,0\n1.0,NA,1\n"))
    assert made.labels["slide_id"].tolist() == ["007", "1.0"]
    assert read_labels_of(made, tmp_path).rows["slide_id"].tolist() == ["007", "1.0"]


# Wrong input


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"found 'tcga_coad'.*Did you mean 'tcga-coad'\?"):
        make_labels("tcga_coad", "x.csv")
    with pytest.raises(ConfigError, match=r"--several: found 'drop', expected one of remove, keep"):
        make_labels("tcga-brca", "x.csv", several="drop")
    with pytest.raises(ConfigError, match=r"--kind: found 'dx', expected one of diagnostic, frozen, both"):
        make_labels("tcga-brca", "x.csv", kind="dx")


def test_a_table_of_something_else_is_refused_by_its_columns(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", "PATIENT,age\nTCGA-AA-0001,7\n")
    with pytest.raises(LabelError, match=r"no column tcga_pancan\w+ or .*; msisensor_score or .*'PATIENT', 'age'"):
        make_labels("tcga-coad", table)
    with pytest.raises(LabelError, match=r"no column patient_id or slide_id; oncotree_code"):
        make_labels("tcga-brca", write(tmp_path / "u.csv", "a,b\n1,2\n"))
    with pytest.raises(LabelError, match=r"found the columns 'a', 'b'; expected CAMELYON16's reference.csv"):
        make_labels("camelyon16", tmp_path / "u.csv")
    with pytest.raises(LabelError, match=r"'a', 'b'; expected TCGA's table of tissue source sites"):
        make_labels("tcga-coad", table, sites=tmp_path / "u.csv")
    with pytest.raises(LabelError, match=r"no column of slides. Found the columns 'a', 'b'; expected slide_id"):
        make_labels("tcga-coad", table, slides=tmp_path / "u.csv")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match=r"tcga-coad needs a table .* Give it with --clinical"):
        make_labels("tcga-coad")
    with pytest.raises(LabelError, match=r"camelyon16 labels slides by their names, and found none"):
        make_labels("camelyon16")
    with pytest.raises(LabelError, match=r"x\.csv: there is no such file"):
        make_labels("tcga-coad", tmp_path / "x.csv")
    table = pan_cancer(tmp_path, *ROWS)
    with pytest.raises(FeatureError, match=r"nowhere: no such folder"):
        make_labels("tcga-coad", table, features=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FeatureError, match=r"neither feature files .* nor slides"):
        make_labels("tcga-coad", table, features=tmp_path / "empty")


def test_a_table_without_rows_or_names_is_told(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match=r"clinical.tsv: a header without rows"):
        make_labels("tcga-coad", pan_cancer(tmp_path))
    table = pan_cancer(tmp_path, *ROWS)
    made = make_labels("tcga-coad", write(table, table.read_text() + "\n\t\tCOAD\tCOAD\t0\tNA"))
    check_account(made)
    assert told(made)["names a patient"] == {"no patient": (0, 0)}
    assert reasons_text(made.steps[1]) == "no patient"
    assert len(made.dropped[made.dropped["rule"] == "names a patient"]) == 1


def test_options_that_have_no_meaning_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match=r"--sites and --kind read TCGA barcodes, and panda has none"):
        make_labels("panda", "x.csv", kind="both")
    table = slide_list(tmp_path, "A1-0001 01Z-00-DX1 IDC")
    with pytest.raises(LabelError, match=r"slides.csv already lists slides.*Leave out --slides"):
        make_labels("tcga-brca", table, slides=table)


def test_a_folder_of_another_cohort_is_told(tmp_path: Path) -> None:
    folder = features(tmp_path, "TCGA-ZZ-0001-01Z-00-DX1", "TCGA-ZZ-0002-01Z-00-DX1")
    with pytest.raises(LabelError, match=r"No slide of features/ .*Found 2 \(TCGA-ZZ-0001.*such as TCGA-AA-0001"):
        make_labels("tcga-coad", pan_cancer(tmp_path, *ROWS), features=folder)
    table = slide_list(tmp_path, "ZZ-0001 01Z-00-DX1.aaaa IDC", "ZZ-0002 01Z-00-DX1.bbbb ILC")
    with pytest.raises(LabelError, match=r"the slides of the table carry more at the end, such as '\.aaaa'"):
        make_labels("tcga-brca", table, features=folder)


def test_a_rule_that_leaves_nothing_says_so(tmp_path: Path) -> None:
    table = pan_cancer(tmp_path, *ROWS)
    with pytest.raises(
        LabelError, match=r"No row is left after the rule 'cancer type HNSC': it dropped COAD: 5, BRCA: 1"
    ):
        make_labels("tcga-hnsc", table)
    with pytest.raises(LabelError, match=r"'diagnostic slide \(DX\)': it dropped frozen \(BS\): 1. Take .* --kind"):
        make_labels("tcga-coad", table, features=features(tmp_path, NAMES[6]))
    with pytest.raises(LabelError, match=r"'one slide per patient': it dropped 2 slides: 2. .* --several keep"):
        make_labels("tcga-brca", slide_list(tmp_path, "A1-0001 01Z-00-DX1 IDC", "A1-0001 01Z-00-DX2 IDC"))
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(LabelError, match=r"'normal or tumor': it dropped test slide.*: 1. .*reference.csv"):
        make_labels("camelyon16", features=features(other, "test_001"))


def test_contradictions_are_refused_by_name(tmp_path: Path) -> None:
    table = pan_cancer(tmp_path, "AA-0001 COAD COAD 0 NA", "AA-0001 COAD COAD 20 NA", "AA-0002 COAD COAD 20 NA")
    with pytest.raises(LabelError, match=r"1 patient with more than one label: TCGA-AA-0001 \(MSS / MSI\)"):
        make_labels("tcga-coad", table)


# The real tables


@pytest.fixture(scope="module")
def clinical() -> Path:
    if not CLINICAL.is_dir():
        pytest.skip("the real clinical tables are not beside the project (../shared/data/clinical)")
    return CLINICAL


@pytest.fixture(scope="module")
def pan(clinical: Path) -> pd.DataFrame:
    """The pan-cancer table with the columns of all TCGA recipes, read once: it takes ten seconds."""
    needed = {
        role: names for name in ("tcga-coad", "tcga-hnsc", "tcga-brca") for role, names in RECIPES[name].needed.items()
    }
    table, notes = read_clinical(clinical / "tcga_combined_clinical.xlsx", needed, {})
    assert not notes
    return table


def test_real_brca(clinical: Path) -> None:
    made = make_labels("tcga-brca", clinical / "tcga_brca_slides.csv")
    check_account(made)
    assert made.steps[0].kept == (937, 897)
    assert made.classes == {"IDC": (663, 663), "ILC": (139, 139)}
    drops = told(made)
    assert drops["ductal (IDC) or lobular (ILC)"]["MDLC (mixed ductal and lobular)"][0] == 25
    assert drops["one slide per patient"] == {"2 slides": (66, 33), "4 slides": (4, 1), "3 slides": (3, 1)}
    both = make_labels("tcga-brca", clinical / "tcga_brca_slides.csv", several="keep")
    assert both.classes == {"IDC": (726, 694), "ILC": (149, 143)}
    assert set(made.labels["slide_id"]) < set(both.labels["slide_id"])
    assert (made.labels["site"] == made.labels["patient_id"].str[5:7]).all()


def test_real_panda(clinical: Path) -> None:
    made = make_labels("panda", clinical / "panda.csv")
    assert [n.slides for n in made.classes.values()] == [2603, 2399, 1209, 1118, 1124, 1102]
    assert made.labels["site"].value_counts().to_dict() == {"karolinska": 4990, "radboud": 4565}
    assert made.dropped.empty


def test_real_pan_cancer_table(pan: pd.DataFrame) -> None:
    """COAD, HNSC and NSCLC; each says by cancer what it dropped of the 10,953 patients."""
    wanted = {
        "tcga-coad": {"MSI": (0, 72), "MSS": (0, 359)},
        "tcga-hnsc": {"HPV+": (0, 72), "HPV-": (0, 415)},
        "tcga-nsclc": {"LUAD": (0, 566), "LUSC": (0, 487)},
        "tcga-brca": {"IDC": (0, 780), "ILC": (0, 201)},
    }
    for name, classes in wanted.items():
        made = label_table(RECIPES[name], pan, "clinical.xlsx")
        check_account(made)
        assert made.classes == classes
        assert made.steps[0].kept == (0, 10953)
        assert len(made.labels) + len(made.dropped) == len(pan) == 10967
        assert made.labels["patient_id"].is_unique
    assert told(label_table(RECIPES["tcga-coad"], pan, "t"))["MSIsensor score given"] == {"score missing": (0, 8)}
    assert told(label_table(RECIPES["tcga-hnsc"], pan, "t"))["HPV status in the subtype"] == {
        "subtype missing": (0, 36)
    }


def test_real_codes_of_lung_sites_tell_the_class(pan: pd.DataFrame, clinical: Path) -> None:
    institutions = read_institutions(clinical / "tcga_institution_sites.csv")
    assert len(institutions) == 830
    assert institutions["NA"] == "Duke University"
    codes = label_table(RECIPES["tcga-nsclc"], pan, "t").labels
    named = label_table(RECIPES["tcga-nsclc"], pan, "t", institutions=institutions).labels
    assert (codes.groupby("site")["label"].nunique() == 1).all()
    assert (codes["site"].nunique(), named["site"].nunique()) == (69, 43)
    assert (named.groupby("site")["label"].nunique() == 2).sum() == 26


def test_real_tables_joined(pan: pd.DataFrame, clinical: Path, tmp_path: Path) -> None:
    """The BRCA slides by the pan-cancer table: the two sources differ on some histologies."""
    slides = pd.read_csv(clinical / "tcga_brca_slides.csv", dtype=str)
    listing = slides[["slide_id", "case_id"]].set_axis(["slide_id", "patient_id"], axis=1)
    made = label_table(RECIPES["tcga-brca"], pan, "clinical.xlsx", [("slides.csv", listing)])
    check_account(made)
    assert made.classes == {"IDC": (640, 640), "ILC": (132, 132)}
    assert set(made.labels["slide_id"]) | set(made.dropped["slide_id"]) - {""} == set(slides["slide_id"])
