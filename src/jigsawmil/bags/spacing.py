"""How far apart patches lie."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def spacing(coords: NDArray[np.floating[Any]], alone: float = 1.0) -> float:
    """Median distance to the nearest other place; `alone` for a single place."""
    places = np.unique(coords, axis=0)
    if len(places) < 2:
        return alone
    from scipy.spatial import cKDTree  # takes a quarter of a second to import

    return float(np.median(cKDTree(places).query(places, k=2)[0][:, 1]))
