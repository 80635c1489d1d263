"""Label tables as the tools write them, and as people spoil them."""

import zipfile
from pathlib import Path

import openpyxl
import pytest

from jigsawmil.cohort.labels import LabelTable, listed, plain_labels, read_labels, slide_name
from jigsawmil.errors import LabelError
from jigsawmil.tasks import sort_classes

CLINICAL = Path(__file__).resolve().parents[2] / "../shared/data/clinical"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def write_xlsx(path: Path, rows: list[list[object]], more_sheets: tuple[str, ...] = ()) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for name in more_sheets:
        book.create_sheet(name).append(["nothing"])
    book.save(path)
    return path


def column(table: LabelTable, name: str) -> list[str]:
    return table.rows[name].tolist()


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("case_id,slide_id,label", "P1,007,IDC"),  # CLAM
        ("case_id\tslide_id\tsubtype\tfold_0\tfold_1", "P1\t007\tIDC\ttrain\ttest"),  # Patho-Bench
        ("slide_id,patient_id,split,label", "007,P1,train,IDC"),  # nnMIL
        ("slide,patient,dataset,category", "007,P1,train,IDC"),  # slideflow
        (",Slide ID;Case,Label".replace(",", ";"), "0;007;P1;IDC"),  # an index column, semicolons, other spelling
    ],
)
def test_conventions_are_recognised_by_their_columns(tmp_path: Path, header: str, row: str) -> None:
    table = read_labels(write(tmp_path / "t.csv", f"{header}\n{row}\n"))
    assert table.rows[["slide_id", "patient_id", "label"]].to_numpy().tolist() == [["007", "P1", "IDC"]]
    assert table.level == "slide"
    assert table.notes == ()


@pytest.mark.parametrize("name", ["007", "1e5", "1_000", "0x10", "TRUE", "2020-01-01", "+5", "1.50", "x,y", "ä b"])
def test_identifiers_come_back_letter_for_letter(tmp_path: Path, name: str) -> None:
    text = f'slide_id,patient_id,label\n"{name}","{name}",a\n'
    table = read_labels(write(tmp_path / "t.csv", text))
    assert column(table, "slide_id") == column(table, "patient_id") == [name]


def test_xlsx_keeps_text_and_writes_whole_numbers_without_a_point(tmp_path: Path) -> None:
    rows = [["slide_id", "patient_id", "label"], ["007", 7.0, 1.0], ["008", 8, None], [" 9 ", "09", 0.0]]
    table = read_labels(write_xlsx(tmp_path / "t.xlsx", rows))
    assert column(table, "slide_id") == ["007", "008", "9"]
    assert column(table, "patient_id") == ["7", "8", "09"]
    assert column(table, "label") == ["1", "", "0"]
    assert column(table, "line") == [2, 3, 4]


def test_several_sheets_are_noted_and_named(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "t.xlsx", [["slide_id", "label"], ["a", "x"]], more_sheets=("legend",))
    assert any("first of 2 sheets" in note for note in read_labels(path).notes)
    with pytest.raises(LabelError, match=r"no sheet 'Legend'.*'legend'"):
        read_labels(path, sheet="Legend")


def test_words_for_none_are_classes_and_what_nobody_knows_is_missing(tmp_path: Path) -> None:
    labels = ["None", "null", "0", "", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "  "]
    labels += ["[Not Available]", "Unknown", "-", "not  reported", "inf", "n/d", "Pending", "TBD", "[not tested]"]
    text = "slide_id,label\n" + "".join(f"s{i},{label}\n" for i, label in enumerate(labels))
    found = column(read_labels(write(tmp_path / "t.csv", text)), "label")
    assert found == ["None", "null", "0"] + [""] * 17
    signs = read_labels(write(tmp_path / "s.csv", "slide_id,label\na,+\nb,-\nc,?\n"))
    assert column(signs, "label") == ["+", "-", ""]


