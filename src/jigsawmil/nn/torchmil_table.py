"""The models of torchmil 1.0: what each is given, which values differ from torchmil's own defaults, and which models
cannot be trained here. `python -m tools.torchmil_page` writes docs/torchmil.md from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TorchmilModel:
    """graph: it is given the adjacency. positions: coordinates, the graph or the order of patches can matter.

    attention: what its forward returns for a patch: `scores` (before a softmax), `weights`, or nothing that is one.
    defaults: options whose default here is not torchmil's, as its paper or the paper's code has them. `width` (a linear
    layer with ReLU before the model) and `dropout` after that are ours. loss: of its own, beside the cross-entropy.
    """

    graph: bool = False
    positions: bool = False
    attention: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    loss: str = ""
    note: str = ""


SQUARE = "Memory grows with the square of the patches."
PROJECTED = {"width": 512}
TORCHMIL: Mapping[str, TorchmilModel] = {
    "ABMIL": TorchmilModel(attention="scores", defaults=PROJECTED),
    "CAMIL": TorchmilModel(graph=True, attention="scores", defaults={"n_landmarks": 256}, note=SQUARE),
    "CLAM_SB": TorchmilModel(
        attention="scores",
        defaults={**PROJECTED, "dropout": 0.25, "att_dim": 256, "gated": True, "k_sample": 8},
        loss="instances of highest and lowest attention",
        note="Its loss of instances is ours: torchmil 1.0's compares each instance with the labels of the others.",
    ),
    "DSMIL": TorchmilModel(attention="weights", loss="the patch of the highest score"),
    "DTFDMIL": TorchmilModel(
        defaults={**PROJECTED, "n_groups": 4},
        loss="pseudo-bags, the first tier",
        note="Patches are dealt to pseudo-bags at random: at each training step, and once for all in prediction.",
    ),
    "GTP": TorchmilModel(
        graph=True,
        loss="minimum cut and orthogonality of its clusters",
        note=f"Every training slide needs two patches. {SQUARE}",
    ),
    "PatchGCN": TorchmilModel(
        graph=True, attention="scores", defaults={"width": 128, "dropout": 0.25, "hidden_dim": 128}
    ),
    "ProbSmoothABMIL": TorchmilModel(
        graph=True,
        attention="scores",
        loss="divergence of its attention from a prior over the graph",
        note=f"Prediction averages 5,000 draws, the same each time. {SQUARE}",
    ),
    "SETMIL": TorchmilModel(
        positions=True,
        attention="weights",
        note=f"Patches must lie on a lattice, one per cell. {SQUARE}",
    ),
    "SmABMIL": TorchmilModel(graph=True, attention="scores"),
    "SmTransformerABMIL": TorchmilModel(graph=True, attention="scores", note=SQUARE),
    "SmoothABMIL": TorchmilModel(
        graph=True, attention="scores", loss="Dirichlet energy of its attention over the graph", note=SQUARE
    ),
    "TransMIL": TorchmilModel(
        positions=True,
        note="Folds the sequence of patches, here along a Hilbert curve, into a square. Its attention is a product of "
        "factors that may be negative, and is not read.",
    ),
    "TransformerABMIL": TorchmilModel(attention="scores", note=SQUARE),
    "TransformerProbSmoothABMIL": TorchmilModel(
        graph=True,
        attention="scores",
        loss="divergence of its attention from a prior over the graph",
        note=f"Prediction averages 5,000 draws, the same each time. {SQUARE}",
    ),
    "VAEABMIL": TorchmilModel(
        attention="scores",
        defaults={"layer_sizes": [128, 64]},
        loss="the variational autoencoder of the features",
        note="Prediction draws from the autoencoder, the same each time.",
    ),
}

# Not offered, and why.
REFUSED: Mapping[str, str] = {
    "DeepGraphSurv": "its layer `ChebConv` reshapes (K, patch, column) as if it were (patch, K, column), which mixes "
    "the columns of different patches; if corrected, it would no longer be torchmil's model",
    "IIBMIL": "its prototypes have to be updated by a training loop of its own, and its instance loss is one constant "
    "label without them",
}
