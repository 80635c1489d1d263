"""Figures of merit, intervals and tests: pure functions on arrays, imported on first use."""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .intervals import BootstrapTest, Interval, bootstrap_interval, delong_interval
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
    from .regression import mae, pearson, r2, regression_difference, regression_interval, spearman
    from .survival import (
        brier,
        brier_of_kaplan_meier,
        dynamic_auc,
        harrell_c,
        integrated_brier,
        uno_c,
    )
    from .survival_curves import (
        KaplanMeier,
        LogRank,
        SurvivalCalibration,
        at_risk,
        event_horizons,
        kaplan_meier,
        log_rank,
        risk_groups,
        survival_calibration,
    )
    from .survival_intervals import (
        brier_gain_interval,
        c_difference,
        c_interval,
        dynamic_auc_intervals,
        integrated_brier_interval,
        mean_auc_interval,
    )
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "BootstrapTest", "DelongTest", "Interval", "KaplanMeier", "LogRank", "SurvivalCalibration", "at_risk",
    "balanced_threshold", "bootstrap_interval", "brier", "brier_gain_interval", "brier_of_kaplan_meier",
    "brier_score", "c_difference", "c_interval", "check_probabilities", "class_figures", "confusion_matrix",
    "delong_interval", "delong_test", "dynamic_auc", "dynamic_auc_intervals", "event_horizons",
    "expected_calibration_error", "harrell_c", "integrated_brier", "integrated_brier_interval", "kaplan_meier",
    "log_rank", "macro_auc", "mae", "mean_auc_interval", "pearson", "quadratic_kappa", "r2", "recalibration",
    "regression_difference", "regression_interval", "risk_groups", "spearman", "survival_calibration", "uno_c",
]  # fmt: skip
