"""Stand-ins have the numbers they are told to have, are written once, and never taken for others."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import ConfigError, StudyError
from jigsawmil.synthetic.standins import PatchCounts, StandIn, patch_counts, read_standin, write_standin

TABLE: dict[str, Any] = {
    "n": 12,
    "patches": {"fewest": 15, "mean": 40, "most": 90},
    "dim": 16,
    "classes": ["IDC", "ILC"],
    "balance": 0.25,
    "seed": 3,
}


def standin(**changes: Any) -> StandIn:
    return read_standin({**TABLE, **changes}, "s.toml: cohorts.c.standin")


@pytest.mark.parametrize("n", [78, 100, 101])
def test_patch_counts_are_those_of_the_paper(n: int) -> None:
    counts = patch_counts(n, PatchCounts(50, 3278, 12050), np.random.default_rng(0))
    assert (len(counts), min(counts), max(counts)) == (n, 50, 12050)
    assert np.mean(counts) == pytest.approx(3278, rel=1e-3)
    assert np.median(counts) < 0.8 * 3278  # a long tail of large slides
    assert counts != patch_counts(n, PatchCounts(50, 3278, 12050), np.random.default_rng(1))  # in another order
    assert list(counts) != sorted(counts)


@pytest.mark.parametrize("wanted", [(20, 20, 20), (20, 25, 90), (20, 80, 90), (10, 1000, 50_000)])
def test_a_mean_near_either_extreme_is_met(wanted: tuple[int, float, int]) -> None:
    counts = patch_counts(60, PatchCounts(*wanted), np.random.default_rng(0))
    assert (min(counts), max(counts)) == wanted[::2]
    assert np.mean(counts) == pytest.approx(wanted[1], abs=0.5)


def test_a_standin_is_a_cohort_with_these_numbers(tmp_path: Path) -> None:
    made = standin()
    assert write_standin(made, tmp_path / "run" / "BRCA")
    cohort = Cohort.read(tmp_path / "run" / "BRCA" / "labels.csv", tmp_path / "run" / "BRCA" / "features")
    assert cohort.classes == ("IDC", "ILC")
    assert (len(cohort), len(set(cohort.patients)), cohort.dim) == (12, 12, 16)
    assert cohort.labels.sum() == 3
    patches = [slide.patches for slide in cohort.slides]
    assert (min(patches), max(patches), np.mean(patches)) == (15, 90, pytest.approx(40, abs=0.5))
    with h5py.File(next((tmp_path / "run" / "BRCA" / "features").iterdir())) as file:
        assert file["features"].dtype == np.float16


def test_grades_stand_in_for_an_ordinal_cohort(tmp_path: Path) -> None:
    made = standin(classes=["0", "1", "2"], balance=[0.5, 0.25, 0.25], n=16)
    write_standin(made, tmp_path / "c")
    cohort = Cohort.read(tmp_path / "c" / "labels.csv", tmp_path / "c" / "features", ordinal=True)
    assert cohort.classes == ("0", "1", "2")
    assert np.bincount(cohort.labels).tolist() == [8, 4, 4]


def test_encoders_see_the_same_slides(tmp_path: Path) -> None:
    for dim in (16, 40):
        write_standin(standin(dim=dim), tmp_path / str(dim))
    tables = [pd.read_csv(tmp_path / dim / "labels.csv", dtype=str) for dim in ("16", "40")]
    pd.testing.assert_frame_equal(*tables)
    for slide in tables[0]["slide_id"]:
        with (
            h5py.File(tmp_path / "16" / "features" / f"{slide}.h5") as one,
            h5py.File(tmp_path / "40" / "features" / f"{slide}.h5") as two,
        ):
            assert np.array_equal(one["coords"], two["coords"])
            assert np.array_equal(one["phantom_type"], two["phantom_type"])
            assert (one["features"].shape[1], two["features"].shape[1]) == (16, 40)


def test_another_seed_is_another_cohort(tmp_path: Path) -> None:
    one, two = (standin(seed=seed) for seed in (3, 4))
    assert one.spec().counts != two.spec().counts
    assert [s.label for s in one.slides()] != [s.label for s in two.slides()]


def test_a_standin_is_written_once_and_reused(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    assert write_standin(standin(), folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert not write_standin(standin(), folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    with pytest.raises(StudyError, match=r"c holds another stand-in than the study asks for. Give another --out"):
        write_standin(replace(standin(), noise=2.0), folder)
    (folder / "standin.json").write_text("{")
    with pytest.raises(StudyError, match="holds another stand-in"):
        write_standin(standin(), folder)


def test_an_interrupted_standin_leaves_nothing(tmp_path: Path) -> None:
    def stop(slides: Any) -> Any:
        yield next(slides)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_standin(standin(), tmp_path / "run" / "c", follow=stop)
    assert list((tmp_path / "run").iterdir()) == []
    assert write_standin(standin(), tmp_path / "run" / "c")
    assert json.loads((tmp_path / "run" / "c" / "standin.json").read_text())["classes"] == ["IDC", "ILC"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot be written"):
        write_standin(standin(), tmp_path / "file" / "c")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"m": 3}, "standin: key: found 'm', expected one of n, patches"),
        ({"n": 1}, "n: found 1, expected a whole number of at least 2"),
        ({"n": "9"}, "n: found '9', expected a whole number"),
        ({"seed": -1}, "seed: found -1"),
        ({"dim": 8}, "standin: phantom dim=8 is impossible"),
        ({"kind": "arangement"}, "Did you mean 'arrangement'"),
        ({"noise": "big"}, "noise='big'"),
        ({"balance": 0.0}, "leaves a class without any"),
        ({"balance": [0.5, 0.3, 0.2]}, "found ['IDC', 'ILC'], expected 3 different names"),
        ({"classes": "IDC"}, "classes: found 'IDC', expected a list of names"),
        ({"classes": ["IDC"]}, "expected 2 different names"),
        ({"classes": ["IDC", "IDC"]}, "expected 2 different names"),
        ({"classes": [1, 2]}, "expected 2 different names"),
        ({"patches": 3}, "standin: patches: found 3, expected a table with fewest, mean, most"),
        ({"patches": {"fewest": 3}}, "patches: found ['fewest'], expected also mean, most"),
        ({"patches": {"fewest": 15, "mean": 40, "most": 90, "median": 3}}, "patches: key: found 'median'"),
        ({"patches": {"fewest": 15, "mean": 5, "most": 90}}, "10 <= fewest <= mean <= most"),
        ({"patches": {"fewest": 5, "mean": 40, "most": 90}}, "10 <= fewest <= mean <= most"),
        ({"patches": {"fewest": 15, "mean": "40", "most": 90}}, "10 <= fewest <= mean <= most"),
        ({"patches": {"fewest": 15, "mean": 16, "most": 90}}, "expected a mean from 21.25 to 83.75"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        standin(**changes)
    assert str(error.value).startswith("s.toml: cohorts.c.standin")
    assert told in str(error.value)


@pytest.mark.parametrize("key", ["n", "patches", "dim", "classes", "balance"])
def test_what_is_missing_is_named(key: str) -> None:
    with pytest.raises(ConfigError, match=f"expected also {key}"):
        read_standin({k: v for k, v in TABLE.items() if k != key}, "s.toml: cohorts.c.standin")
    with pytest.raises(ConfigError, match="found 3, expected a table"):
        read_standin(3, "s.toml")
