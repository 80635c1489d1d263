"""The numbers behind the colours of every map: the heatmap, exports, the report and the viewer use the same."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Values = NDArray[np.floating[Any]]
STRONGEST = 99  # percentile of the size at which colours end, so that one patch does not make all others pale


def percentiles(values: Values) -> NDArray[np.float64]:
    """(patch,): rank of each patch within its slide in percent, (rank - 1/2) / n; ties share theirs, so that equal
    values are 50 throughout."""
    return (rankdata(values) - 0.5) / len(values) * 100


def attends(attention: Values) -> bool:
    """False if every patch has the same attention, as with mean pooling: there is nothing to see or to rank."""
    return bool(np.ptp(attention) > 1e-6 * attention.max())


def colour_limit(values: Values) -> float:
    """Where the colours of signed values end, on either side of 0."""
    size = np.abs(values)
    return float(np.percentile(size, STRONGEST)) or float(size.max()) or 1.0
