"""Folds on disk: our `folds.json`, and the split files of CLAM, STAMP and Patho-Bench, read and written; slideflow's,
read.

Every reader refuses leaks and slides it cannot place. Whether each slide is tested exactly once is left to
`check_folds`: CLAM's splits, official ones and many of Patho-Bench's are hold-outs and not meant to be.
"""

import csv
import io
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from ..errors import SplitError
from ..files import replacing
from .by_patient import Label
from .labels import slide_name
from .split_json import slideflow_folds, stamp_folds
from .splits import PARTS, Fold, check_folds

FORMAT, VERSION = "jigsawmil folds", 1
CLAM_FILE, CLAM_BOOL_FILE = re.compile(r"splits_(\d+)\.csv"), re.compile(r"splits_(\d+)_bool\.csv")

UNUSED = ("", "-1")  # what Patho-Bench writes of a slide that a fold does not use, in its few-shot splits

Row = dict[str, str]


def read_splits(
    path: str | Path, slide_ids: Sequence[str], patient_ids: Sequence[str], *, left_out: Collection[str] = ()
) -> list[Fold]:
    """Folds of a file, or of a folder that holds one set of them; the kind is recognised by the content.

    Known: `folds.json`, CLAM's `splits_0.csv` ... (or `_bool`), `splits.json` of STAMP or slideflow, Patho-Bench's
    `k=all.tsv`.
    Slide ids match with or without a file ending (.svs, .h5, ...). A `val` part becomes the fold's inner validation.
    left_out: slides that the cohort left out, and has said so: tables of CLAM and Patho-Bench may name them.

    Example: `read_splits("clam/splits", cohort.slide_ids, cohort.patients)`
    """
    path = Path(path)
    files = _files_in(path) if path.is_dir() else [path]
    if files[0].suffix.lower() == ".json":
        return _read_json_splits(files[0], slide_ids, patient_ids)
    tables = [_read_table(file) for file in files]
    columns = tables[0][0]
    if "slide_id" in columns and _fold_columns(columns):
        folds = _patho_bench_folds(files[0], *tables[0])
    elif "train" in columns:
        folds = [_clam_fold(file, *table) for file, table in zip(files, tables, strict=True)]
    else:
        raise SplitError(
            f"{path.name}: columns {', '.join(columns)}; expected train,val,test (CLAM) or case_id, slide_id, "
            "fold_0, ... (Patho-Bench)."
        )
    folds = _resolved(folds, slide_ids)
    if absent := {slide_name(name) for name in left_out} - set(slide_ids):
        folds = [
            Fold(**{part: tuple(s for s in getattr(fold, part) if slide_name(s) not in absent) for part in PARTS})
            for fold in folds
        ]
    _check(path, folds, slide_ids, patient_ids)
    return folds


