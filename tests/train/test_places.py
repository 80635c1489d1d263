"""Features without coordinates: the methods that use none work on them, the others refuse and name those."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import jigsawmil
from jigsawmil.cli import app
from jigsawmil.cohort.cohort import Cohort, check
from jigsawmil.errors import ConfigError, FeatureError
from jigsawmil.nn.options import METHODS
from jigsawmil.train.estimator import SlideClassifier
from jigsawmil.train.places import blind_methods
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_model

SMALL = {"epochs": 2, "patience": 0}


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """labels.csv, and TRIDENT's slide embeddings, the class in their first number. Not to be changed."""
    root = tmp_path_factory.mktemp("embeddings")
    folder = root / "20x_512px_0px_overlap" / "slide_features_titan"
    folder.mkdir(parents=True)
    rng, lines = np.random.default_rng(0), ["slide_id,patient_id,label"]
    for i in range(12):
        x = rng.normal(size=16).astype(np.float32)
        x[0] += 4 * (i % 2)
        with h5py.File(folder / f"s{i}.h5", "w") as file:
            file["features"], file["coords"] = x, rng.integers(0, 99, (30, 2)) * 512
            file["coords"].attrs.update({"patch_size": 512, "patch_size_level0": 1024, "name": f"s{i}"})
        lines.append(f"s{i},P{i},{'ab'[i % 2]}")
    (root / "labels.csv").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture
def cohort(embeddings: Path) -> Cohort:
    return Cohort.read(embeddings / "labels.csv", embeddings)


def run(*words: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, [str(word) for word in words])
    return found.exit_code, " ".join((found.output + str(found.exception or "")).split())


def test_check_says_that_there_are_no_coordinates(embeddings: Path) -> None:
    report = check(embeddings / "labels.csv", embeddings)
    assert not report.errors
    assert [problem.kind for problem in report.notes] == ["no-coordinates"]
    code, said = run("check", "--labels", embeddings / "labels.csv", "--features", embeddings)
    assert code == 0
    assert "12 slides with features without coordinates" in said
    assert "--methods abmil" in said


def test_methods_that_use_positions_refuse_and_name_those_that_do_not(cohort: Cohort, tmp_path: Path) -> None:
    assert cohort.encoder == "titan"
    assert len(cohort.unplaced) == 12
    assert "abmil" in blind_methods()
    for method in ("graph-abmil", "abmil+jigsaw", "committee"):
        assert METHODS[method].sees_positions
        with pytest.raises(ConfigError, match=rf"in 12 of 12 slides.*{method.replace('+', '.')}.*\(abmil.*--method "):
            train_model(cohort, tmp_path / "model", Settings(method=method))
    assert not (tmp_path / "model").exists()
    bags = [cohort.bag(i) for i in range(len(cohort))]
    with pytest.raises(ConfigError, match="graph-abmil"):
        SlideClassifier("graph-abmil").fit(bags, cohort.labels)


def test_a_comparison_runs_what_can_run(embeddings: Path, tmp_path: Path) -> None:
    cohort = ["--labels", embeddings / "labels.csv", "--features", embeddings, "--folds", 2, "--epochs", 2]
    code, said = run("compare", *cohort, "--out", tmp_path / "all")
    assert code == 1
    assert "committee: expected coordinates" in said
    assert not (tmp_path / "all").exists()
    only = [*cohort, "--methods", "abmil", "--device", "cpu"]
    code, said = run("compare", *only, "--shuffle-control", "--out", tmp_path / "control")
    assert code == 1
    assert "Leave --shuffle-control out" in said
    code, said = run("compare", *only, "--out", tmp_path / "run")
    assert code == 0, said
    assert "features without coordinates" in said
    assert run("report", tmp_path / "run")[0] == 0
    code, said = run("heatmap", tmp_path / "run", "s0", "--out", tmp_path / "map.png")
    assert code == 1
    assert "no map can be drawn" in said


def test_a_model_without_positions_predicts_embeddings_and_one_with_them_refuses(
    cohort: Cohort, embeddings: Path, tmp_path: Path
) -> None:
    train_model(cohort, tmp_path / "blind", Settings.from_flat({"method": "abmil", **SMALL}))
    found = jigsawmil.predict_slides(tmp_path / "blind", embeddings, out=tmp_path / "p.csv", device="cpu")
    assert len(found.table) == 12
    rng = np.random.default_rng(1)
    bags = []
    for i in range(8):
        x, at = rng.normal(size=(20, 16)), rng.integers(0, 9, (20, 2)) * 512.0
        bags.append(jigsawmil.Bag(slide_id=f"p{i}", features=tensor(x).float(), coords=tensor(at)))
    seeing = SlideClassifier("graph-abmil", epochs=1, patience=0, k=4).fit(bags, [0, 1] * 4)
    with pytest.raises(FeatureError, match=r"s0: features without coordinates; the model \(graph-abmil\)"):
        seeing.predict_proba([cohort.bag(0)])


def tensor(values: np.ndarray):
    import torch

    return torch.from_numpy(values)
