"""Features without coordinates: the methods that use none work on them, the others refuse and name those."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import jigsawmil
from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats.trident import write_bag
from jigsawmil.cli import app
from jigsawmil.cohort.cohort import Cohort, check
from jigsawmil.errors import ConfigError, FeatureError
from jigsawmil.nn.options import METHODS
from jigsawmil.train.estimator import SlideClassifier
from jigsawmil.train.places import blind_methods, check_places
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


def test_a_graph_of_slides_with_piled_patches_is_refused_before_any_training(tmp_path: Path) -> None:
    lines = ["slide_id,patient_id,label"]
    for i in range(6):
        coords = 256.0 * np.stack(np.divmod(np.arange(1200), 40), axis=1)
        coords[: 1000 if i == 2 else 1] = 0
        features = np.random.default_rng(i).normal(size=(1200, 4)).astype(np.float32)
        bag = {"features": torch.from_numpy(features), "coords": torch.from_numpy(coords), "patch_size": 256.0}
        write_bag(Bag(slide_id=f"s{i}", mpp=0.5, **bag), tmp_path / "f" / f"s{i}.h5")
        lines.append(f"s{i},P{i},{'ab'[i % 2]}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    given = ["--labels", tmp_path / "labels.csv", "--features", tmp_path / "f"]
    code, said = run("check", *given)
    assert code == 0
    piled = "1 slide with more than 100 patches at the same position: s2 (1000 of 1200 patches)"
    assert f"{piled}. Methods with a graph refuse" in said
    cohort = ["--epochs", 1, "--folds", 2, "--methods", "abmil,graph-abmil"]
    code, said = run("compare", *given, *cohort, "--out", tmp_path / "run")
    assert code == 1
    assert "1 slide with too many patches at the same position for the graph of graph-abmil (k=50), expected" in said
    assert "at most 943: s2 (1000). Extract" in said
    assert not (tmp_path / "run" / "jobs").exists()
    kept = Cohort.read(tmp_path / "labels.csv", tmp_path / "f", skip_bad=True)
    assert [item.reason for item in kept.left_out] == ["very many patches at the same position"]
    check_places(kept, [Settings(method="graph-abmil")])
    check_places(Cohort.read(tmp_path / "labels.csv", tmp_path / "f"), [Settings(method="abmil")])


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
