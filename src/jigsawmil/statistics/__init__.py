"""Figures of merit, intervals and tests: pure functions on arrays, imported on first use."""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .intervals import Interval, bootstrap_interval, delong_interval
    from .metrics import (
        balanced_threshold,
        brier_score,
        check_probabilities,
        class_figures,
        confusion_matrix,
        expected_calibration_error,
        macro_auc,
        quadratic_kappa,
        recalibration,
    )
    from .paired import DelongTest, delong_test
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "DelongTest", "Interval", "balanced_threshold", "bootstrap_interval", "brier_score", "check_probabilities",
    "class_figures", "confusion_matrix", "delong_interval", "delong_test", "expected_calibration_error", "macro_auc",
    "quadratic_kappa", "recalibration",
]  # fmt: skip