def test_decimal_points_go_only_where_the_whole_column_is_whole_numbers() -> None:
    assert plain_labels(["1.0", "", "0.0", "2"])[0] == ["1", "", "0", "2"]
    assert plain_labels(["1.0", "0.5"]) == (["1.0", "0.5"], [])
    assert plain_labels(["1.0", "high"]) == (["1.0", "high"], [])
    assert plain_labels(["01", "1"]) == (["01", "1"], [])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a.svs", "a"), ("a.SVS.h5", "a"), ("deep/er/a.h5", "a"), ("c:\\x\\a.ome.tiff", "a"), ("a.b", "a.b"),
        ("TCGA-3C-AALI-01Z-00-DX1.F6E9A5DF.svs", "TCGA-3C-AALI-01Z-00-DX1.F6E9A5DF"), ("1.5", "1.5"), (".h5", ".h5"),
    ],
)  # fmt: skip
def test_slide_names_lose_folders_and_known_extensions(text: str, name: str) -> None:
    assert slide_name(text) == name


def test_stamp_pair_gives_every_slide_of_a_patient_its_label(tmp_path: Path) -> None:
    clini = write(tmp_path / "clini.csv", "PATIENT,isMSIH,AGE\nP1,MSIH,3\nP2,nonMSIH,4\nP3,MSIH,5\n")
    # P1's rows are not contiguous, P4 is in no clinical table, P3 has no slide.
    slides = write(tmp_path / "slide.csv", "PATIENT,FILENAME\nP1,x/a.h5\nP2,b.h5\nP4,d.h5\nP1,c.h5\n")
    table = read_labels(clini, slide_table=slides, label_column="isMSIH")
    assert table.level == "patient"
    assert not table.needs_slides
    assert table.rows[["slide_id", "patient_id", "label"]].to_numpy().tolist() == [
        ["a", "P1", "MSIH"], ["b", "P2", "nonMSIH"], ["d", "P4", ""], ["c", "P1", "MSIH"], ["", "P3", "MSIH"],
    ]  # fmt: skip


def test_blank_patients_of_two_tables_do_not_meet(tmp_path: Path) -> None:
    clini = write(tmp_path / "clini.csv", "PATIENT,y\n,pos\nP1,neg\n")
    slides = write(tmp_path / "slide.csv", "PATIENT,FILENAME\n,a.h5\nP1,b.h5\n")
    rows = read_labels(clini, slide_table=slides).rows
    assert rows.set_index("slide_id")["label"].to_dict() == {"a": "", "b": "neg", "": "pos"}


CBIO = "#Patient Identifier\tSample Identifier\tSubtype\n#STRING\tSTRING\tSTRING\nPATIENT_ID\tSAMPLE_ID\tSUBTYPE\n"


def test_cbioportal_rows_go_to_the_slides_of_their_own_sample(tmp_path: Path) -> None:
    text = CBIO + "TCGA-AA-0001\tTCGA-AA-0001-01\tHPV+\nTCGA-AA-0001\tTCGA-AA-0001-06\tHPV-\nTCGA-BB-0002\t-\tHPV-\n"
    table = read_labels(write(tmp_path / "data_clinical.txt", text))
    assert table.needs_slides
    slides = ["TCGA-AA-0001-01Z-00-DX1.X", "TCGA-AA-0001-06Z-00-DX1.Y", "TCGA-AA-0001-02Z-00-DX1.Z", "TCGA-CC-0003-01Z"]
    joined = table.for_slides(slides)
    assert not joined.needs_slides
    pairs = dict(zip(joined.rows["slide_id"], joined.rows["label"], strict=True))
    assert pairs == {slides[0]: "HPV+", slides[1]: "HPV-", "": "HPV-"}  # TCGA-BB-0002 has no slide and is kept
    assert column(joined, "site")[:2] == ["AA", "AA"]