def write_folds(
    folds: Sequence[Fold],
    path: str | Path,
    slide_ids: Sequence[str],
    patient_ids: Sequence[str],
    *,
    seed: int | None = None,
) -> None:
    """Write `folds.json`: each part of a fold as {patient: [slides]}. `seed` made the folds; None if none did.

    Example: `write_folds(folds, "folds.json", cohort.slide_ids, cohort.patients, seed=0)`
    """
    check_folds(folds, slide_ids, patient_ids, each_once=False)
    patient_of = dict(zip(slide_ids, patient_ids, strict=True))
    entries = []
    for fold in folds:
        entry: dict[str, dict[str, list[str]]] = {part: defaultdict(list) for part in PARTS}
        for part in PARTS:
            for slide in getattr(fold, part):
                entry[part][patient_of[slide]].append(slide)
        entries.append(entry)
    content = {"format": FORMAT, "version": VERSION, "seed": seed, "folds": entries}
    _write_text(Path(path), json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_folds(
    path: str | Path, slide_ids: Sequence[str] | None = None, patient_ids: Sequence[str] | None = None
) -> list[Fold]:
    """Read `folds.json`, refusing leaks among its own patients and, where a cohort is given, among the cohort's.

    Example: `read_folds("run/folds.json", cohort.slide_ids, cohort.patients)`
    """
    path = Path(path)
    content = _read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise SplitError(f'{path.name}: not a folds file; expected a JSON object with "format": "{FORMAT}".')
    if content.get("version") != VERSION:
        raise SplitError(
            f"{path.name}: version {content.get('version')!r}; this program reads version {VERSION}. Update jigsawmil."
        )
    folds: list[Fold] = []
    rows: set[tuple[str, str]] = set()
    try:
        for entry in content["folds"]:
            parts = {part: [(s, p) for p, slides in entry[part].items() for s in slides] for part in PARTS}
            folds.append(Fold(**{part: tuple(slide for slide, _ in found) for part, found in parts.items()}))
            rows.update(row for found in parts.values() for row in found)
    except (AttributeError, KeyError, TypeError) as error:
        raise SplitError(
            f'{path.name}: damaged ({error!r}); expected "folds": [{{"train": {{patient: [slides]}}, "val": ..., '
            '"test": ...}, ...]. Write it again.'
        ) from error
    _check(path, folds, [slide for slide, _ in rows], [patient for _, patient in rows])
    if slide_ids is not None and patient_ids is not None:
        _check(path, folds, slide_ids, patient_ids)
    return folds


def write_clam(folds: Sequence[Fold], folder: str | Path, slide_ids: Sequence[str], patient_ids: Sequence[str]) -> None:
    """Write CLAM's `splits_{k}.csv` and `splits_{k}_bool.csv` into a folder that holds no others.

    Example: `write_clam(folds, "splits", cohort.slide_ids, cohort.patients)`
    """
    check_folds(folds, slide_ids, patient_ids, each_once=False)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SplitError(f"{folder}: cannot be made ({error.strerror}). Choose a folder you can write to.") from error
    present = (CLAM_FILE.fullmatch(f.name) or CLAM_BOOL_FILE.fullmatch(f.name) for f in folder.iterdir())
    if stale := sorted(found[0] for found in present if found and int(found[1]) >= len(folds)):
        raise SplitError(
            f"{folder}: holds {', '.join(stale)} of another set, and {len(folds)} folds would be mixed with them. "
            "Choose an empty folder."
        )
    for k, fold in enumerate(folds):
        parts = [getattr(fold, part) for part in PARTS]
        longest = max(map(len, parts))
        padded = [[*part, *[""] * (longest - len(part))] for part in parts]
        lists = [[str(i), *ids] for i, ids in enumerate(zip(*padded, strict=True))]
        flags = [[slide, *(str(part == other) for other in PARTS)] for part in PARTS for slide in getattr(fold, part)]
        _write_table(folder / f"splits_{k}.csv", [["", *PARTS], *lists], ",")
        _write_table(folder / f"splits_{k}_bool.csv", [["", *PARTS], *flags], ",")


def write_stamp(folds: Sequence[Fold], path: str | Path, slide_ids: Sequence[str], patient_ids: Sequence[str]) -> None:
    """Write STAMP's `splits.json`. It knows patients, and no validation part: a fold's `val` joins the training
    patients, out of which STAMP draws its own.

    Example: `write_stamp(folds, "splits.json", cohort.slide_ids, cohort.patients)`
    """
    check_folds(folds, slide_ids, patient_ids, each_once=False)
    patient_of = dict(zip(slide_ids, patient_ids, strict=True))
    splits = []
    for number, fold in enumerate(folds):
        train, test = ({patient_of[s] for s in slides} for slides in (fold.train + fold.val, fold.test))
        listed = {*fold.train, *fold.val, *fold.test}
        if missing := sorted(s for s, p in patient_of.items() if p in train | test and s not in listed):
            raise SplitError(
                f"Fold {number} leaves out slides of patients it uses: {', '.join(missing)}. STAMP's file lists "
                "patients, so all their slides would come in. Complete the fold, or write another format."
            )
        splits.append({"train_patients": sorted(train), "test_patients": sorted(test)})
    _write_text(Path(path), json.dumps({"splits": splits}, indent=4, ensure_ascii=False))


def write_patho_bench(
    folds: Sequence[Fold],
    path: str | Path,
    slide_ids: Sequence[str],
    patient_ids: Sequence[str],
    labels: Sequence[Label],
    *,
    task: str,
) -> None:
    """Write Patho-Bench's `k=all.tsv`; `task` names the label column. A slide that a fold leaves out has a blank.

    Example: `write_patho_bench(folds, "k=all.tsv", cohort.slide_ids, cohort.patients, labels, task="grade")`
    """
    check_folds(folds, slide_ids, patient_ids, each_once=False)
    if len(labels) != len(slide_ids):
        raise SplitError(f"{len(slide_ids)} slide ids and {len(labels)} labels; expected one for every slide.")
    part_of = [{slide: part for part in PARTS for slide in getattr(fold, part)} for fold in folds]
    header = ["case_id", "slide_id", task, *(f"fold_{k}" for k in range(len(folds)))]
    rows = [
        [patient, slide, str(label), *(parts.get(slide, "") for parts in part_of)]
        for slide, patient, label in zip(slide_ids, patient_ids, labels, strict=True)
    ]
    _write_table(Path(path), [header, *rows], "\t")


def _files_in(folder: Path) -> list[Path]:
    """The one set of split files in a folder, CLAM's in the order of their numbers."""
    found = {name: [folder / name] for name in ("folds.json", "splits.json", "k=all.tsv") if (folder / name).exists()}
    for pattern in (CLAM_FILE, CLAM_BOOL_FILE):  # the lists and the flags say the same: one of them will do
        matches = [match for match in map(pattern.fullmatch, os.listdir(folder)) if match]
        numbered = {int(match[1]): folder / match[0] for match in matches}
        if numbered and "CLAM" not in found:
            found["CLAM"] = [numbered[k] for k in sorted(numbered)]
            if gaps := [str(k) for k in range(max(numbered)) if k not in numbered]:
                raise SplitError(
                    f"{folder}: splits number {', '.join(gaps)} are missing among {len(numbered)} CLAM files; "
                    "expected splits_0.csv, splits_1.csv, ... without gaps."
                )
    if len(found) != 1:
        names = ", ".join(file.name for files in found.values() for file in files)
        raise SplitError(
            f"{folder}: {'several kinds of split files (' + names + '); name one' if found else 'no split file'}. "
            "Expected folds.json, splits_0.csv ... (CLAM), splits.json (STAMP, slideflow) or k=all.tsv (Patho-Bench)."
        )
    return found.popitem()[1]


def _read_json_splits(path: Path, slide_ids: Sequence[str], patient_ids: Sequence[str]) -> list[Fold]:
    content = _read_json(path)
    if isinstance(content, list):
        folds, patient_of = slideflow_folds(path.name, content)
        _check(path, folds, list(patient_of), list(patient_of.values()))  # even where the labels name no patients
        folds = _resolved(folds, slide_ids)
    elif isinstance(content, dict) and "splits" in content:
        folds = stamp_folds(path.name, content["splits"], slide_ids, patient_ids)
    else:
        return read_folds(path, slide_ids, patient_ids)
    _check(path, folds, slide_ids, patient_ids)
    return folds


def _clam_fold(path: Path, columns: list[str], rows: list[Row]) -> Fold:
    if "test" not in columns:
        raise SplitError(
            f"{path.name}: columns {', '.join(columns)} and no test; expected train,val,test. "
            "Where a tool tests on its val column (MCAT, SurvPath), rename that column to test."
        )
    present = [part for part in PARTS if part in columns]
    flags = {row[part] for row in rows for part in present}
    if flags <= {"True", "False"}:
        return Fold(**{part: tuple(row[columns[0]] for row in rows if row.get(part) == "True") for part in PARTS})
    return Fold(**{part: tuple(row[part] for row in rows if row.get(part)) for part in PARTS})


def _patho_bench_folds(path: Path, columns: list[str], rows: list[Row]) -> list[Fold]:
    names = _fold_columns(columns)
    valid = {*UNUSED, *PARTS}
    if wrong := [f"{row['slide_id']} {name}={row[name]!r}" for row in rows for name in names if row[name] not in valid]:
        raise SplitError(
            f"{path.name}: {', '.join(wrong)}; expected train, val, test, or -1 or a blank for a slide that a "
            "fold does not use. Correct the table."
        )
    folds = [
        Fold(**{part: tuple(row["slide_id"] for row in rows if row[name] == part) for part in PARTS}) for name in names
    ]
    if "case_id" in columns:  # the table's own patients must be apart too, even where the cohort's labels name none
        _check(path, folds, [row["slide_id"] for row in rows], [row["case_id"] for row in rows])
    return folds


def _check(path: Path, folds: Sequence[Fold], slide_ids: Sequence[str], patient_ids: Sequence[str]) -> None:
    try:
        check_folds(folds, slide_ids, patient_ids, each_once=False)
    except SplitError as error:
        raise SplitError(f"{path.name}: {error}") from error


def _fold_columns(columns: Iterable[str]) -> list[str]:
    return sorted((c for c in columns if re.fullmatch(r"fold_\d+", c)), key=lambda c: int(c.removeprefix("fold_")))


def _resolved(folds: Sequence[Fold], slide_ids: Sequence[str]) -> list[Fold]:
    """The same folds with the cohort's ids."""
    resolve = _resolver(slide_ids)
    return [Fold(**{part: tuple(map(resolve, getattr(fold, part))) for part in PARTS}) for fold in folds]


def _resolver(slide_ids: Sequence[str]) -> Callable[[str], str]:
    """From an id in a file to the cohort's: the one slide of that name, file endings aside, if it is one."""
    bare: dict[str, list[str]] = defaultdict(list)
    for slide in slide_ids:
        bare[slide_name(slide)].append(slide)

    def resolve(name: str) -> str:
        candidates = bare.get(slide_name(name), [])
        return candidates[0] if len(candidates) == 1 else name

    return resolve


def _read_table(path: Path) -> tuple[list[str], list[Row]]:
    """(columns, rows), all text: no value is taken for a number or for missing."""
    text = _read_text(path)
    header = text.partition("\n")[0]
    try:
        lines = [
            [cell.strip() for cell in line]
            for line in csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in header else ",")
            if line
        ]
    except csv.Error as error:
        raise SplitError(f"{path.name}: not a table ({error}). Look for an open or stray quote.") from error
    if len(lines) < 2:
        raise SplitError(f"{path.name}: {len(lines)} lines; expected a header and at least one row.")
    columns = lines[0]
    if ragged := [str(number) for number, line in enumerate(lines, 1) if len(line) != len(columns)]:
        raise SplitError(
            f"{path.name}: rows {', '.join(ragged)} do not have the header's {len(columns)} columns. "
            "The file may be cut off: copy or write it again."
        )
    return columns, [dict(zip(columns, line, strict=True)) for line in lines[1:]]


def _write_table(path: Path, rows: list[list[str]], delimiter: str) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    _write_text(path, text.getvalue())


def _write_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise SplitError(f"{path}: cannot be written ({error.strerror}). Choose a folder you can write to.") from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SplitError(f"{path}: cannot be read ({error}). Expected a split file in UTF-8 text.") from error


def _read_json(path: Path) -> Any:
    try:
        return json.loads(_read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise SplitError(f"{path.name}: not valid JSON ({error}). Write the file again.") from error
