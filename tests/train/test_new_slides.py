"""New slides are looked at before a model is applied to them, as `check` looks at those of a cohort."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import jigsawmil
from jigsawmil.bags.formats import hdf5, peek_bag
from jigsawmil.bags.provenance import Encoding
from jigsawmil.cli import app
from jigsawmil.errors import FeatureError
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.train.apply import check_fits, notes_on
from jigsawmil.train.checkpoint import load_model

GOOD = ["0001", "0003", "0005", "0008"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and a cohort. Not to be changed."""
    knobs = {"slides": 8, "dim": 16, "patches": 20, "seed": 1}
    root = write_phantom(make_phantom("composition", **knobs), tmp_path_factory.mktemp("new") / "cohort")
    cohort = jigsawmil.Cohort.read(root / "labels.csv", root / "features")
    settings = jigsawmil.Settings.from_flat({"method": "abmil", "epochs": 1, "patience": 0, "hidden": 8})
    jigsawmil.train_model(cohort, root / "model", settings)
    return root


def spoil(path: Path, name: str, change: Callable[[Any], Any]) -> None:
    with h5py.File(path, "a") as file:
        hdf5.unseal(file)
        file[name][...] = change(file[name][...])


def nan_first(values: Any) -> Any:
    values[0, 0] = np.nan
    return values


@pytest.fixture
def mixed(world: Path, tmp_path: Path) -> Path:
    """Four good slides, one of them a copy of another; one with NaN, one of zeros, one stacked, one that is no file."""
    folder = Path(shutil.copytree(world / "features", tmp_path / "features"))
    spoil(folder / "0002.h5", "features", nan_first)
    spoil(folder / "0004.h5", "features", np.zeros_like)
    spoil(folder / "0006.h5", "coords", lambda values: values * 0 + 512)
    (folder / "0007.h5").write_bytes(b"no file of features")
    shutil.copy(folder / "0001.h5", folder / "0008.h5")
    return folder


def run(*words: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, [str(word) for word in words])
    return found.exit_code, " ".join(found.output.split())


def test_bad_slides_are_named_and_the_good_ones_predicted(world: Path, mixed: Path, tmp_path: Path) -> None:
    code, said = run("predict", world / "model", mixed, "--out", tmp_path / "p.csv", "-q")
    assert code == 1
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == sorted([*GOOD, "0006"])
    assert "No prediction of 0002: 0002: NaN or infinity in the feature file (0002.h5: 1 features value" in said
    assert "No prediction of 0004: 0004: all features are 0" in said
    assert "or leave it out with --skip-bad" in said
    assert "No prediction of 0007: 0007.h5" in said
    assert "Note: 1 slide whose patches all have the same position: 0006" in said
    assert "--skip-bad (skip_bad=True) leaves them out" in said
    assert "Note: 1 pair or group of slides of different patients with the same features: 0001 = 0008." in said


def test_bad_slides_can_be_left_out_by_name(world: Path, mixed: Path, tmp_path: Path) -> None:
    code, said = run("predict", world / "model", mixed, "--out", tmp_path / "p.csv", "--skip-bad", "-q")
    assert code == 0
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == GOOD
    for words in ("0002: NaN or infinity", "0004: all features are 0", "0006: all patches have", "0007: 0007.h5"):
        assert f"Left out: {words}" in said
    assert "No prediction" not in said


def test_in_python_too(world: Path, mixed: Path, tmp_path: Path) -> None:
    found = jigsawmil.predict_slides(world / "model", mixed, out=tmp_path / "p.csv")
    assert sorted(found.failed) == ["0002", "0004", "0007"]
    assert found.left_out == {}
    assert len(found.notes) == 2
    found = jigsawmil.predict_slides(world / "model", mixed, out=tmp_path / "p.csv", skip_bad=True)
    assert found.failed == {}
    assert sorted(found.left_out) == ["0002", "0004", "0006", "0007"]
    assert list(found.table["slide_id"]) == GOOD
    with pytest.raises(FeatureError, match="all features are 0"):
        jigsawmil.predict_slides(world / "model", mixed / "0004.h5", out=tmp_path / "q.csv")
    assert not (tmp_path / "q.csv").exists()


def test_a_patients_bad_slide_is_left_out_and_the_others_pooled(world: Path, tmp_path: Path) -> None:
    settings = jigsawmil.Settings.from_flat(
        {"method": "abmil", "epochs": 1, "patience": 0, "hidden": 8, "level": "patient"}
    )
    cohort = jigsawmil.Cohort.read(world / "labels.csv", world / "features")
    jigsawmil.train_model(cohort, tmp_path / "model", settings)
    folder = Path(shutil.copytree(world / "features", tmp_path / "f"))
    spoil(folder / "0002.h5", "features", np.zeros_like)
    rows = "".join(f"000{i},P{(i + 1) // 2}\n" for i in range(1, 9))
    (tmp_path / "whose.csv").write_text(f"slide_id,patient_id\n{rows}")
    given = {"labels": tmp_path / "whose.csv", "out": tmp_path / "p.csv"}
    found = jigsawmil.predict_slides(tmp_path / "model", folder, **given)
    assert list(found.failed) == ["P1"]
    assert "0002: all features are 0" in found.failed["P1"]
    found = jigsawmil.predict_slides(tmp_path / "model", folder, skip_bad=True, **given)
    assert list(found.table["patient_id"]) == ["P1", "P2", "P3", "P4"]
    alone = jigsawmil.predict_slides(tmp_path / "model", folder / "0001.h5", **given)
    assert alone.table["probability"][0] == found.table["probability"][0]


def test_features_of_other_weights_are_refused_and_of_another_precision_remarked_on(world: Path) -> None:
    _, card = load_model(world / "model")
    info = peek_bag(world / "features" / "0001.h5")
    card = replace(card, encoding=Encoding(mark="1f", precision="float32"))
    check_fits(info, card)  # the file says nothing of it
    same = replace(info, encoding=Encoding(mark="1f", precision="float16"))
    check_fits(same, card)
    [note] = notes_on([same, replace(same, encoding=card.encoding)], card)
    assert note.startswith("1 of 2 slides have features computed in float16; the model was trained on features")
    with pytest.raises(FeatureError, match=r"0001: .* other weights .* \(digest 2e\); .* trained on 1f"):
        check_fits(replace(info, encoding=Encoding(mark="2e", precision="float32")), card)
    check_fits(replace(same, encoding=Encoding(mark="2e", precision="float32")), replace(card, encoding=None))
