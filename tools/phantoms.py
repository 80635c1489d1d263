"""Draw docs/img/phantoms.png and print the figures that docs/phantoms.md states.

python -m tools.phantoms
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.patches import Patch, Rectangle
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jigsawmil.statistics import harrell_c, pearson
from jigsawmil.synthetic.phantom import PhantomSlide, make_phantom
from jigsawmil.synthetic.phantom_options import CLASSES, TYPES

from . import ROOT

COLOURS = ["#d1495b", "#2e6f95", "#e8e0d0", "#cdb9d6", "#f2cf8d", "#b9d3b0"]  # the planted types stand out
SEEDS = {"composition": 3, "arrangement": 3, "position": 7}  # slides with holes, some of two pieces


def both_classes(kind: str) -> tuple[PhantomSlide, PhantomSlide]:
    """One and the same slide as it comes out with either label."""
    few, many = (make_phantom(kind, slides=12, dim=16, seed=SEEDS[kind], balance=b) for b in (0.1, 0.9))
    negative, positive = CLASSES[kind]
    return next((a, b) for a, b in zip(few, many, strict=True) if (a.label, b.label) == (negative, positive))


def draw(path: Path) -> None:
    figure, axes = plt.subplots(3, 2, figsize=(9, 8.5), layout="constrained")
    for row, kind in zip(axes, CLASSES, strict=True):
        colours = COLOURS if kind != "composition" else [COLOURS[0], *COLOURS[2:]]
        for ax, slide in zip(row, both_classes(kind), strict=True):
            corners = slide.bag.coords.numpy() / 1000 * 0.25  # millimetres
            edge = 0.512 * 0.25
            squares = [Rectangle((x, y), edge, edge) for x, y in corners]
            ax.add_collection(PatchCollection(squares, facecolor=[colours[t] for t in slide.types], edgecolor="none"))
            ax.set(title=f"{kind}: {slide.label}", aspect="equal", xlabel="mm")
            ax.autoscale_view()
            ax.invert_yaxis()  # slides have their origin at the top
        keys = [Patch(color=colour, label=name) for colour, name in zip(colours, TYPES[kind], strict=False)]
        row[1].legend(handles=keys, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def type_accuracy(kind: str) -> float:
    """Within a slide, three-fold: how often a linear classifier names a patch's type. Mean of ten slides."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
    accuracy = []
    for slide in make_phantom(kind, slides=10):
        common = np.isin(slide.types, np.flatnonzero(np.bincount(slide.types) >= 10))
        accuracy.append(cross_val_score(model, slide.bag.features.numpy()[common], slide.types[common], cv=3).mean())
    return float(np.mean(accuracy))


def mean_feature_auc(kind: str) -> float:
    """Five-fold AUC of logistic regression on the mean features of a slide. Mean of ten cohorts."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    aucs = []
    for seed in range(10):
        phantom = make_phantom(kind, seed=seed, patches=200)
        means = np.stack([bag.features.numpy().mean(axis=0) for bag in phantom.bags])
        y = np.array(phantom.labels) == CLASSES[kind][1]
        aucs.append(roc_auc_score(y, cross_val_predict(model, means, y, cv=5, method="decision_function")))
    return float(np.mean(aucs))


def outcome_ceiling(task: str, effect: float) -> float:
    """C, correlation or AUROC (of the target `planted`) of the class itself, the best that any model of the slides can
    reach. Mean of ten cohorts."""
    found = []
    for seed in range(10):
        phantom = make_phantom("composition", seed=seed, task=task, effect=effect, patches=10, dim=16)
        grade = np.array(phantom.labels) == "tumour"
        columns = {name: [slide.outcome[name] for slide in phantom] for name in phantom.slides[0].outcome}
        if task == "multilabel":
            known = np.array(columns["planted"]) != ""
            found.append(roc_auc_score(np.array(columns["planted"])[known] == "yes", grade[known]))
        else:
            found.append(harrell_c(**columns, risk=grade) if task == "survival" else pearson(columns["value"], grade))
    return float(np.mean(found))


if __name__ == "__main__":
    draw(ROOT / "docs" / "img" / "phantoms.png")
    print("kind          type accuracy  AUC of mean features")
    for kind in CLASSES:
        print(f"{kind:13s} {type_accuracy(kind):13.3f} {mean_feature_auc(kind):21.2f}")
    print("\ntask        effect  C, correlation or AUROC of the class itself")
    for task in ("survival", "regression", "multilabel"):
        for effect in (3.0, 0.0):
            print(f"{task:11s} {effect:6.1f} {outcome_ceiling(task, effect):37.2f}")
