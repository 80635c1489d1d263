"""Tables as people save them (CSV, TSV, XLSX): cells as text, and which column plays which role."""

import csv
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ..config import did_you_mean
from ..errors import LabelError

MISSING = frozenset({"", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan"})  # cells that hold nothing, in any column
# Labels and patients that nobody knows, in any case, also in the brackets of cBioPortal. "None" and "null" are not
# among them: they are used as classes. Infinity is no measurement, and no class.
UNKNOWN = frozenset(
    {
        *(cell.casefold() for cell in MISSING),
        *("unknown", "unk", "missing", "n.a.", "-", "--", "'--", "\u2013", "\u2014", ".", "?"),
        *("not available", "not applicable", "not reported", "not evaluated", "not determined", "discrepancy"),
        *("n/d", "n.d.", "tbd", "to be determined", "pending", "not known", "not tested", "not done", "no data"),
        *("#value!", "#ref!", "#name?", "#div/0!", "inf", "-inf", "+inf", "infinity"),
    }
)

# Column names by role, after `plain_name`; the first that is there wins.
SLIDE_NAMES = ("slide_id", "slide", "slide_name", "filename", "file_name", "image_id")  # CLAM, slideflow, STAMP, PANDA
PATIENT_NAMES = ("patient_id", "patient", "case_id", "case")  # nnMIL and cBioPortal, STAMP and slideflow, CLAM
LABEL_NAMES = ("label", "category", "target")
MPP_NAMES = ("slide_mpp", "mpp")
NO_LABEL = re.compile(r"(|index|unnamed:_\d+|split|fold|fold_\d+|dataset|study_id|sample_id)")  # splits, bookkeeping


class Table(NamedTuple):
    """Cells as text. lines: the row of each in the file, as an editor or Excel counts."""

    name: str
    columns: list[str]
    rows: list[list[str]]
    lines: list[int]
    notes: list[str]

    def cells(self, column: str) -> list[str]:
        """As written."""
        j = self.columns.index(column)
        return [row[j] for row in self.rows]

    def values(self, column: str) -> list[str]:
        """The same, but "" for cells that hold nothing."""
        return ["" if cell in MISSING else cell for cell in self.cells(column)]

    def known(self, column: str) -> list[str]:
        """The same, but "" also for cells that say that nobody knows. Beside + a - is the other class."""
        cells = self.cells(column)
        kept = {"-"} if "+" in cells else set()
        return ["" if is_unknown(cell) and cell not in kept else cell for cell in cells]

    def found(self) -> str:
        return "the columns " + ", ".join(repr(c) for c in self.columns if c)

    def existing(self, role: str, name: str) -> str:
        """`name`, if it is a column, and one only."""
        if self.columns.count(name) == 1:
            return name
        if name in self.columns:
            raise LabelError(f"{self.name}: the column {name!r} is there {self.columns.count(name)} times. Rename one.")
        hint = did_you_mean(name, self.columns, key=plain_name)
        raise LabelError(f"{self.name}: no column {name!r} for {option_for(role)}. Found {self.found()}.{hint}")

    def pick(self, role: str, known: Sequence[str], named: str | None) -> str | None:
        """The column for a role: the one named, or the first with a known name, or None."""
        if named is not None:
            return self.existing(role, named)
        plain = {plain_name(c): c for c in reversed(self.columns)}
        candidates = [plain[name] for name in known if name in plain]
        if len(candidates) > 1:
            others = ", ".join(map(repr, candidates[1:]))
            self.notes.append(
                f"{self.name}: {role}s come from {candidates[0]!r}, not from {others} ({option_for(role)})."
            )
        return self.existing(role, candidates[0]) if candidates else None

    def pick_label(self, named: str | None, taken: set[str | None]) -> str:
        """The column named, or one called label, or the only one that is left when every other has a role."""
        if named is not None or any(plain_name(c) in LABEL_NAMES for c in self.columns):
            column = self.pick("label", LABEL_NAMES, named)
            assert column is not None
            return column
        left = [c for c in self.columns if c not in taken and not NO_LABEL.fullmatch(plain_name(c))]
        left = [c for c in left if plain_name(c) not in (*SLIDE_NAMES, *PATIENT_NAMES, *MPP_NAMES)]
        if len(left) == 1:
            return left[0]
        what = f"{len(left)} columns could be the label" if left else "no column is the label"
        raise LabelError(f"{self.name}: {what}. Found {self.found()}. Name it: {option_for('label')}.")


def is_unknown(cell: str) -> bool:
    """Whether a cell says that nothing is known, as [Not Available] does."""
    plain = " ".join(cell.casefold().split())
    return plain in UNKNOWN or (plain.startswith("[") and plain.endswith("]") and plain[1:-1].strip() in UNKNOWN)


def option_for(role: str) -> str:
    return f"{role}_column= or --{role}-column"


def plain_name(column: str) -> str:
    return re.sub(r"[\s-]+", "_", column.strip().lower())


def read_table(path: Path, sheet: str | None) -> Table:
    """Cells of a file as stripped text; comment lines before the header and blank rows go."""
    if not path.is_file():
        found = "found a folder, expected a file" if path.is_dir() else "there is no such file"
        raise LabelError(f"{path}: {found}. Give the label table (CSV, TSV or XLSX).")
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
    return Table(path.name, header, rows, [line for line, _ in body], notes)


def _text_cells(path: Path) -> list[tuple[int, list[str]]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise LabelError(f"{path.name}: not text in UTF-8 ({error.reason}). Save the table as CSV UTF-8.") from None
    skip = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    # The delimiter that gives the header most columns: cells, not characters, so that quoted commas do not count.
    reader = None
    try:
        delimiter = max("\t;,", key=lambda d: len(next(csv.reader(lines[skip:], delimiter=d), [])))
        reader = csv.reader(lines[skip:], delimiter=delimiter, strict=True)  # else an open quote swallows what follows
        return [(skip + reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        line = skip + (1 if reader is None else reader.line_num)
        raise LabelError(f"{path.name}, line {line}: not a table ({error}). Look for an open or stray quote.") from None


def _xlsx_cells(path: Path, sheet: str | None, notes: list[str]) -> list[tuple[int, list[str]]]:
    from openpyxl import load_workbook  # half a second that readers of CSV need not wait

    try:
        with closing(load_workbook(path, read_only=True, data_only=True)) as book:
            names = book.sheetnames
            if sheet is not None and sheet not in names:
                raise LabelError(f"{path.name}: no sheet {sheet!r}. Found {', '.join(map(repr, names))} (--sheet).")
            if sheet is None and len(names) > 1:
                of = f"the first of {len(names)} sheets, {names[0]!r} (sheet= or --sheet)"
                notes.append(f"{path.name}: read from {of}.")
            rows = book[sheet or names[0]].iter_rows(values_only=True)
            return [(line, [_cell(value) for value in row]) for line, row in enumerate(rows, start=1)]
    except LabelError:
        raise
    except Exception as error:  # a damaged file fails in zip, in XML or in openpyxl, on opening or at some row
        raise LabelError(f"{path.name}: not a readable XLSX ({error}). Save it again, or as CSV.") from error


def _cell(value: object) -> str:
    """Excel knows no integers: 7.0 is 7."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
