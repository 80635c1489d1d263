"""The CODEX cells of 35 colorectal cancer patients as a cohort, and the logistic regressions to be measured against.

A cell is a patch, its type (one of 11) a one-hot feature, an image a slide; a patient has four images and one label,
CLR (Crohn's-like reaction) or DII (diffuse inflammatory infiltration), the positive one. Schürch et al., Cell 2020.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.spatial import cKDTree
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jigsawmil.bags.bag import Bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.splits import Fold, make_folds
from jigsawmil.errors import LabelError
from jigsawmil.train.prepared import shuffle_places

COLUMNS = ("patient", "image", "label", "x", "y", "cell_type")
FLOOR = 1e-4  # share below which a type, or a pair of types, is no news


def read_cells(path: Path) -> Cohort:
    """One bag an image, in the order of image names; columns of the features in the order of type names."""
    cells = pd.read_csv(path)
    if missing := [name for name in COLUMNS if name not in cells]:
        raise LabelError(f"{path.name}: no column {', '.join(missing)}; expected {', '.join(COLUMNS)}, one row a cell.")
    code, types = pd.factorize(cells["cell_type"], sort=True)
    bags, labels, patients = [], [], []
    for image, rows in cells.groupby("image"):
        features = torch.eye(len(types))[torch.from_numpy(code[rows.index])]
        bags.append(Bag(slide_id=str(image), features=features, coords=torch.tensor(rows[["x", "y"]].to_numpy(float))))
        labels.append(rows["label"].iloc[0])
        patients.append(rows["patient"].iloc[0])
    return Cohort.from_bags(bags, labels, patients, positive="DII")


def patient_folds(cohort: Cohort, repeat: int, folds: int) -> list[Fold]:
    return make_folds(list(cohort.slide_ids), list(cohort.patients), cohort.labels.tolist(), folds=folds, seed=repeat)


def part(cohort: Cohort, fold: Fold) -> Cohort:
    """The training slides of a fold, as a cohort: what inner validation may see."""
    return cohort.subset(np.isin(cohort.slide_ids, fold.train))


def composition(cohort: Cohort) -> pd.DataFrame:
    """(patient, type): log share of each type among the patient's cells."""
    counts = {s.slide_id: cohort.bag(i).features.sum(0).numpy() for i, s in enumerate(cohort.slides)}
    total = pd.DataFrame(counts).T.groupby(cohort.patients).sum()
    return np.log(total.div(total.sum(axis=1), axis=0) + 1e-3)


def enrichment(cohort: Cohort, k: int = 10, shuffle: int | None = None) -> pd.DataFrame:
    """(patient, pair): log of observed over expected share of (own type, neighbour's type) among k nearest neighbours.

    Expected from the composition of all of the patient's images together. shuffle: seed for types dealt out anew
    over the places of each image.
    """
    pairs: dict[str, np.ndarray] = {}
    own: dict[str, np.ndarray] = {}
    for index, slide in enumerate(cohort.slides):
        bag = cohort.bag(index) if shuffle is None else shuffle_places(cohort.bag(index), shuffle)
        types, xy = bag.features.numpy(), bag.coords.numpy()
        near = cKDTree(xy).query(xy, k=min(k + 1, len(xy)))[1][:, 1:]  # without the cell itself
        patient = slide.patient_id
        pairs[patient] = pairs.get(patient, 0) + types.T @ types[near].sum(1)
        own[patient] = own.get(patient, 0) + types.sum(0)
    rows = {}
    for patient in sorted(pairs):
        share = own[patient] / own[patient].sum()
        observed = pairs[patient] / pairs[patient].sum()
        rows[patient] = np.log((observed + FLOOR) / (np.outer(share, share) + FLOOR)).ravel()
    return pd.DataFrame(rows).T


def reference(table: pd.DataFrame, cohort: Cohort, repeat: int, folds: int, components: int | None) -> pd.DataFrame:
    """Out-of-fold probabilities of logistic regression on standardised columns, or on their principal components."""
    label = dict(zip(cohort.patients, cohort.labels, strict=True))
    y = np.array([label[patient] for patient in table.index])
    found = []
    for number, fold in enumerate(patient_folds(cohort, repeat, folds)):
        test = table.index.isin(cohort.patients[np.isin(cohort.slide_ids, fold.test)])
        steps = [StandardScaler(), *([PCA(components)] if components else []), LogisticRegression(max_iter=2000)]
        model = make_pipeline(*steps).fit(table[~test], y[~test])
        p = model.predict_proba(table[test])[:, 1]
        found.append(pd.DataFrame({"patient_id": table.index[test], "probability": p, "fold": number}))
    return pd.concat(found).assign(label=lambda t: t["patient_id"].map(label).map(lambda i: cohort.classes[i]))
