"""Parquet: one file for each slide, one row for each patch.

Features are a column of lists, or numbered columns of numbers (`feature_0`, `feature_1`, ...); `features_key` names the
column, or what comes before the numbers. Coordinates are two columns (`x` and `y`, or named `coords_key="left,top"`),
or one of lists; top-left corners, whose unit has to be stated.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FeatureError
from .arrays import as_tensor
from .opened import Opened
from .source import Options, Source, Stored

SUFFIXES, KEYED = (".parquet",), True
NEEDS = "pip install 'jigsawmil[zarr]'"
FEATURES = ("features", "feats", "embeddings", "embedding")
COORDS = (("x", "y"), ("coord_x", "coord_y"), ("coords_x", "coords_y"), ("coords",), ("coordinates",))


def matches(file: Opened) -> bool:
    return file.path.suffix in SUFFIXES


def scan(file: Opened, options: Options) -> Source:
    if options.coords is not None:
        raise FeatureError(f"{file.path.name}: a table holds its own coordinates. Leave coords out.")
    table = _open(file.path)
    features = _features(file.path, table, options.features_key)
    coords = _coords(file.path, table, options.coords_key)
    return Source(
        path=file.path,
        slide_id=file.slide_id,
        features=_stored(file.path, table, features),
        coords=None if coords is None else _stored(file.path, table, coords),
    )


def _open(path: Path) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FeatureError(f"{path.name}: Parquet needs the pyarrow package: {NEEDS}") from error
    try:
        return pq.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise FeatureError(f"{path.name}: cannot be read as Parquet ({error}). Copy it again.") from error


def _features(path: Path, table: Any, key: str | None) -> list[str]:
    """The columns that hold the features, in order."""
    columns = table.schema_arrow.names
    found = [name for name in (FEATURES if key is None else (key,)) if name in columns]
    numbered = _numbered(columns)
    stems = [stem for stem in numbered if key in (None, stem, stem.rstrip("_")) and len(numbered[stem]) > 1]
    if len(found) == 1:
        return found
    if not found and len(stems) == 1:
        return numbered[stems[0]]
    what = f"none is {key!r}" if key else "several may hold the features" if found or stems else "none holds features"
    raise FeatureError(
        f"{path.name}: of the columns {', '.join(columns[:8])}{', ...' if len(columns) > 8 else ''} {what}. Name "
        "one of lists, or what comes before the numbers of several: --features-key (features_key= in Python)."
    )


def _numbered(columns: list[str]) -> dict[str, list[str]]:
    """What comes before the numbers -> the columns, by number."""
    found: dict[str, dict[int, str]] = {}
    for name in columns:
        if match := re.fullmatch(r"(\D*?)(\d+)", name):
            found.setdefault(match[1], {})[int(match[2])] = name
    return {stem: [names[number] for number in sorted(names)] for stem, names in found.items()}


def _coords(path: Path, table: Any, key: str | None) -> list[str] | None:
    columns = set(table.schema_arrow.names)
    if key is None:
        found = [list(names) for names in COORDS if columns.issuperset(names)]
        return found[0] if found else None
    names = [name.strip() for name in key.split(",")]
    if len(names) > 2 or not columns.issuperset(names):
        raise FeatureError(
            f"{path.name}: coords_key={key!r}, expected one column of lists or two of numbers, such as x,y, among "
            f"{', '.join(table.schema_arrow.names[:8])}, ..."
        )
    return names


def _stored(path: Path, table: Any, columns: list[str]) -> Stored:
    """Columns of numbers side by side, or the one column of lists; read when asked for."""
    kind = table.schema_arrow.field(columns[0]).type
    rows, width = table.metadata.num_rows, len(columns)
    lists = hasattr(kind, "value_type")
    if lists and rows:
        width = len(next(table.iter_batches(batch_size=1, columns=columns)).column(0)[0])
    number = str(kind.value_type if lists else kind)
    number = {"double": "float64", "float": "float32", "halffloat": "float16"}.get(number, number)

    def read() -> Any:
        read = _open(path).read(columns=columns)
        try:
            if lists:
                flat = read.column(0).combine_chunks().flatten().to_numpy(zero_copy_only=False)
                array = flat.reshape(rows, width)
            else:
                array = np.stack([read.column(name).to_numpy() for name in columns], axis=1)
            return as_tensor(array.astype(number))
        except (ValueError, TypeError) as error:
            raise FeatureError(
                f"{path.name}: {', '.join(columns[:2])}: expected numbers, as many in each row ({error}). "
                "Write the table again."
            ) from error

    return Stored((rows, width), number, read)
