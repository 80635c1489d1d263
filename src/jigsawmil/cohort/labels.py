"""Label tables: which slide belongs to which patient and class, whatever program wrote the table.

Everything is a string from the first byte on, so that "007" stays "007" and a class called "None" stays a class.
Nothing is judged here beyond what makes a table unreadable: `audit` lists what is wrong with a table, all at once.
"""

import csv
import difflib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from ..errors import LabelError

# Cells that hold nothing. "None", "null", "unknown" are not among them: they are used as classes.
MISSING = frozenset({"", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan"})

# Column names by role, after `_plain`; the first that is there wins.
SLIDE_NAMES = ("slide_id", "slide", "slide_name", "filename", "file_name", "image_id")  # CLAM, slideflow, STAMP, PANDA
PATIENT_NAMES = ("patient_id", "patient", "case_id", "case")  # nnMIL and cBioPortal, STAMP and slideflow, CLAM
LABEL_NAMES = ("label", "category", "target")
NO_LABEL = re.compile(r"(|index|unnamed:_\d+|split|fold|fold_\d+|dataset|study_id|sample_id)")  # splits, bookkeeping

EXTENSION = re.compile(
    r"(\.ome)?\.(svs|svslide|tiff?|ndpi|mrxs|scn|bif|vms|vmu|czi|dcm|qptiff|h5|hdf5|pt|npy|zarr)$", re.IGNORECASE
)
TCGA_PATIENT = re.compile(r"TCGA-[0-9A-Z]{2}-[0-9A-Z]{4}(?![0-9A-Z])")  # 12 characters, [5:7] the site
TCGA_SAMPLE = re.compile(r"TCGA-[0-9A-Z]{2}-[0-9A-Z]{4}-\d{2}(?!\d)")  # 15 characters


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The rows of a label table, none left out.

    rows: string columns slide_id, patient_id, label, site ("" where the cell is missing), and `line` in the file.
    level: whether the table gives a label to a slide or to a patient (and so to all of the patient's slides).
    columns: role -> the column it was read from.
    """

    rows: pd.DataFrame
    source: str
    level: Literal["slide", "patient"]
    columns: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def needs_slides(self) -> bool:
        """A table of patients that nobody has told which slides there are."""
        return "sample_id" in self.rows

    def for_slides(self, slide_ids: Iterable[str]) -> "LabelTable":
        """A table of patients, joined to slides by name: a slide called like its patient, or a TCGA barcode.

        Where rows are TCGA samples (cBioPortal), a slide takes the row of its own sample: a metastasis is no primary.
        """
        by_patient, by_sample = defaultdict(list), defaultdict(list)
        for row, (patient, sample) in enumerate(zip(self.rows["patient_id"], self.rows["sample_id"], strict=True)):
            if patient:
                by_patient[patient].append(row)
            if TCGA_SAMPLE.fullmatch(sample):
                by_sample[sample].append(row)

        def rows_of(slide_id: str) -> list[int]:
            if slide_id in by_patient:
                return by_patient[slide_id]
            if by_sample and TCGA_SAMPLE.match(slide_id):
                return by_sample.get(slide_id[:15], [])
            return by_patient.get(slide_id[:12], []) if TCGA_PATIENT.match(slide_id) else []

        names = list(slide_ids)
        joined = [(slide_id, row) for slide_id in names for row in rows_of(slide_id)]
        if not joined:
            raise LabelError(
                f"{self.source} has patients ({listed(list(by_patient), 2)}) but no column of slides, and no feature "
                f"file ({listed(names, 2)}) is named after one of them. Name the column ({_option('slide')}), or give "
                "the table that says which slide is whose: slide_table= or --slide-table, columns PATIENT and FILENAME."
            )
        rows = self.rows.iloc[[row for _, row in joined]].assign(slide_id=[slide_id for slide_id, _ in joined])
        rest = self.rows[~self.rows["patient_id"].isin(set(rows["patient_id"]))]
        both = pd.concat([rows, rest], ignore_index=True).drop(columns="sample_id")
        note = "Slides were joined to patients by their names (TCGA barcodes, or the patient's own name)."
        return replace(self, rows=both, notes=(*self.notes, note))


def read_labels(
    path: str | Path,
    *,
    slide_column: str | None = None,
    patient_column: str | None = None,
    label_column: str | None = None,
    site_column: str | None = None,
    slide_table: str | Path | None = None,
    sheet: str | None = None,
) -> LabelTable:
    """Read a CSV, TSV or XLSX of labels. Columns are recognised by the names that tools give them, or named by option.

    With `slide_table` (STAMP: PATIENT, FILENAME), `path` gives a label to a patient, and the slides come from there.
    """
    table = _read_table(Path(path), sheet)
    slides = _read_table(Path(slide_table), None) if slide_table is not None else None
    columns: dict[str, str] = {}

    where = slides or table
    slide = where.pick("slide", SLIDE_NAMES, slide_column)
    if slides is not None and slide is None:
        raise LabelError(f"{slides.name}: no column of slides. Found {slides.found()}. Name it: {_option('slide')}.")
    patient = table.pick("patient", PATIENT_NAMES, patient_column)
    if patient is None and (slide is None or slides is not None):
        raise LabelError(
            f"{table.name}: no column of {'patients' if slides else 'slides or patients'} is recognised. Found "
            f"{table.found()}. Name it: {_option('patient' if slides else 'slide')}."
        )
    taken = {patient} if slides is not None else {slide, patient}
    columns["label"] = table.pick_label(label_column, taken)
    columns |= {role: name for role, name in (("slide", slide), ("patient", patient)) if name is not None}
    if site_column is not None:
        columns["site"] = table.existing("site", site_column)

    labels, label_notes = plain_labels(table.values(columns["label"]))
    blank = [""] * len(labels)
    rows = pd.DataFrame(
        {
            "patient_id": table.values(patient) if patient else blank,
            "label": labels,
            "site": table.values(columns["site"], missing=("",)) if site_column else blank,  # NA is a TCGA site
            "line": table.lines,
        }
    )
    notes = [*table.notes, *label_notes]
    if slides is not None:
        notes += slides.notes
        rows = _join(rows, slides, slide, patient_column)
    elif slide is not None:
        rows["slide_id"] = [slide_name(value) for value in table.values(slide)]
        if patient is None:
            rows["patient_id"], note = patients_of(list(rows["slide_id"]))
            notes.append(note)
    else:
        sample = table.pick("sample", ("sample_id",), None)
        rows = rows.assign(slide_id=blank, sample_id=table.values(sample) if sample else blank)
    if site_column is None:
        rows["site"] = [tcga_site(s or p) for s, p in zip(rows["slide_id"], rows["patient_id"], strict=True)]
    level: Literal["slide", "patient"] = "patient" if slides is not None or slide is None else "slide"
    first = ["slide_id", "patient_id", "label", "site", "line"]
    return LabelTable(rows[first + [c for c in rows if c not in first]], table.name, level, columns, tuple(notes))


def _join(clinical: pd.DataFrame, slides: "_Table", slide: str | None, patient_column: str | None) -> pd.DataFrame:
    """A row for each slide with its patient's label, then the patients without slides; nothing drops out."""
    assert slide is not None
    named = patient_column if patient_column in slides.columns else None
    patient = slides.pick("patient", PATIENT_NAMES, named)
    if patient is None:
        raise LabelError(f"{slides.name}: no column of patients. Found {slides.found()}. Use {_option('patient')}.")
    left = pd.DataFrame(
        {"slide_id": [slide_name(value) for value in slides.values(slide)], "patient_id": slides.values(patient)}
    )
    known = clinical[clinical["patient_id"] != ""]  # else a blank patient would meet every other blank one
    rows = left.merge(known, on="patient_id", how="left")
    rest = clinical[~clinical["patient_id"].isin(set(left["patient_id"]) - {""})].assign(slide_id="")
    rows = pd.concat([rows, rest], ignore_index=True)
    rows["line"] = rows["line"].fillna(0).astype(int)
    return rows.fillna({"label": "", "site": ""})


def slide_name(text: str) -> str:
    """A slide's id without folders and without the known image and feature extensions."""
    name = re.split(r"[/\\]", text)[-1]
    while (short := EXTENSION.sub("", name)) != name and short:
        name = short
    return name


def patients_of(slide_ids: Sequence[str]) -> tuple[list[str], str]:
    """Patients of slides about which no table says more, and the sentence that says how."""
    if slide_ids and all(TCGA_PATIENT.match(slide_id) for slide_id in slide_ids):
        return [s[:12] for s in slide_ids], "No column of patients: the first 12 characters of TCGA barcodes are taken."
    return list(slide_ids), (
        "No column of patients: each slide counts as a patient of its own. If patients have several slides, "
        f"name the column ({_option('patient')}), or their slides will lie on both sides of a split."
    )


def tcga_site(name: str) -> str:
    """Tissue source site of a TCGA barcode, "" for other names."""
    return name[5:7] if TCGA_PATIENT.match(name) else ""


def plain_labels(values: Sequence[str]) -> tuple[list[str], list[str]]:
    """Labels as written, but "1.0" is "1" where the whole column is whole numbers (blanks make floats of integers)."""
    whole = all(re.fullmatch(r"[+-]?\d+(\.0*)?", value) for value in values if value)
    plain = [re.sub(r"\.0*$", "", value) for value in values] if whole else list(values)
    changed = plain != list(values)
    return plain, ["Labels are whole numbers written with a decimal point: 1.0 is read as 1."] if changed else []


def sort_classes(names: Iterable[str]) -> list[str]:
    """By value where all are numbers ("2" before "10"), by name otherwise."""
    try:
        return sorted(names, key=float)
    except ValueError:
        return sorted(names)


def listed(names: Sequence[str], limit: int = 10) -> str:
    """Names in a row, the first `limit` of them: a, b, c ... and 7 more."""
    more = len(names) - limit
    return ", ".join(map(str, names[:limit])) + (f" ... and {more} more" if more > 0 else "")


class _Table(NamedTuple):
    """Cells as text. lines: the row of each in the file, as an editor or Excel counts."""

    name: str
    columns: list[str]
    rows: list[list[str]]
    lines: list[int]
    notes: list[str]

    def values(self, column: str, missing: Collection[str] = MISSING) -> list[str]:
        j = self.columns.index(column)
        return ["" if row[j] in missing else row[j] for row in self.rows]

    def found(self) -> str:
        return "the columns " + ", ".join(repr(c) for c in self.columns if c)

    def existing(self, role: str, name: str) -> str:
        """`name`, if it is a column, and one only."""
        if self.columns.count(name) == 1:
            return name
        if name in self.columns:
            raise LabelError(f"{self.name}: the column {name!r} is there {self.columns.count(name)} times. Rename one.")
        near = difflib.get_close_matches(_plain(name), map(_plain, self.columns), n=1)
        hint = f" Did you mean {next(c for c in self.columns if _plain(c) == near[0])!r}?" if near else ""
        raise LabelError(f"{self.name}: no column {name!r} for {_option(role)}. Found {self.found()}.{hint}")

    def pick(self, role: str, known: Sequence[str], named: str | None) -> str | None:
        """The column for a role: the one named, or the first with a known name, or None."""
        if named is not None:
            return self.existing(role, named)
        plain = {_plain(c): c for c in reversed(self.columns)}
        candidates = [plain[name] for name in known if name in plain]
        if len(candidates) > 1:
            others = ", ".join(map(repr, candidates[1:]))
            self.notes.append(f"{self.name}: {role}s come from {candidates[0]!r}, not from {others} ({_option(role)}).")
        return self.existing(role, candidates[0]) if candidates else None

    def pick_label(self, named: str | None, taken: set[str | None]) -> str:
        """The column named, or one called label, or the only one that is left when every other has a role."""
        if named is not None or any(_plain(c) in LABEL_NAMES for c in self.columns):
            column = self.pick("label", LABEL_NAMES, named)
            assert column is not None
            return column
        left = [c for c in self.columns if c not in taken and not NO_LABEL.fullmatch(_plain(c))]
        left = [c for c in left if _plain(c) not in (*SLIDE_NAMES, *PATIENT_NAMES)]
        if len(left) == 1:
            return left[0]
        what = f"{len(left)} columns could be the label" if left else "no column is the label"
        raise LabelError(f"{self.name}: {what}. Found {self.found()}. Name it: {_option('label')}.")


def _option(role: str) -> str:
    return f"{role}_column= or --{role}-column"


def _plain(column: str) -> str:
    return re.sub(r"[\s-]+", "_", column.strip().lower())


def _read_table(path: Path, sheet: str | None) -> _Table:
    """Cells of a file as stripped text; comment lines before the header and blank rows go."""
    if not path.is_file():
        raise LabelError(f"{path}: there is no such file. Expected a label table (CSV, TSV or XLSX).")
    if path.suffix.lower() == ".xls":
        raise LabelError(f"{path.name}: the old XLS format is not read. Save the table as XLSX or CSV.")
    notes: list[str] = []
    raw = _xlsx_cells(path, sheet, notes) if path.suffix.lower() in (".xlsx", ".xlsm") else _text_cells(path)
    cells = [(line, row) for line, row in raw if any(row)]
    if not cells:
        raise LabelError(f"{path.name}: the table is empty. Expected a header row and a row for each slide or patient.")
    (_, header), body = cells[0], cells[1:]
    for line, row in body:
        if any(row[len(header) :]):
            raise LabelError(
                f"{path.name}, line {line}: {len(row)} cells, the header has {len(header)} columns. "
                "Put cells that contain the delimiter in quotes."
            )
    rows = [row[: len(header)] + [""] * (len(header) - len(row)) for _, row in body]
    return _Table(path.name, header, rows, [line for line, _ in body], notes)


def _text_cells(path: Path) -> list[tuple[int, list[str]]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise LabelError(f"{path.name}: not text in UTF-8 ({error.reason}). Save the table as CSV UTF-8.") from None
    skip = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    # The delimiter that gives the header most columns: cells, not characters, so that quoted commas do not count.
    delimiter = max("\t;,", key=lambda d: len(next(csv.reader(lines[skip:], delimiter=d), [])))
    reader = csv.reader(lines[skip:], delimiter=delimiter, strict=True)  # else an open quote swallows all that follows
    try:
        return [(skip + reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise LabelError(
            f"{path.name}, line {skip + reader.line_num}: not a table ({error}). Look for an open or stray quote."
        ) from None


def _xlsx_cells(path: Path, sheet: str | None, notes: list[str]) -> list[tuple[int, list[str]]]:
    from openpyxl import load_workbook  # half a second that readers of CSV need not wait

    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # a damaged file fails in zip, in XML or in openpyxl
        raise LabelError(f"{path.name}: not a readable XLSX ({error}). Save it anew, or as CSV.") from error
    try:
        names = book.sheetnames
        if sheet is not None and sheet not in names:
            raise LabelError(f"{path.name}: no sheet {sheet!r}. Found {', '.join(map(repr, names))} (--sheet).")
        if sheet is None and len(names) > 1:
            notes.append(f"{path.name}: read from the first of {len(names)} sheets, {names[0]!r} (sheet= or --sheet).")
        rows = book[sheet or names[0]].iter_rows(values_only=True)
        return [(line, [_cell(value) for value in row]) for line, row in enumerate(rows, start=1)]
    finally:
        book.close()


def _cell(value: object) -> str:
    """Excel knows no integers: 7.0 is 7."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
