"""What recipes are made from: clinical tables, lists of slides, folders of features or slides, institutions of TCGA."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from ...bags.formats import feature_suffixes, find_bags
from ...bags.names import has_known_ending, slide_name
from ...bags.spelling import tcga_patient
from ...errors import FeatureError, LabelError
from ...files import no_folder
from ..tables import PATIENT_NAMES, SLIDE_NAMES, Table, plain_name, read_table

CAMELYON_NAME = re.compile(r"(normal|tumor|test)_\d+", re.IGNORECASE)
NAMED_CLASS = re.compile(r"(normal|tumor)_\d+", re.IGNORECASE)


def read_clinical(
    path: str | Path,
    needed: Mapping[str, Sequence[str]],
    optional: Mapping[str, Sequence[str]],
    sheet: str | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Text columns slide_id, patient_id, sample_id ("" where there is none) and one for each role found; and notes.

    needed, optional: role -> column names as tools write them, plain (lower case, underscores); the first found wins.
    """
    table = read_table(Path(path), sheet)
    columns = {role: _find(table, names) for role, names in {**needed, **optional}.items()}
    missing = [names for role, names in needed.items() if columns[role] is None]
    slide, patient = _find(table, SLIDE_NAMES), _find(table, PATIENT_NAMES)
    if slide is None and patient is None:
        missing.insert(0, ("patient_id", "slide_id"))
    if missing:
        wanted = "; ".join(" or ".join(names) for names in missing)
        raise LabelError(
            f"{table.name}: no column {wanted} (case, blanks and underscores do not matter). Found {table.found()}. "
            "Give the table that this recipe is for (docs/recipes.md), or name its columns so."
        )
    if not table.rows:
        raise LabelError(f"{table.name}: a header without rows. Expected one row per slide or patient.")
    blank = [""] * len(table.rows)
    slides = [slide_name(value) for value in table.values(slide)] if slide else blank
    patients = table.values(patient) if patient else [tcga_patient(name) or name for name in slides]
    sample = _find(table, ("sample_id",))
    rows = {
        "slide_id": slides,
        "patient_id": [tcga_patient(name) or name for name in patients],
        "sample_id": table.values(sample) if sample else blank,
    }
    rows |= {role: table.values(column) for role, column in columns.items() if column is not None}
    return pd.DataFrame(rows, dtype=str), table.notes


def read_slide_list(path: str | Path) -> pd.DataFrame:
    """Slides and, in a column or in their TCGA barcodes, their patients: slide_id, patient_id ("" if unknown)."""
    table = read_table(Path(path), None)
    slide, patient = _find(table, SLIDE_NAMES), _find(table, PATIENT_NAMES)
    if slide is None:
        raise LabelError(
            f"{table.name}: no column of slides. Found {table.found()}; expected {' or '.join(SLIDE_NAMES)}. Rename it."
        )
    names = [slide_name(value) for value in table.values(slide)]
    return _slides(names, table.values(patient) if patient else [""] * len(names))


def list_folder(folder: str | Path) -> pd.DataFrame:
    """Slides that a folder has features of or, where it has none, images of: slide_id, patient_id by barcode."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FeatureError(f"{no_folder(folder)}. Expected one of feature files or of slides.")
    images, features, suffixes, stores = [], False, feature_suffixes(), feature_suffixes(folders=True)
    for _, folders, files in os.walk(folder):
        features |= any(name.lower().endswith(suffixes) for name in (*folders, *files))
        folders[:] = [name for name in folders if not name.endswith(stores) and not name.startswith(".")]
        images += [name for name in files if has_known_ending(name) and not name.startswith(".")]
    if not features and not images:
        raise FeatureError(
            f"{folder}: neither feature files ({', '.join(suffixes)}) nor slides (.svs, .tif, ...) in it. "
            "Correct the path."
        )
    names = [slide_name(name) for name in sorted(find_bags(folder) if features else images)]
    return _slides(names, [""] * len(names))


def read_camelyon(reference: str | Path | None, lists: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """CAMELYON16: all slides, and as `class_name` what their own names or the reference say, "" where neither does.

    Names are spelled as in the lists: normal_001 and Normal_001 are both in use.
    """
    if reference is None and not lists:
        raise LabelError(
            "camelyon16 labels slides by their names, and found none. Give --features or --slides, and for test slides "
            "the challenge's reference.csv as --clinical."
        )
    names = list(dict.fromkeys(name for listing in lists for name in listing["slide_id"]))
    classes = {name: name.split("_")[0] if NAMED_CLASS.fullmatch(name) else "" for name in names}
    spelled = {name.lower(): name for name in names}
    given = _reference_rows(read_table(Path(reference), None)) if reference is not None else []
    rows = [(spelled.get(name.lower(), name), class_name) for name, class_name in given]
    rows += [(name, class_name) for name, class_name in classes.items() if class_name or name not in dict(rows)]
    table = pd.DataFrame(rows, columns=["slide_id", "class_name"], dtype=str)
    return table.assign(patient_id=table["slide_id"], sample_id="")


def _reference_rows(table: Table) -> list[tuple[str, str]]:
    """Slide and class: the first two columns, as published without a header, or columns that say so."""
    rows = table.rows
    slide, label = _find(table, ("name", "image", *SLIDE_NAMES)), _find(table, ("label", "class", "type"))
    if slide is not None and label is not None:
        places = (table.columns.index(slide), table.columns.index(label))
    elif len(table.columns) > 1 and CAMELYON_NAME.fullmatch(slide_name(table.columns[0])):
        rows, places = [table.columns, *rows], (0, 1)
    else:
        raise LabelError(
            f"{table.name}: found {table.found()}; expected CAMELYON16's reference.csv, with lines such as "
            "test_001,Tumor,IDC,Macro, or a table with the columns slide_id and label."
        )
    return [(slide_name(row[places[0]]), row[places[1]]) for row in rows]


def read_institutions(path: str | Path) -> dict[str, str]:
    """TCGA's tissue source sites: two-character code -> institution. `NA` is a code (Duke University)."""
    table = read_table(Path(path), None)
    code, site = _find(table, ("tss_code", "code")), _find(table, ("source_site", "institution"))
    if code is None or site is None:
        raise LabelError(
            f"{table.name}: found {table.found()}; expected TCGA's table of tissue source sites, 'TSS Code' and "
            "'Source Site'."
        )
    # A spreadsheet makes 6 of 06.
    codes = [value.zfill(2) for value in table.cells(code)]
    return {code: name for code, name in zip(codes, table.values(site), strict=True) if name}


def _slides(names: Sequence[str], owners: Sequence[str]) -> pd.DataFrame:
    patients = [tcga_patient(owner or name) or owner for name, owner in zip(names, owners, strict=True)]
    return pd.DataFrame({"slide_id": names, "patient_id": patients}, dtype=str)


def _find(table: Table, names: Sequence[str]) -> str | None:
    plain = {plain_name(column): column for column in reversed(table.columns)}
    return next((plain[name] for name in names if name in plain), None)
