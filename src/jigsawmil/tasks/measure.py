"""The figure by which methods are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..statistics.intervals import BootstrapTest

FIGURES = {  # headers in tables, which show them in this order while there is room
    "auc_patient": "AUROC by\npatient",
    "quadratic_kappa": "quadratic\nkappa",
    "balanced_accuracy": "balanced\naccuracy",
    "auprc": "AUPRC",
    "f1": "F1",
    "mae": "mean abs.\nerror",
    "brier": "Brier",
    "ece": "ECE",
    "calibration_slope": "calibr.\nslope",
    "calibration_intercept": "calibr.\nintercept",
}


class Measure(NamedTuple):
    """The figure by which methods are compared, and what tables and reports call it.

    A summary has the columns NAME_mean, NAME_std, `pooled`, NAME_low and NAME_high; comparisons have NAME_a, NAME_b and
    TEST_p, the p-value of the paired test.
    """

    name: str
    pooled: str
    words: str  # its name in tables and sentences
    chance: float  # of predictions that know nothing
    least: float  # of all predictions
    test: str
    test_words: str
    test_name: str  # in tables
    intervals: tuple[str, ...] = ()  # figures with bounds, NAME_low and NAME_high
    bounded: bool = True  # comparisons have the bounds of the difference, `low` and `high`
    of_what: str = ""  # what figures are of; empty: of a class or all classes, see `of`

    def of(self, positive: object) -> str:
        """What the figures of a summary are of. positive: its column of this name, if it has one."""
        if self.of_what:
            return self.of_what
        return f"positive class {positive}" if isinstance(positive, str) else "each class against the rest"

    @property
    def columns(self) -> tuple[str, ...]:
        """Those by which a table is known to be of this measure."""
        return (self.pooled, *(f"{self.name}_{end}" for end in ("a", "true")))

    @property
    def tested(self) -> tuple[str, ...]:
        """Columns of `Task.test`."""
        return ("difference", *(("low", "high") if self.bounded else ()), f"{self.test}_z", f"{self.test}_p")

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns of a summary that every reader counts on."""
        return ("variant", "folds", f"{self.name}_mean", f"{self.name}_std", self.pooled, "slides", "patients")


def resampled_measure(
    name: str, words: str, of_what: str, *, chance: float, least: float, intervals: tuple[str, ...]
) -> Measure:
    """One whose paired test resamples patients."""
    tests = ("boot", "the patient bootstrap", "bootstrap")
    return Measure(name, name, words, chance, least, *tests, intervals, of_what=of_what)


def resampled_test(found: BootstrapTest) -> dict[str, float]:
    """The columns of its paired test."""
    return {
        "difference": found.difference, "low": found.low, "high": found.high, "boot_z": found.z, "boot_p": found.p,
    }  # fmt: skip
