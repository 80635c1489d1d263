"""Two runs on the same folds, paired, give what one run with both variants gives."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jigsawmil.errors import ConfigError, StudyError
from jigsawmil.study.run import Run
from jigsawmil.study.run_pairs import compare_runs
from jigsawmil.study.study import Study

from ..fixtures.runs import without_digests

StudyOf = Callable[..., Study]
Ran = Callable[..., tuple[Run, list[str]]]
BOTH = ("abmil", "graph-abmil+jigsaw")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, phantom: Path, study_of: StudyOf, ran: Ran) -> dict[str, Path]:
    """Each of the two variants of `finished` in a run of its own, `b` with another name for the cohort; and one on
    other folds."""
    home = tmp_path_factory.mktemp("pairs")
    studies = {"a": {"methods": BOTH[:1]}, "b": {"methods": BOTH[1:]}, "moved": {"methods": BOTH[:1], "folds": 3}}
    for name, options in studies.items():
        study = study_of(phantom, **{"seeds": (0, 5), **options})
        cohorts = dict(zip(["other"], study.cohorts.values(), strict=True)) if name == "b" else study.cohorts
        ran(replace(study, cohorts=cohorts), home / name)
    return {name: home / name for name in studies}


def test_equals_the_comparison_within_one_run(runs: dict[str, Path], finished: tuple[Path, Run]) -> None:
    found = compare_runs(runs["a"], runs["b"])
    within = finished[1].comparisons
    assert len(found) == len(within) == 1
    columns = [column for column in within if column != "cohort"]
    pd.testing.assert_frame_equal(found[columns], within[columns], check_dtype=False)
    assert (found["run_a"][0], found["run_b"][0]) == (str(runs["a"]), str(runs["b"]))


def test_variants_of_one_name_are_paired_and_others_on_request(
    runs: dict[str, Path], finished: tuple[Path, Run]
) -> None:
    whole = finished[0]
    same = compare_runs(whole, runs["a"])
    assert list(zip(same["variant_a"], same["variant_b"], strict=True)) == [("abmil", "abmil")]
    assert same["difference"].tolist() == [0.0]  # the same seeds and folds give the same models
    assert same["delong_p"].tolist() == [1.0]
    other = compare_runs(whole, runs["a"], variant_a=BOTH[1])
    pd.testing.assert_series_equal(-other["difference"], finished[1].comparisons["difference"], check_names=False)
    both = compare_runs(whole, whole)
    assert list(both["variant_a"]) == list(BOTH)
    assert both["delong_p_holm"].tolist() == [1.0, 1.0]


def test_runs_that_differ_are_refused_and_the_difference_is_named(
    runs: dict[str, Path], own: Path, study_of: StudyOf, ran: Ran, relabel: Callable[..., None], tmp_path: Path
) -> None:
    with pytest.raises(StudyError, match=r"differ in their folds: \d+ slides lie in another one \(0"):
        compare_runs(runs["a"], runs["moved"])
    ran(study_of(own, BOTH[:1]), tmp_path / "one-seed")
    with pytest.raises(StudyError, match="differ in their seeds: 0, 5 and 0"):
        compare_runs(runs["a"], tmp_path / "one-seed")
    (own / "features/0003.h5").unlink()
    relabel(own, lambda table: table[table["slide_id"] != "0003"])
    ran(study_of(own, BOTH[:1], seeds=(0, 5)), tmp_path / "fewer")
    with pytest.raises(StudyError, match=r"1 only in the first, 0 only in the second\): 0003"):
        compare_runs(runs["a"], tmp_path / "fewer")
    with pytest.raises(ConfigError, match=r"variant of .*expected one of abmil"):
        compare_runs(runs["a"], runs["b"], variant_a="abmill")
    with pytest.raises(ConfigError, match="--cohort"):
        compare_runs(runs["a"], runs["b"], cohort="d")


def test_other_labels_or_patients_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    for column, words in (("label", "labels of 0001"), ("patient_id", "patients of 0001")):
        copy = without_digests(Path(shutil.copytree(runs["a"], tmp_path / column)))
        table = pd.read_csv(copy / "predictions.csv", dtype=str)
        other = {"normal": "tumour", "tumour": "normal"}.get(table.loc[0, column], "x")
        table.loc[table["slide_id"] == "0001", column] = (
            {"normal": "tumour", "tumour": "normal"}[table.loc[table["slide_id"] == "0001", "label"].iloc[0]]
            if column == "label"
            else other
        )
        table.to_csv(copy / "predictions.csv", index=False)
        with pytest.raises(StudyError, match=words):
            compare_runs(runs["a"], copy)


def test_by_the_command_line(jigsawmil: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    ran = jigsawmil("compare-runs", runs["a"], runs["b"], "--out", tmp_path / "pairs.csv", columns=160)
    assert ran.code == 0, ran.err
    assert "abmil [a]" in ran.out
    assert "DeLong" in ran.out
    assert list(pd.read_csv(tmp_path / "pairs.csv")["variant_b"]) == ["graph-abmil+jigsaw"]
    assert jigsawmil("compare-runs", runs["a"], runs["moved"]).code == 1
