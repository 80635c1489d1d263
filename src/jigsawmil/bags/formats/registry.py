"""The table of formats: what a format file has to offer, and how one is added from outside the package."""

import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ...errors import ConfigError
from .opened import Opened
from .source import Options, Source

# Each is asked before those to its left; a format whose file is not named here is asked before all of them.
ORDER = (
    "named",
    "clam",
    "torchmil",
    "trident",
    "slideflow",
    "uni2h",
    "stamp",
    "lazyslide",
    "parquet",
    "h5ad",
    "joined",
)
SHARED = {  # files that hold no format
    "arrays", "find", "guard", "hdf5", "hdf5_child", "opened", "registry", "siblings", "source", "zarr_arrays",
}  # fmt: skip


class Format(NamedTuple):
    """How one tool stores features."""

    matches: Callable[[Opened], bool]  # is it mine?
    scan: Callable[[Opened, Options], Source]  # where are its arrays, and in which unit?
    suffixes: tuple[str, ...]  # endings of its files
    datasets: tuple[str, ...] = ()  # names that its HDF5 files give to features
    folders: bool = False  # a slide is a folder of that ending, not a file
    keyed: bool = False  # takes `features_key` and `coords_key`


FORMATS: dict[str, Format] = {}


def register_format(name: str, format: Format | ModuleType, *, before: str | None = None) -> None:
    """Add a format: a `Format`, or a module with `matches`, `scan`, `SUFFIXES` and, if need be, `DATASETS`,
    `FOLDERS`, `KEYED`.

    The first format that recognises a file reads it, so the particular stands before the general: a new format is asked
    before the one called `before`, or before all others. Processes that are started later have to register it too.

    Example: `register_format("mine", my_package.my_format)`
    """
    if before is not None and before not in FORMATS:
        raise ConfigError(f"before={before!r}: expected one of {', '.join(FORMATS)}.")
    if isinstance(format, ModuleType):
        datasets, folders = getattr(format, "DATASETS", ()), getattr(format, "FOLDERS", False)
        keyed = getattr(format, "KEYED", False)
        format = Format(format.matches, format.scan, tuple(format.SUFFIXES), tuple(datasets), folders, keyed)
    others = {key: known for key, known in FORMATS.items() if key != name}
    FORMATS.clear()
    for key, known in others.items():
        if key == (before or next(iter(others))):
            FORMATS[name] = format
        FORMATS[key] = known
    FORMATS.setdefault(name, format)


def feature_suffixes(*, folders: bool | None = None) -> tuple[str, ...]:
    """Endings of feature files, of all formats; or only of those whose slides are (or are not) folders."""
    known = [one for one in FORMATS.values() if folders in (None, one.folders)]
    return tuple(sorted({suffix for one in known for suffix in one.suffixes}))


def feature_datasets() -> set[str]:
    """Names that HDF5 files give to features, in all formats."""
    return {name for known in FORMATS.values() for name in known.datasets}


_files = {file.name for file in pkgutil.iter_modules([str(Path(__file__).parent)])} - SHARED
for _name in (*ORDER, *sorted(_files.difference(ORDER))):
    register_format(_name, import_module(f".{_name}", __package__))
