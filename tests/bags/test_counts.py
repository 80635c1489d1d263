"""Statistics of a folder of features come from the headers: every slide counts, and encoders are not mixed."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from jigsawmil.bags.counts import PatchStatistics, patch_statistics
from jigsawmil.errors import FeatureError


def write(folder: Path, name: str, n: int, dim: int = 4) -> None:
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file["features"] = np.full((n, dim), np.nan, np.float32)  # reading them would be refused
        file["coords"] = np.arange(2 * n).reshape(n, 2)
        file["coords"].attrs.update(patch_size=256, patch_size_level0=256)


def test_of_all_slides_of_a_folder(tmp_path: Path) -> None:
    for name, n in {"a": 3, "b": 10, "c": 6}.items():
        write(tmp_path / "f", name, n)
    assert patch_statistics(tmp_path / "f") == PatchStatistics(slides=3, dim=4, mean=19 / 3, fewest=3, most=10)


def test_an_empty_slide_counts(tmp_path: Path) -> None:
    write(tmp_path / "f", "a", 8)
    write(tmp_path / "f", "b", 0)
    assert patch_statistics(tmp_path / "f") == PatchStatistics(slides=2, dim=4, mean=4.0, fewest=0, most=8)


def test_two_encoders_in_a_folder_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "f", "a", 8)
    write(tmp_path / "f", "b", 8, dim=6)
    with pytest.raises(
        FeatureError, match=r"found features with 4 \(a.h5\), 6 \(b.h5\) columns, expected one dimension"
    ):
        patch_statistics(tmp_path / "f")