def test_patients_meet_slides_by_barcode_or_by_the_same_name(tmp_path: Path) -> None:
    table = read_labels(write(tmp_path / "t.csv", "PATIENT,y\nTCGA-AA-0001,a\nP2,b\n"))
    joined = table.for_slides(["TCGA-AA-0001-01Z-00-DX1", "TCGA-AA-0001-01Z-00-DX2", "P2", "TCGA-AA-00012"]).rows
    assert joined["slide_id"].tolist() == ["TCGA-AA-0001-01Z-00-DX1", "TCGA-AA-0001-01Z-00-DX2", "P2"]
    assert joined["label"].tolist() == ["a", "a", "b"]
    with pytest.raises(LabelError, match="slide_table"):
        table.for_slides(["x", "y"])


def test_patients_are_taken_from_barcodes_whatever_the_other_names(tmp_path: Path) -> None:
    tcga = "TCGA-3C-AALI-01Z-00-DX1,a\nTCGA-3C-AALI-01Z-00-DX2,a\n"
    table = read_labels(write(tmp_path / "t.csv", "slide_id,label\n" + tcga))
    assert column(table, "patient_id") == ["TCGA-3C-AALI"] * 2
    assert "12 characters" in table.notes[0]
    mixed = tcga + "tcga-3c-aali-01z-00-dx3,b\nother,b\n"
    table = read_labels(write(tmp_path / "u.csv", "slide_id,label\n" + mixed))
    assert column(table, "patient_id") == ["TCGA-3C-AALI"] * 3 + ["other"]
    assert column(table, "site") == ["3C"] * 3 + [""]
    assert "slides with other names (other) count as one patient each" in table.notes[0]
    assert "--patient-column" in table.notes[0]


def test_sites_come_from_the_named_column_else_from_barcodes(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "slide_id,label,site\nTCGA-3C-AALI-01Z,a,breast\nother,b,breast\n")
    assert column(read_labels(path), "site") == ["3C", ""]  # a column called site may be an organ
    assert column(read_labels(path, site_column="site"), "site") == ["breast", "breast"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("slide_id,label\na,1\n", {"label_column": "lable"}, r"no column 'lable'.*'slide_id', 'label'.*mean 'label'"),
        ("slide_id,Grade\na,1\n", {"label_column": "grade"}, r"Did you mean 'Grade'"),
        ("slide_id,age,sex\na,1,f\n", {}, r"2 columns could be the label.*'age', 'sex'.*--label-column"),
        ("slide_id,case_id\na,1\n", {}, r"no column is the label.*--label-column"),
        ("name,label\na,1\n", {}, r"no column of slides or patients.*'name'.*--slide-column"),
        ("slide_id,label,label\na,1,2\n", {}, r"'label' is there 2 times"),
        ("slide_id,label\na,1,2\n", {}, r"line 2: 3 cells, the header has 2"),
        ('slide_id,label\na,"1\nb,2\n', {}, r"quote"),
        ("", {}, r"empty"),
        ("# only\n# comments\n", {}, r"empty"),
    ],
)
def test_what_cannot_be_read_is_named_with_a_remedy(tmp_path: Path, text: str, options: dict, message: str) -> None:
    with pytest.raises(LabelError, match=message):
        read_labels(write(tmp_path / "t.csv", text), **options)


