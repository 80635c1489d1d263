"""How often the 95 % interval of an AUROC holds the truth, by simulation: `python -m tools.auroc_coverage`.

Scores are normal in both classes; `spread` is the standard deviation of the positives' (that of the negatives is 1)."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from jigsawmil.statistics import delong_interval

COHORTS = ((5, 25), (10, 20), (20, 20), (10, 90), (50, 50))
AREAS = (0.8, 0.9, 0.95, 0.98, 0.99)


def coverage(
    positives: int, negatives: int, areas: Sequence[float], draws: int, *, spread: float = 1.0
) -> dict[tuple[int, int, float, float], float]:
    """(positives, negatives, spread, true area) -> share of the draws whose interval holds the true area."""
    y = np.repeat([1, 0], [positives, negatives])
    found = {}
    for area in areas:
        rng, shift = np.random.default_rng(0), norm.ppf(area) * np.hypot(1, spread)
        held = 0
        for _ in range(draws):
            s = np.r_[rng.normal(shift, spread, positives), rng.normal(size=negatives)]
            interval = delong_interval(y, s)
            held += interval.low <= area <= interval.high
        found[positives, negatives, spread, area] = held / draws
    return found


def main(draws: int = 2000) -> None:
    print("positives negatives spread " + " ".join(f"{area:>6}" for area in AREAS))
    for positives, negatives in COHORTS:
        for spread in (0.5, 1.0, 2.0):
            shares = coverage(positives, negatives, AREAS, draws, spread=spread).values()
            print(f"{positives:>9} {negatives:>9} {spread:>6} " + " ".join(f"{share:>6.3f}" for share in shares))


if __name__ == "__main__":
    main()
