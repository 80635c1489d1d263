"""Ours: `<slide>.joined`, a small JSON file that names the features of several encoders on the same patches.

The columns of the files stand side by side, patch by patch; `join_features` writes such files for whole folders.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import FeatureError
from .opened import Opened
from .source import SAME, BagInfo, Options, Source, Stored, describe, load

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES, KEYED = (".joined",), True


def matches(file: Opened) -> bool:
    return file.path.suffix in SUFFIXES


def scan(file: Opened, options: Options) -> Source:
    from . import recognise

    paths = parts(file.path)
    found = [recognise(path, options, None) for path in paths]
    sources = [source for _, source in found]
    infos = [describe(source, options, name) for name, source in found]
    _check_alike(file.path, infos)
    encoders = [info.encoder for info in infos]
    first = sources[0]
    return Source(
        path=file.path,
        slide_id=file.slide_id,
        features=Stored(
            (infos[0].n, sum(info.dim for info in infos)), "float32", lambda: _side_by_side(paths, options)
        ),
        coords=first.coords,
        unit=first.unit,
        patch_size=first.patch_size,
        mpp=first.mpp,
        encoder="+".join(map(str, encoders)) if all(encoders) else None,
        tiles=first.tiles if len({source.tiles for source in sources}) == 1 else None,
        centred=first.centred,
        size=first.size,
        guess_unit=first.guess_unit,
        beside=tuple(paths),
    )


def parts(path: Path) -> list[Path]:
    """The feature files that a joined file names."""
    named = json.loads(path.read_text(encoding="utf-8"))["features"]
    for folder, name in named:
        if name is None:
            raise FeatureError(f"{path.name}: no features in {folder}; expected them in each of the joined folders.")
    return [path.parent / folder / name for folder, name in named]


def _check_alike(path: Path, infos: list[BagInfo]) -> None:
    """What headers tell: as many patches, of the same size, at the same resolution, all with places or none."""
    one = infos[0]
    for other in infos[1:]:
        for what in ("n", "unit", "patch_size", "mpp", "placed"):
            a, b = getattr(one, what), getattr(other, what)
            close = isinstance(a, float) and isinstance(b, float) and abs(a - b) <= SAME * max(a, b)
            if a != b and not close:
                name = {"n": "patches", "placed": "coordinates"}.get(what, what)
                raise FeatureError(
                    f"{path.stem}: {name} {a} in {one.path}, {b} in {other.path}; expected the same patches in both. "
                    "Extract both from one set of coordinates."
                )
    if not one.placed and one.n > 1:
        raise FeatureError(
            f"{path.stem}: features of several encoders without coordinates; rows cannot be matched to patches."
        )


def _side_by_side(paths: list[Path], options: Options) -> "Tensor":
    """(patch, all columns), in the order of the first file."""
    import torch

    from . import recognise

    bags = [load(source, options, describe(source, options, name)) for name, source in
            (recognise(path, options, None) for path in paths)]  # fmt: skip
    first, columns = bags[0], [bags[0].features]
    order = np.lexsort(first.coords.numpy().T)
    for path, bag in zip(paths[1:], bags[1:], strict=True):
        theirs = np.lexsort(bag.coords.numpy().T)
        if not np.allclose(first.coords.numpy()[order], bag.coords.numpy()[theirs], rtol=0, atol=0.5):
            raise FeatureError(
                f"{first.slide_id}: the coordinates in {paths[0]} and {path} differ; expected the same patches in "
                "both. Extract both from one set of coordinates."
            )
        rows = np.empty_like(order)
        rows[order] = theirs  # the lexsort is stable: patches at one place keep their order
        columns.append(bag.features[torch.from_numpy(rows)])
    return torch.cat(columns, dim=1)
