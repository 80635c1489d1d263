"""Named sets of settings. A preset states every setting that it fixes: it stays what it is if a default changes.

`default` is what we recommend. `paper` follows the printed equations and constants of arXiv 2603.20386; docs/paper.md
shows both side by side.
"""

from collections.abc import Mapping
from typing import Any

from ..cohort.options import FOLDS
from ..config import choose
from ..nn.options import DEFAULT_METHOD, PAPER_METHOD

DEFAULT_PRESET = "default"
PAPER: dict[str, Any] = {
    "method": PAPER_METHOD,  # unless another one is named
    "members": 1,  # the paper trains single models
    # Section 3.1: kNN graph on centroids in [0, 1]^2. The text's sigma; silent on ties: exactly k.
    "graph": "knn",
    "k": 50,
    "sigma": "max-knn",
    "normalise": "per-axis",
    "ties": "exact",
    # Section 3.2 and appendix C: two layers of 256. Silent on the number of heads and on dropout: one, and none.
    "conv": "gat",
    "layers": 2,
    "hidden": 256,
    "heads": 1,
    "dropout": 0.0,
    "input_dropout": 0.0,
    "edge_dropout": 0.0,
    # Equation 1: V without a bias. Silent on its number of rows: 128, as in the public code of Ilse et al. 2018.
    "attention_dim": 128,
    "attention_bias": False,
    "gated": False,
    "kinds": 0,
    # Section 4. Silent on the form of the head: linear.
    "jigsaw": "position",
    "grid": 10,
    "bins": "per-axis",
    "share": 0.9,
    "jigsaw_head": "linear",
    # Appendix B: the whole feature matrix is permuted, the two terms are summed.
    "imposters": "all",
    "imposter_loss": "sum",
    # Section 6: the EM rule, "e.g., once per n_lambda epoch". Silent on the prior and on n_lambda: 1 throughout.
    "lambda_": "em",
    "lambda_a": 1.0,
    "lambda_b": 1.0,
    "lambda_every": 1,
    "lambda_unit": "epochs",
    # Appendix C: Adam. Silent on the rest: one slide per step, no clipping, no class weights, and a fixed number of
    # epochs without held-back slides. 20 epochs are our choice.
    "lr": 1e-4,
    "weight_decay": 1e-5,
    "batch_size": 1,
    "patch_dropout": 0.0,
    "clip": 0.0,
    "class_weights": False,
    "precision": "float32",
    "epochs": 20,
    "patience": 0,
}
PAPER_FOLDS = 3  # of most of its tables; Table 2 has 10
PRESETS: Mapping[str, Mapping[str, Any]] = {DEFAULT_PRESET: {}, "paper": PAPER}


def preset_values(name: str, where: str = "preset") -> dict[str, Any]:
    """The settings that a preset fixes, by their flat names."""
    choose(where, name, PRESETS)
    return dict(PRESETS[name])


def preset_method(name: str, where: str = "preset") -> str:
    """The method of a preset, if no other is named."""
    return str(preset_values(name, where).get("method", DEFAULT_METHOD))


def preset_folds(name: str, where: str = "preset") -> int:
    """The folds of a cross-validation in a preset, if nobody says otherwise."""
    return PAPER_FOLDS if preset_values(name, where) else FOLDS
