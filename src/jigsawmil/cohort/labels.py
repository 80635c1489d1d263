"""Label tables: which slide belongs to which patient and class, whatever program wrote the table.

Everything is a string from the first byte on, so that "007" stays "007" and a class called "None" stays a class.
Nothing is judged here beyond what makes a table unreadable: `audit` lists what is wrong with a table, all at once.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pandas as pd

from ..bags.names import slide_name
from ..bags.spelling import plain_id, tcga_patient
from ..errors import LabelError
from ..tasks import Task, column_task
from .covariates import covariate_names
from .tables import MPP_NAMES, PATIENT_NAMES, SLIDE_NAMES, Table, option_for, read_table

COVARIATE = "covariate "  # begins the names of clinical columns among the rows of a table
TCGA_SAMPLE = re.compile(r"TCGA-[0-9A-Z]{2}-[0-9A-Z]{4}-\d{2}(?!\d)")  # 15 characters


@dataclass(frozen=True, eq=False)
class LabelTable:
    """A label table as it was read by `read_labels`, with no row left out.

    rows: string columns slide_id, patient_id, label, site ("" where the cell is missing), and `line` in the file; in
    `written` the label cells that say that nothing is known, such as [Not Available].
    level: whether the table gives a label to a slide or to a patient (and so to all of the patient's slides).
    columns: role -> the column it was read from. resolutions: slide -> microns per level-0 pixel, as far as there is a
    column of them. label_columns: options that name the columns of the label.
    """

    rows: pd.DataFrame
    source: str
    level: Literal["slide", "patient"]
    columns: dict[str, str]
    notes: tuple[str, ...] = ()
    resolutions: Mapping[str, float] = field(default_factory=dict)
    label_columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def covariates(self) -> list[str]:
        """Names of the clinical columns that were read; in `rows` they begin with COVARIATE."""
        return [c.removeprefix(COVARIATE) for c in self.rows if c.startswith(COVARIATE)]

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
            return by_patient.get(tcga_patient(slide_id), [])

        names = list(slide_ids)
        joined = [(slide_id, row) for slide_id in names for row in rows_of(slide_id)]
        if not joined:
            raise LabelError(
                f"{self.source} has patients ({listed(list(by_patient), 2)}) but no column of slides, and no feature "
                f"file ({listed(names, 2)}) is named after one of them. Name the column ({option_for('slide')}), or "
                "give the table that says which slide is whose: slide_table= or --slide-table, columns PATIENT and "
                "FILENAME."
            )
        rows = self.rows.iloc[[row for _, row in joined]].assign(slide_id=[slide_id for slide_id, _ in joined])
        rest = self.rows[~self.rows["patient_id"].isin(set(rows["patient_id"]))]
        both = pd.concat([rows, rest], ignore_index=True).drop(columns="sample_id")
        note = "Slides were joined to patients by name (TCGA barcode, or the patient's id)."
        return replace(self, rows=both, notes=(*self.notes, note))


def read_labels(
    path: str | Path,
    *,
    slide_column: str | None = None,
    patient_column: str | None = None,
    label_column: str | None = None,
    label_columns: str | None = None,
    site_column: str | None = None,
    slide_table: str | Path | None = None,
    mpp_column: str | None = None,
    sheet: str | None = None,
    time_column: str | None = None,
    event_column: str | None = None,
    covariates: str | None = None,
    task: str | Task | None = None,
) -> LabelTable:
    """Read a CSV, TSV or XLSX of labels. Columns are recognised by the names that tools give them, or named by option.

    task: one that reads its label from other columns than one of classes, such as a time and an event.

    covariates: names of clinical columns, comma separated.

    With `slide_table` (STAMP: PATIENT, FILENAME), `path` gives a label to a patient, and the slides come from there.

    Example: `read_labels("clini.xlsx", slide_table="slides.csv", label_column="isMSIH")`
    """
    named = {
        "label_column": label_column, "label_columns": label_columns, "time_column": time_column,
        "event_column": event_column,
    }  # fmt: skip
    kind = column_task(task, [name for name, column in named.items() if column is not None])
    table = read_table(Path(path), sheet)
    slides = read_table(Path(slide_table), None) if slide_table is not None else None
    columns: dict[str, str] = {}

    where = slides or table
    slide = where.pick("slide", SLIDE_NAMES, slide_column)
    if slides is not None and slide is None:
        raise LabelError(f"{slides.name}: no column of slides. Found {slides.found()}. Name it: {option_for('slide')}.")
    patient = table.pick("patient", PATIENT_NAMES, patient_column)
    if patient is None and (slide is None or slides is not None):
        raise LabelError(
            f"{table.name}: no column of {'patients' if slides else 'slides or patients'} is recognised. Found "
            f"{table.found()}. Name it: {option_for('patient' if slides else 'slide')}."
        )
    taken = {patient} if slides is not None else {slide, patient}
    own = kind.pick_columns(table, named, taken)
    columns["label"] = ", ".join(own)
    columns |= {role: name for role, name in (("slide", slide), ("patient", patient)) if name is not None}
    mpp = where.pick("mpp", MPP_NAMES, mpp_column)
    if mpp is not None and slide is not None:
        columns["mpp"] = mpp
    if site_column is not None:
        columns["site"] = table.existing("site", site_column)

    known, label_notes = list(map(table.known, own)), dict[str, None]()
    if kind.calls_classes:
        plain = list(map(plain_labels, known))
        known, label_notes = (
            [values for values, _ in plain],
            dict.fromkeys(note for _, found in plain for note in found),
        )
    labels = [kind.join_cells(own, row) for row in zip(*known, strict=True)]
    cells = [", ".join(filter(None, row)) for row in zip(*map(table.cells, own), strict=True)]
    written = [cell if not label else "" for cell, label in zip(cells, labels, strict=True)]
    blank = [""] * len(labels)
    rows = pd.DataFrame(
        {
            "patient_id": table.known(patient) if patient else blank,
            "label": labels,
            "site": table.cells(columns["site"]) if site_column else blank,  # NA is a TCGA site
            "written": written,
            "line": table.lines,
        }
    )
    for name in covariate_names(covariates):
        rows[COVARIATE + name] = table.known(table.existing("covariate", name))
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
    rows, resolutions = rows[first + [c for c in rows if c not in first]], {}
    if slide is not None and mpp is not None:
        resolutions = _resolutions(where, slide, mpp)
        notes.append(f"The resolution of each slide is read from the column {mpp!r}.")
    return LabelTable(rows, table.name, level, columns, tuple(notes), resolutions, kind.name_columns(own))


def _resolutions(table: "Table", slide: str, mpp: str) -> dict[str, float]:
    """Slide -> microns per level-0 pixel, of those that have a number."""
    found: dict[str, float] = {}
    wrong = []
    for slide_id, cell, line in zip(map(slide_name, table.values(slide)), table.known(mpp), table.lines, strict=True):
        if not slide_id or not cell:
            continue
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf or found.setdefault(slide_id, value) != value:
            wrong.append(f"line {line}: {slide_id} {cell}")
    if wrong:
        raise LabelError(
            f"{table.name}: column {mpp!r}: {listed(wrong)}; expected one number above 0 for each slide, its microns "
            "per level-0 pixel. Correct the table, or rename that column if it is about something else."
        )
    return found


def _join(clinical: pd.DataFrame, slides: "Table", slide: str | None, patient_column: str | None) -> pd.DataFrame:
    """A row for each slide with its patient's label, then the patients without slides; nothing drops out."""
    assert slide is not None
    named = patient_column if patient_column in slides.columns else None
    patient = slides.pick("patient", PATIENT_NAMES, named)
    if patient is None:
        raise LabelError(f"{slides.name}: no column of patients. Found {slides.found()}. Use {option_for('patient')}.")
    left = pd.DataFrame(
        {"slide_id": [slide_name(value) for value in slides.values(slide)], "patient_id": slides.known(patient)}
    )
    known = clinical[clinical["patient_id"] != ""]  # else a blank patient would meet every other blank one
    rows = left.merge(known, on="patient_id", how="left")
    rest = clinical[~clinical["patient_id"].isin(set(left["patient_id"]) - {""})].assign(slide_id="")
    rows = pd.concat([rows, rest], ignore_index=True)
    rows["line"] = rows["line"].fillna(0).astype(int)
    return rows.fillna(dict.fromkeys([c for c in rows if c != "line"], ""))


def patients_of(
    slide_ids: Sequence[str],
    why: str = "No column of patients",
    remedy: str = f"name the column ({option_for('patient')})",
) -> tuple[list[str], str]:
    """Patients of slides about which no table says more, and the sentence that says how. why, remedy: phrases of it."""
    barcodes = [tcga_patient(slide_id) for slide_id in slide_ids]
    others = [slide_id for slide_id, barcode in zip(slide_ids, barcodes, strict=True) if not barcode]
    if slide_ids and not others:
        return barcodes, f"{why}: the first 12 characters of TCGA barcodes are used."
    which = (
        f"the first 12 characters of TCGA barcodes are used, and slides with other names ({listed(others, 3)}) count "
        "as one patient each"
        if any(barcodes)
        else "each slide counts as one patient"
    )
    return [barcode or slide_id for slide_id, barcode in zip(slide_ids, barcodes, strict=True)], (
        f"{why}: {which}. If patients have several slides, {remedy}, or their slides can be on both sides of a split."
    )


def patient_names(slide_id: str, patient_id: str) -> set[str]:
    """What the patient of a slide may be called, made plain: as the table has it, and by the slide's TCGA barcode."""
    return {plain_id(name) for name in (patient_id, tcga_patient(slide_id)) if name}


def read_patients(
    path: str | Path, *, slide_column: str | None = None, patient_column: str | None = None
) -> dict[str, str]:
    """Slide -> patient from a table of slides; a label table will do, its labels are not looked at.

    Example: `read_patients("labels.csv", patient_column="case")`
    """
    table = read_table(Path(path), None)
    columns = {
        "slide": table.pick("slide", SLIDE_NAMES, slide_column),
        "patient": table.pick("patient", PATIENT_NAMES, patient_column),
    }
    for role, name in columns.items():
        if name is None:
            raise LabelError(f"{table.name}: no column of {role}s. Found {table.found()}. Name it: {option_for(role)}.")
    slides, patients = table.values(str(columns["slide"])), table.known(str(columns["patient"]))
    found: dict[str, str] = {}
    for slide, patient in zip(map(slide_name, slides), patients, strict=True):
        if slide and patient and found.setdefault(slide, patient) != patient:
            raise LabelError(
                f"{table.name}: slide {slide} belongs to the patients {found[slide]} and {patient}; expected one "
                "patient per slide. Correct the table."
            )
    return found


def read_known(path: str | Path, names: Sequence[str], *, slide_column: str | None = None) -> dict[str, dict[str, str]]:
    """Slide -> covariates by name, from a table of slides.

    Example: `read_known("labels.csv", ["age", "sex"])`
    """
    table = read_table(Path(path), None)
    slide = table.pick("slide", SLIDE_NAMES, slide_column)
    if slide is None:
        raise LabelError(f"{table.name}: no column of slides. Found {table.found()}. Name it: {option_for('slide')}.")
    cells = zip(*(table.known(table.existing("covariate", name)) for name in names), strict=True)
    slides = (slide_name(value) for value in table.values(slide))
    return {slide_id: dict(zip(names, row, strict=True)) for slide_id, row in zip(slides, cells, strict=True)}


def group_slides(
    slide_ids: Sequence[str], level: str, patients: Sequence[str] | None = None
) -> list[tuple[str, list[int]]]:
    """What is predicted as one, in the order of first appearance: its name and its slides' positions in the list.

    level: `slide`, or `patient` for all slides of a patient together. patients: of each slide; None reads them off TCGA
    barcodes, and takes slides by any other name for patients of their own.
    """
    if level == "slide":
        return [(slide_id, [index]) for index, slide_id in enumerate(slide_ids)]
    groups: dict[str, list[int]] = {}
    for index, patient in enumerate(patients_of(slide_ids)[0] if patients is None else patients):
        groups.setdefault(patient, []).append(index)
    return list(groups.items())


def tcga_site(name: str) -> str:
    """Tissue source site of a TCGA barcode, "" for other names."""
    return tcga_patient(name)[5:7]


def plain_labels(values: Sequence[str]) -> tuple[list[str], list[str]]:
    """Labels as written, but "1.0" is "1" where the whole column is whole numbers (blanks make floats of integers)."""
    whole = all(re.fullmatch(r"[+-]?\d+(\.0*)?", value) for value in values if value)
    plain = [re.sub(r"\.0*$", "", value) for value in values] if whole else list(values)
    changed = plain != list(values)
    return plain, ["Labels are whole numbers written with a decimal point: 1.0 is read as 1."] if changed else []


def listed(names: Sequence[str], limit: int = 10) -> str:
    """Names in a row, the first `limit` of them: a, b, c ... and 7 more."""
    more = len(names) - limit
    return ", ".join(map(str, names[:limit])) + (f" ... and {more} more" if more > 0 else "")
