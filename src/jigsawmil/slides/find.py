"""Which files are slides."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..bags.names import slide_name
from ..errors import SlideError
from ..files import no_folder
from .slide import PICTURES, SLIDES


class SlideFiles(NamedTuple):
    """left_out: files in folders that could be slides, and most likely are none."""

    files: list[Path]
    left_out: list[Path]


def find_slides(paths: Iterable[str | Path]) -> SlideFiles:
    """Slide files: those named, and those in the folders named. Two of one name are refused.

    In a folder, pictures beside slides are labels and thumbnails; and a DICOM slide is many files, any of which opens
    all of it, so one of them has to be named.

    Example: `find_slides(["slides/"]).files`
    """
    found: dict[str, Path] = {}
    left_out: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise SlideError(f"{path}: no such file or folder; expected slides, or a folder of them.")
        inside = sorted(file for file in path.iterdir() if _is_slide(file)) if path.is_dir() else [path]
        if path.is_dir():
            beside = PICTURES | {".dcm"} if any(_ending(file) not in PICTURES for file in inside) else {".dcm"}
            left_out += [file for file in inside if _ending(file) in beside]
            inside = [file for file in inside if _ending(file) not in beside]
        if not inside:
            expected = ", ".join(sorted(SLIDES - {".dcm"}))
            raise SlideError(f"{path}: no slides in this folder; expected {expected}. Of a DICOM slide name one file.")
        for file in inside:
            other = found.setdefault(file.stem, file)
            if other.resolve() != file.resolve():
                raise SlideError(
                    f"{file}: {other} has the same name, so results would be mixed up. Rename one of them."
                )
    return SlideFiles(list(found.values()), left_out)


def slides_below(folder: Path) -> dict[str, list[Path]]:
    """Slide id -> its files, in a folder and all below it. Folders that are links are not entered."""
    if not folder.is_dir():
        raise SlideError(f"{no_folder(folder)}. Give the folder that holds the slides with --slides.")
    found: dict[str, list[Path]] = {}
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = Path(place) / name
            if path.suffix.lower() in SLIDES and not name.startswith("."):
                short = slide_name(name)
                found.setdefault(path.stem if short == name else short, []).append(path)
    return found


def only_file(slide_id: str, slides: Mapping[str, list[Path]]) -> Path:
    """The file of a slide; two files of one name are refused."""
    first, *others = slides[slide_id]
    if others:
        names = ", ".join(str(file) for file in (first, *others))
        raise SlideError(f"{slide_id}: {1 + len(others)} files have this name: {names}. Leave one there.")
    return first


def _is_slide(file: Path) -> bool:
    return file.is_file() and _ending(file) in SLIDES and not file.name.startswith(".")


def _ending(file: Path) -> str:
    return file.suffix.lower()
