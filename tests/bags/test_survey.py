"""A look into feature files: what is wrong with the data, and how files are known again."""

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from jigsawmil.bags import survey as module
from jigsawmil.bags.bag import Bag
from jigsawmil.bags.digest import content_of, state_of
from jigsawmil.bags.formats import hdf5, write_bag
from jigsawmil.bags.survey import Survey, survey_all, survey_bag
from jigsawmil.cohort.feature_audit import mixed_features, same_features, slide_faults
from jigsawmil.errors import FeatureError

N, DIM = 40, 8


def grid(n: int = N, step: float = 256.0) -> torch.Tensor:
    side = int(np.ceil(np.sqrt(n)))
    return step * torch.stack([torch.arange(n) % side, torch.arange(n) // side], dim=1).double()


def write(path: Path, *, seed: int = 0, step: float = 256.0, n: int = N, **bag: Any) -> Path:
    features = torch.rand(n, DIM, generator=torch.Generator().manual_seed(seed))
    bag = {"features": features, "coords": grid(n, step), "patch_size": 256.0, "mpp": 0.5, **bag}
    write_bag(Bag(slide_id=path.stem, **bag), path)
    return path


def spoil(path: Path, name: str, value: float, rows: Any = ...) -> Path:
    with h5py.File(path, "a") as file:
        hdf5.unseal(file)
        values = file[name][...].astype(float)
        del_attrs = dict(file[name].attrs)
        values[rows] = value
        del file[name]
        file[name] = values
        file[name].attrs.update(del_attrs)
    return path


@pytest.mark.parametrize(
    ("name", "value", "rows", "kinds"),
    [
        ("features", np.nan, (3, 2), ["not-finite"]),
        ("features", 0.0, ..., ["zero-features"]),
        ("features", 1.5, ..., ["constant-features"]),
        ("features", 0.0, 7, ["zero-patches"]),
        ("coords", np.inf, (3, 1), ["not-finite"]),
        ("coords", 1e13, (3, 1), ["far-coordinates"]),
        ("coords", 512.0, ..., ["stacked"]),
        ("coords", 512.0, slice(20, 29), ["shared-places"]),
    ],
)
def test_bad_data_are_found(tmp_path: Path, name: str, value: float, rows: Any, kinds: list[str]) -> None:
    assert survey_bag(write(tmp_path / "a.h5")).faults == ()
    assert [fault.kind for fault in survey_bag(spoil(tmp_path / "a.h5", name, value, rows)).faults] == kinds


def test_hundreds_of_patches_at_one_place_are_counted(tmp_path: Path) -> None:
    found = survey_bag(spoil(write(tmp_path / "a.h5", n=400), "coords", 512.0, slice(20, 320)))
    assert found.faults == (("piled", "300 of 400 patches"),)
    assert found.piled == 300
    assert survey_bag(write(tmp_path / "b.h5")).piled == 1


@pytest.mark.parametrize("what", ["mpp", "patch_size_level0"])
@pytest.mark.parametrize("value", [-512.0, 0.0, np.nan, np.inf, "much", [1.0, 2.0]])
def test_lengths_that_are_none_are_refused(tmp_path: Path, what: str, value: Any) -> None:
    with h5py.File(write(tmp_path / "a.h5"), "a") as file:
        hdf5.unseal(file)
        file["coords"].attrs[what] = value
    with pytest.raises(FeatureError, match=r"a\.h5: the file states (mpp|patch_size) .*expected a number above zero"):
        survey_bag(tmp_path / "a.h5")


def test_patches_outside_of_the_slide(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "a.h5"), "a") as file:
        hdf5.unseal(file)
        file["coords"].attrs.update(level0_width=1000, level0_height=2000)
    [fault] = survey_bag(tmp_path / "a.h5").faults
    assert (fault.kind, fault.text) == ("outside-slide", "16 of 40 patches, slide 1000 x 2000")


def test_of_large_files_samples_are_read_unless_all_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spoil(write(tmp_path / "a.h5", n=400), "features", np.nan, (130, 0))
    assert survey_bag(path).faults
    monkeypatch.setattr(module, "SMALL", 0)
    assert survey_bag(path).faults == ()
    assert survey_bag(path, whole=True).faults
    np.testing.assert_array_equal(survey_bag(path).sketch, survey_bag(path, whole=True).sketch)


def test_the_content_does_not_depend_on_place_and_time_but_on_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(1 << 20))
    before, state = content_of([path]), state_of([path])
    moved = path.rename(tmp_path / "b.bin")
    os.utime(moved, (0, 0))
    assert content_of([moved]) == before
    assert state_of([moved]) != state
    for place in (10, 1 << 19, (1 << 20) - 1):  # in the samples
        data = bytearray(moved.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        assert content_of([path]) != before
    data = bytearray(moved.read_bytes())
    data[(1 << 16) + 5000] ^= 1  # between them
    path.write_bytes(data)
    assert content_of([path]) == before
    assert content_of([path], whole=True) != content_of([moved], whole=True)
    path.write_bytes(data[:-1])
    assert content_of([path]) != before


class Slide:
    def __init__(self, slide_id: str, patient_id: str, survey: Survey) -> None:
        self.slide_id, self.patient_id, self.survey = slide_id, patient_id, survey


def slides_in(folder: Path, **patients: str) -> list[Slide]:
    found = survey_all({path.stem: path for path in sorted(folder.iterdir())})
    assert all(isinstance(survey, Survey) for survey in found.values())
    return [Slide(name, patients.get(name, name), survey) for name, survey in found.items()]


def test_the_same_features_under_two_ids_are_found_and_others_are_not(tmp_path: Path) -> None:
    for number in range(8):
        write(tmp_path / f"s{number}.h5", seed=number)
    assert list(same_features(slides_in(tmp_path))) == []
    bag = torch.rand(N, DIM, generator=torch.Generator().manual_seed(3))
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    (tmp_path / "copy.h5").write_bytes((tmp_path / "s1.h5").read_bytes())
    (tmp_path / "link.h5").symlink_to(tmp_path / "s2.h5")
    write(tmp_path / "half.h5", features=(bag.half().float() * 1.001)[order], coords=grid()[order] + 1000)
    keep = [row for row in range(N) if row != 17]
    fourth = torch.rand(N, DIM, generator=torch.Generator().manual_seed(4))
    write(tmp_path / "fewer.h5", features=fourth[keep], coords=grid()[keep])
    [found] = same_features(slides_in(tmp_path))
    assert found.kind == "same-features"
    assert sorted(found.names) == ["copy = s1", "fewer = s4", "half = s3", "link = s2"]
    own = {"copy": "s1", "fewer": "s4", "half": "s3", "link": "s2"}
    assert [found.kind for found in same_features(slides_in(tmp_path, **own))] == ["copied-slides"]


def test_a_slide_in_other_units_is_found(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path / f"s{number}.h5", seed=number, step=256.0 if number else 1.0)
    [found] = slide_faults(slides_in(tmp_path))
    assert (found.kind, list(found.names), list(found.details)) == (
        "other-units", ["s0"], ["0.00391 times the usual distance"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("patch_size", "mpp", "kind"),
    [
        (1024.0, 0.5, "mixed-magnifications"),
        (256.0, 0.25, "mixed-magnifications"),
        (512.0, 0.25, None),  # another scanner, the same patch
        (300.0, 0.5, "near-magnifications"),
        (256.0, None, "unknown-magnification"),
    ],
)
def test_magnifications_are_compared(tmp_path: Path, patch_size: float, mpp: float | None, kind: str | None) -> None:
    for number in range(4):
        given = {} if number else {"patch_size": patch_size, "mpp": mpp}
        write(tmp_path / f"s{number}.h5", seed=number, step=given.get("patch_size", 256.0), **given)
    found = list(mixed_features(slides_in(tmp_path)))
    assert [problem.kind for problem in found] == ([] if kind is None else [kind])
    assert not found or list(found[0].names) == ["s0"]
