"""Training one model, and applying it: settings, the estimator, models on disk.

Example:

    from jigsawmil.train import SlideClassifier

    model = SlideClassifier("graph-abmil+jigsaw", k=50).fit(bags, labels, patients=patients)
    model.save("model")
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .apply import apply_model
    from .checkpoint import ModelCard, load_model, save_model
    from .choice import Choice
    from .config import LambdaConfig, TrainConfig
    from .estimator import SlideClassifier, SlideRegressor, SlideSurvival
    from .multilabel import SlideMultilabel
    from .policies import POLICIES, Policy
    from .settings import Settings
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "POLICIES", "Choice", "LambdaConfig", "ModelCard", "Policy", "Settings", "SlideClassifier", "SlideMultilabel",
    "SlideRegressor", "SlideSurvival", "TrainConfig", "apply_model", "load_model", "save_model",
]  # fmt: skip
