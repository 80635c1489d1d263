"""A folder such as the reader of a document has: labels, features, slides, a run, a model, a study file."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from jigsawmil.bags import find_bags, read_bag
from jigsawmil.cohort import Cohort, make_folds, write_clam
from jigsawmil.slides import extract_slides
from jigsawmil.study import cohort_spec
from jigsawmil.synthetic import paint_cohort
from jigsawmil.train import Settings

from ..bags.formats.conftest import stamp
from ..cli.conftest import Program
from ..cli.conftest import jigsawmil as jigsawmil

QUICK = ["--epochs", "2", "--patience", "0", "--set", "hidden=16"]
ROOT = Path(__file__).parents[2]
STUDY = """folds = 2

[cohorts.cohort]
labels = "labels.csv"
features = "features"
positive = "tumour"

[defaults]
epochs = 2
patience = 0

[variants.abmil]
"""


class MeanColour(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.mean(dim=[2, 3]), x.std(dim=[2, 3])], dim=1)


def paint(folder: Path, encoder: Path, name: str, slides: int, first: int) -> None:
    """labels.csv, features/ and slides/, with `name` before them and slides numbered from `first` on."""
    paint_cohort(folder / "painted", slides, "composition", patches=10, seed=first)
    extract_slides(folder / "painted" / "slides", folder / "extracted", str(encoder))
    (folder / f"{name}features").mkdir()
    (folder / f"{name}slides").mkdir()
    for slide, path in find_bags(folder / "extracted").items():
        new = f"{int(slide) + first:04}"
        shutil.move(path, folder / f"{name}features" / f"{new}.h5")
        shutil.move(folder / "painted" / "slides" / f"{slide}.tif", folder / f"{name}slides" / f"{new}.tif")
    table = pd.read_csv(folder / "painted" / "labels.csv")
    number = table["patient_id"]
    table = table.assign(
        age=40 + number * 7 % 37, sex=np.where(number % 3, "F", "M"), stage=np.where(number % 2, "I", "II")
    )
    for column in ("slide_id", "patient_id"):
        table[column] = (table[column] + first).map("{:04}".format)
    table.to_csv(folder / f"{name}labels.csv", index=False)
    shutil.rmtree(folder / "painted")
    shutil.rmtree(folder / "extracted")


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """labels.csv, features, slides, and the same of new slides from 1001 on; study.toml. Not to be changed."""
    folder = tmp_path_factory.mktemp("desk")
    encoder = tmp_path_factory.mktemp("encoder") / "colour.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and what people have
        torch.jit.script(MeanColour()).save(str(encoder))
    encoder.with_name("colour.pt.json").write_text(json.dumps({"size": 32, "name": "colour"}))
    paint(folder, encoder, "", 12, 0)
    paint(folder, encoder, "new-", 6, 1000)
    (folder / "study.toml").write_text(STUDY)
    (folder / "studies").symlink_to(ROOT / "studies")
    return folder


@pytest.fixture(scope="session")
def made(desk: Path, jigsawmil: Program, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of two methods, or a model. Made once. Not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    given = ["--labels", desk / "labels.csv", "--features", desk / "features", *QUICK]
    commands = {
        "run": ["compare", "--methods", "abmil,graph-abmil+jigsaw", "--folds", "2", "--attention", *given],
        "model": ["train", "--method", "graph-abmil+jigsaw", *given],
    }

    def make(name: str) -> Path:
        if not (folder / name).exists():
            ran = jigsawmil(*commands[name], "--out", folder / name)
            assert ran.code == 0, ran.err
        return folder / name

    return make


@pytest.fixture(scope="session")
def things(desk: Path, made: Callable[[str], Path]) -> Callable[[str, Path], None]:
    """Put what a page takes for granted into a folder."""

    def put(name: str, folder: Path) -> None:
        if name == "desk":  # features are copied: a page may write beside them
            for path in desk.iterdir():
                if "features" in path.name:
                    shutil.copytree(path, folder / path.name)
                else:
                    (folder / path.name).symlink_to(path)
        elif name in {"run", "model"}:
            shutil.copytree(made(name), folder / name)
        elif name.startswith("run-"):
            (folder / name).symlink_to(made("run"))
        elif name == "stamp":
            (folder / name).mkdir()
            rng = np.random.default_rng(0)
            stamp(
                folder / name / "0007.h5", rng.normal(size=(4, 8)), np.array([[0, 0], [256, 0], [0, 256], [256, 256]])
            )
        elif name == "job":
            shutil.copytree(desk / "features", folder / "job" / "20x_256px_0px_overlap" / "features_uni_v1")
        elif name == "encoders":
            shutil.rmtree(folder / "features")
            for encoder in ("uni", "virchow2"):
                shutil.copytree(desk / "features", folder / "features" / encoder)
        elif name == "splits":
            cohort = Cohort.read(desk / "labels.csv", desk / "features", label_column="label")
            folds = make_folds(cohort.slide_ids, cohort.patients, cohort.labels, folds=2)
            write_clam(folds, folder / "splits" / "task_1", cohort.slide_ids, cohort.patients)

    return put


@pytest.fixture
def names(desk: Path) -> dict[str, Any]:
    """What the Python of a page takes for granted: a cohort in memory under the names that a reader would use."""
    cohort = Cohort.read(desk / "labels.csv", desk / "features", label_column="label")
    ids, patients, labels = cohort.slide_ids, cohort.patients, cohort.labels
    bags = [cohort.bag(number) for number in range(len(ids))]
    folds = make_folds(ids, patients, labels, folds=2)
    training = [number for number, slide in enumerate(ids) if slide in folds[0].train]
    spec = cohort_spec({"labels": "labels.csv", "features": "features"})
    return {
        **{"cohort": cohort, "cohorts": {"cohort": spec}, "folds": folds},
        **{"bags": bags, "bag": bags[0], "labels": labels, "patients": patients},
        "new_bags": [read_bag(path) for path in sorted((desk / "new-features").iterdir())],
        **{"slide_ids": ids, "patient_ids": patients, "sites": [f"{int(patient) % 6}" for patient in patients]},
        "ages": [50.0 + 3 * number for number in range(len(ids))],
        "outcomes": [(10.0 + number, int(number % 3 > 0)) for number in range(len(ids))],
        "variants": {name: Settings(method=name) for name in ("abmil", "graph-abmil")},
        "train_ids": [ids[number] for number in training],
        "train_patients": [patients[number] for number in training],
        "train_labels": [labels[number] for number in training],
    }
