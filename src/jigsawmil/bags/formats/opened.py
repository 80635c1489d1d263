"""A path as the formats look at it: its name, and its header if it is an HDF5 file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import FeatureError
from . import hdf5
from .source import Options, Stored


@dataclass(frozen=True)
class Opened:
    path: Path
    attrs: dict[str, Any] = field(default_factory=dict)  # of the file
    arrays: dict[str, Stored] = field(default_factory=dict)  # by name, unread

    @property
    def slide_id(self) -> str:
        """The file's name without its ending; dots inside the name are part of it."""
        return self.path.stem

    def array(self, *names: str) -> Stored:
        """The first array of these names."""
        for name in names:
            if name in self.arrays:
                return self.arrays[name]
        raise FeatureError(
            f"{self.path.name}: datasets {sorted(self.arrays) or 'none'}, expected {' or '.join(map(repr, names))}."
        )

    def own_coords(self, options: Options) -> Stored:
        """`coords` of this very file; a second source of them is an error, for nobody could say which is right."""
        if options.coords is not None and "coords" in self.arrays:
            raise coords_twice(self.path, options.coords)
        return self.array("coords")


def coords_twice(path: Path, given: Path) -> FeatureError:
    return FeatureError(
        f"{path.name}: the file holds its own coordinates, and coords={given} names others. Leave coords out."
    )


def open_path(path: Path) -> Opened:
    if not path.exists():
        raise FeatureError(f"{path}: no such file. Check the path, or extract the slide.")
    if not path.is_file() and not path.is_dir():  # a pipe would be waited for
        raise FeatureError(f"{path}: neither a file nor a folder. Check the path, or extract the slide.")
    if path.is_file() and path.suffix in (*hdf5.SUFFIXES, *hdf5.DEEP):
        header = hdf5.read_header(path, deep=path.suffix in hdf5.DEEP)
        return Opened(path, header.attrs, header.arrays)
    return Opened(path)
