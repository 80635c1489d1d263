"""What is damaged beside feature files, and read without a model: label tables, split files, study files and masks."""

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from jigsawmil.cohort.labels import read_labels
from jigsawmil.cohort.split_files import read_splits, write_clam, write_folds, write_patho_bench, write_stamp
from jigsawmil.cohort.splits import Fold, make_folds
from jigsawmil.slides.geojson_mask import read_geojson, write_geojson
from jigsawmil.slides.tissue import Tissue
from jigsawmil.study.study_file import read_study

from .targets import Answer, Target

SIZE, SCALE = (4000, 3000), 100.0  # of a slide, level-0 pixels; level-0 pixels of a pixel of its mask
STUDY = """
folds = 3
seeds = [0, 1]
attention = true

[cohorts.lung]
labels = "labels.csv"
features = "features"
positive = "tumour"

[defaults]
k = 8
lr = 0.0005

[variants.abmil]

[variants.ours]
method = "graph-abmil+jigsaw"
lambda = 0.25
hidden = 64
"""

Make, Read = Callable[[Path], object], Callable[[Path], Answer]


def documents() -> list[Target]:
    """`make` writes into a folder that it makes."""
    kinds: dict[str, tuple[Make, Read]] = {**_tables(), **_splits(), **_studies(), "mask GeoJSON": (_mask, _read_mask)}
    return [Target(name, _into_folder(make), read) for name, (make, read) in kinds.items()]


def _into_folder(make: Make) -> Callable[[Path], None]:
    def inside(root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        make(root)

    return inside


def _cohort() -> tuple[list[str], list[str], list[str]]:
    """Slides, patients and labels of 16 slides of 12 patients."""
    slides = [f"slide-{index}" for index in range(16)]
    patients = [f"person {index % 12}" for index in range(16)]
    return slides, patients, ["normal" if index % 12 < 6 else "tumour" for index in range(16)]


def _tables() -> dict[str, tuple[Make, Read]]:
    table = pd.DataFrame(dict(zip(("slide_id", "patient_id", "label"), _cohort(), strict=True)))

    def read(name: str) -> Read:
        return lambda root: read_labels(root / name).rows.astype(str).to_dict("list")

    return {
        "label CSV": (lambda root: table.to_csv(root / "labels.csv", index=False), read("labels.csv")),
        "label TSV": (lambda root: table.to_csv(root / "labels.tsv", index=False, sep="\t"), read("labels.tsv")),
        "label XLSX": (lambda root: table.to_excel(root / "labels.xlsx", index=False), read("labels.xlsx")),
    }


def _splits() -> dict[str, tuple[Make, Read]]:
    slides, patients, labels = _cohort()
    folds: Sequence[Fold] = make_folds(slides, patients, labels, folds=3)
    makers: dict[str, Make] = {
        "folds.json": lambda root: write_folds(folds, root / "folds.json", slides, patients, seed=0),
        "CLAM": lambda root: write_clam(folds, root, slides, patients),
        "STAMP": lambda root: write_stamp(folds, root / "splits.json", slides, patients),
        "Patho-Bench": lambda root: write_patho_bench(
            folds, root / "k=all.tsv", slides, patients, labels, task="grade"
        ),
    }

    def read(root: Path) -> Answer:
        """Of a folder, as `--splits` takes it."""
        return {"folds": repr(read_splits(root, slides, patients))}

    return {f"splits {name}": (make, read) for name, make in makers.items()}


def _studies() -> dict[str, tuple[Make, Read]]:
    texts = {"toml": STUDY, "yaml": yaml.safe_dump(tomllib.loads(STUDY))}

    def kind(ending: str, text: str) -> tuple[Make, Read]:
        name = f"study.{ending}"
        return (lambda root: (root / name).write_text(text)), (lambda root: {"study": repr(read_study(root / name))})

    return {f"study {ending.upper()}": kind(ending, text) for ending, text in texts.items()}


def _mask(root: Path) -> None:
    found = np.zeros((30, 40), bool)
    found[3:20, 5:30] = found[24:28, 2:9] = True
    found[8:12, 10:15] = False
    write_geojson(Tissue(found, SCALE), root / "mask.geojson", mark="of a slide")


def _read_mask(root: Path) -> Answer:
    return {"mask": read_geojson(root / "mask.geojson", SIZE, SCALE).mask}
