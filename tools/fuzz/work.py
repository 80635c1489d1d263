"""The process that reads damaged files, one after the other, and tells of each what came out. It may hang or die."""

import json
import shutil
import sys
import traceback
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from jigsawmil.bags.formats import hdf5_child
from jigsawmil.errors import JigsawmilError

from .damage import damage
from .targets import Answer, Target, targets

MEMORY = 1 << 30  # bytes by which the process may grow for files of some kilobytes


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")
    return bool(one == other)


def zeros(answer: Answer) -> int:
    return sum(int((value == 0).sum()) for value in answer.values() if isinstance(value, np.ndarray))


def judge(target: Target, root: Path, whole: Answer, how: str) -> tuple[str, str]:
    """What became of a damaged file, in a word, and what was said."""
    names = {part for path in root.rglob("*") for part in path.parts[len(root.parts) :]} | {root.name}
    before = peak()
    try:
        answer = target.read(root)
    except JigsawmilError as error:
        words = str(error)
        if not any(name in words or Path(name).stem in words for name in names):
            return "no name", words
        return "clear error", words
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "other error", f"{type(error).__name__}: {str(error)[:200]} ({Path(where.filename).name}:{where.lineno})"
    if peak() - before > MEMORY:
        return "memory", f"grew by {(peak() - before) / 1e9:.1f} GB"
    wrong = sorted(key for key in whole if not same(whole[key], answer.get(key)))
    if not wrong:
        return "equal", ""
    if zeros(answer) > zeros(whole) + 3 and answer.get("placed", True) and may_invent(root, how):
        return "zeros", f"{zeros(answer)} zeros, expected {zeros(whole)}"
    return "unnoticed" if target.own else "changed", ", ".join(wrong)


def may_invent(root: Path, how: str) -> bool:
    """Whether zeros can be of a library's making: of chunks or datasets without a place in the file. Other zeros were
    read from a place of the file, if perhaps from a wrong one, or put there by the damage."""
    if how.split()[0] in ("move", "number", "insert", "lose"):
        return False
    if any(path.suffix == ".zarr" for path in root.rglob("*")):
        return True
    for path in root.rglob("*.h5"):
        if path.suffix not in how:  # this file is whole
            continue
        with h5py.File(path) as file:
            found = [file[key] for key in file]
            if any(not _has_places(one) for one in found if isinstance(one, h5py.Dataset)):
                return True
    return False


def _has_places(dataset: h5py.Dataset) -> bool:
    if not dataset.chunks:
        return dataset.id.get_offset() is not None
    corners = product(*(range(0, end, step) for end, step in zip(dataset.shape, dataset.chunks, strict=True)))
    try:
        for corner in corners:
            dataset.id.read_direct_chunk(corner)
    except (OSError, RuntimeError, ValueError):
        return False
    return True


def peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def number_to_target(known: list[str], number: int) -> str:
    return known[number % len(known)]


def main(seed: int, first: int, step: int, last: int, only: list[str], place: Path) -> None:
    import resource

    hdf5_child.SECONDS = 1  # tiny files need none
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    known = targets(place / "samples")
    names = only or list(known)
    answers: dict[str, Answer] = {}
    for number in range(first, last, step):
        target = known[number_to_target(names, number)]
        root = place / "damaged"
        if target.name not in answers:
            target.make(root)
            answers[target.name] = target.read(root)
            shutil.rmtree(root)
        target.make(root)
        how = damage(root, np.random.default_rng([seed, number]))
        print(json.dumps({"number": number, "target": target.name, "how": how}), flush=True)
        result, words = judge(target, root, answers[target.name], how)
        shutil.rmtree(root)
        print(json.dumps({"result": result, "words": words}), flush=True)


if __name__ == "__main__":
    seed, first, step, last, only, place = sys.argv[1:]
    main(int(seed), int(first), int(step), int(last), json.loads(only), Path(place))
