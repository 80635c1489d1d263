"""`--features A --features B` goes the whole way; a model of both refuses one alone."""

from pathlib import Path

import pytest

from jigsawmil.bags.formats import read_bag, write_bag
from jigsawmil.study.study_file import read_study

SHORT = ["--epochs", "1", "--patience", "0"]


@pytest.fixture(scope="module")
def both(cohort: Path, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    folder = tmp_path_factory.mktemp("two")
    for name, sign in (("first", 1.0), ("second", -1.0)):
        for path in sorted((cohort / "features").iterdir()):
            bag = read_bag(path)
            bag.features.mul_(sign)
            write_bag(bag, folder / name / path.name)
    return ["--labels", cohort / "labels.csv", "--features", folder / "first", "--features", folder / "second"]


def test_train_check_and_validate_on_two_encoders(jigsawmil, both, tmp_path: Path) -> None:
    ran = jigsawmil("check", *both)
    assert ran.code == 0, ran.err
    ran = jigsawmil("compare", *both, *SHORT, "--methods", "mean-lr", "--folds", "2", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    ran = jigsawmil("train", *both, *SHORT, "--method", "mean-lr", "--out", tmp_path / "model")
    assert ran.code == 0, ran.err
    first = both[3]
    ran = jigsawmil("predict", tmp_path / "model", first, "--out", tmp_path / "p.csv")
    assert ran.code == 1
    assert "features have 16 columns" in ran.err
    assert "It needs the features of phantom-1 and phantom-1, in this order: give --features for each" in ran.err
    ran = jigsawmil("predict", tmp_path / "model", f"{first}+second", "--out", tmp_path / "p.csv")
    assert ran.code == 0, ran.err
    ran = jigsawmil("heatmap", tmp_path / "run", "0001", "--out", tmp_path / "map.png")
    assert ran.code == 0, ran.err
    ran = jigsawmil("validate", tmp_path / "model", *both, "--allow-overlap", "--out", tmp_path / "external")
    assert ran.code == 0, ran.err


def test_a_study_file_takes_a_list(both, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        f"[cohorts.c]\nlabels = '{both[1]}'\nfeatures = ['{both[3]}', '{both[5]}']\n[variants.abmil]\n"
    )
    study = read_study(tmp_path / "s.toml")
    assert study.cohorts["c"].features == f"{both[3]}+second"
    assert study.cohorts["c"].read().dim == 32