def test_a_workbook_without_its_sheet_is_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "t.xlsx", write_xlsx(tmp_path / "whole.xlsx", [["slide_id", "label"], ["a", "x"]])
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            target.writestr(name.replace("sheet1", "sheet5"), source.read(name))
    with pytest.raises(LabelError, match=r"^t\.xlsx: not a readable XLSX"):
        read_labels(path)


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match="no such file"):
        read_labels(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes("slide_id,label\na,größer\n".encode("latin-1"))
    with pytest.raises(LabelError, match="UTF-8"):
        read_labels(tmp_path / "latin.csv")
    with pytest.raises(LabelError, match="not a readable XLSX"):
        read_labels(write(tmp_path / "false.xlsx", "slide_id,label\n"))
    with pytest.raises(LabelError, match="XLSX or CSV"):
        read_labels(write(tmp_path / "old.xls", ""))


def test_spreadsheet_habits_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    # A byte order mark, CRLF, blank columns, blank rows.
    path.write_bytes(b"\xef\xbb\xbfslide_id,label,,\r\n a , x ,,\r\n,,,\r\nb,y\r\n\r\n")
    table = read_labels(path)
    assert table.rows[["slide_id", "label", "line"]].to_numpy().tolist() == [["a", "x", 2], ["b", "y", 4]]


def test_a_second_column_of_patients_is_noted(tmp_path: Path) -> None:
    table = read_labels(write(tmp_path / "t.csv", "slide_id,case_id,patient_id,label\ns,c,p,x\n"))
    assert column(table, "patient_id") == ["p"]
    assert "'case_id'" in table.notes[0]


def test_classes_sort_as_numbers_only_if_all_are() -> None:
    assert sort_classes(["10", "9", "-1"]) == ["-1", "9", "10"]
    assert sort_classes(["10", "9", "x"]) == ["10", "9", "x"]


def test_long_lists_are_cut_and_counted() -> None:
    assert listed(["a", "b", "c"], 2) == "a, b ... and 1 more"
    assert listed(["a", "b"], 2) == "a, b"


@pytest.fixture(scope="module")
def clinical() -> Path:
    if not CLINICAL.is_dir():
        pytest.skip("the real clinical tables are not beside the project (../shared/data/clinical)")
    return CLINICAL


def test_real_brca_list_has_several_slides_a_patient(clinical: Path) -> None:
    with pytest.raises(LabelError, match="'oncotree_code'"):
        read_labels(clinical / "tcga_brca_slides.csv")
    table = read_labels(clinical / "tcga_brca_slides.csv", label_column="oncotree_code")
    rows = table.rows
    assert (rows["slide_id"].nunique(), rows["patient_id"].nunique()) == (937, 897)
    assert rows["label"].value_counts()[["IDC", "ILC"]].tolist() == [726, 149]
    assert (rows["patient_id"] == rows["slide_id"].str[:12]).all()
    assert not rows["slide_id"].str.endswith(".svs").any()
    given = read_labels(clinical / "tcga_brca_slides.csv", label_column="oncotree_code", site_column="site").rows
    assert (rows["site"] == given["site"]).all()  # the barcode says the same as the curators


def test_real_panda_grades(clinical: Path) -> None:
    table = read_labels(clinical / "panda.csv", site_column="data_provider")
    assert sort_classes(set(column(table, "label"))) == ["0", "1", "2", "3", "4", "5"]
    assert set(column(table, "site")) == {"karolinska", "radboud"}
    assert (table.rows["slide_id"].str.len() == 32).all()  # hexadecimal names, some of digits and one e only


def test_real_site_codes_keep_their_zeros_and_the_one_called_na(clinical: Path) -> None:
    options = {"slide_column": "Source Site", "label_column": "BCR", "site_column": "TSS Code"}
    sites = read_labels(clinical / "tcga_institution_sites.csv", **options).rows["site"]
    assert (sites.str.len() == 2).all()
    assert {"01", "3C", "NA"} <= set(sites)  # NA is Duke University


def test_real_cbioportal_download(clinical: Path) -> None:
    table = read_labels(clinical / "tcga_combined_clinical.xlsx", label_column="Subtype")
    assert (table.level, table.needs_slides) == ("patient", True)
    assert table.rows["patient_id"].nunique() == 10953
    assert "" in column(table, "label")
    assert "NA" not in column(table, "label")
    joined = table.for_slides(["TCGA-3C-AALI-01Z-00-DX1.F6E9A5DF", "TCGA-3C-AALI-01Z-00-DX2.CF4496E0"]).rows
    assert joined.loc[joined["slide_id"] != "", "patient_id"].tolist() == ["TCGA-3C-AALI"] * 2
    assert len(joined) == len(table.rows) + 1  # no row is lost on the way
