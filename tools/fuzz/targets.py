"""What is damaged: files of each kind that the program reads, how it reads them, and what it should read."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import FORMATS, find_bags, peek_bag, read_bag, write_bag

from .. import ROOT

Answer = dict[str, Any]  # what was read: numbers, words and arrays, by name


@dataclass(frozen=True)
class Target:
    """read: of a folder, as `make` left it or damaged. own: our own file, whose every change has to be noticed."""

    name: str
    make: Callable[[Path], None]
    read: Callable[[Path], Answer]
    own: bool = False


def targets(folder: Path) -> dict[str, Target]:
    """All of them. folder: for samples."""
    from .documents import documents
    from .projects import projects

    found = [*_formats(folder), *_own(), *documents(), *projects(folder / "projects")]
    return {one.name: one for one in found}


def _formats(folder: Path) -> list[Target]:
    """Feature files, from the samples that the tests of formats keep: a new format is among them."""
    place = ROOT / "tests" / "bags" / "formats" / "conftest.py"
    spec = importlib.util.spec_from_file_location("samples_of_formats", place)
    assert spec and spec.loader  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    samples = module.samples(folder, 24, 6)
    missing = set(FORMATS) - {name.split()[0] for name in samples}
    assert not missing, f"no sample of {missing} in {place}"
    made = []
    for name, (path, options) in samples.items():
        root = folder / path.relative_to(folder).parts[0]
        inside = path.relative_to(root)
        made.append(Target(name, partial(copy_files, root), partial(_read_bag, inside=inside, options=options)))
    return made


def copy_files(source: Path, target: Path) -> None:
    for file in source.rglob("*"):
        if file.is_file():
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())


def _read_bag(root: Path, inside: Path, options: dict[str, Any]) -> Answer:
    """As a command does: the folder is listed, headers are read, then the bag."""
    find_bags((root / inside).parent)
    info = peek_bag(root / inside, **options)
    bag = read_bag(root / inside, **options)
    names = ("n", "dim", "unit", "patch_size", "mpp", "encoder", "tiles", "placed")
    about = {name: getattr(info, name) for name in names}
    return {**about, "features": bag.features.numpy(), "coords": bag.coords.numpy()}


def _own() -> list[Target]:
    def make(root: Path) -> None:
        import torch

        rng = np.random.default_rng(0)
        features = torch.from_numpy(rng.normal(size=(24, 6)).astype(np.float32))
        coords = torch.from_numpy(512.0 * rng.integers(0, 90, (24, 2)))
        write_bag(
            Bag(slide_id="a", features=features, coords=coords, patch_size=512, mpp=0.25, encoder="uni"), root / "a.h5"
        )

    return [Target("own bag", make, partial(_read_bag, inside=Path("a.h5"), options={}), own=True)]
