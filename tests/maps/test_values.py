"""The numbers behind the colours."""

import numpy as np
import pytest

from jigsawmil.maps.values import attends, colour_limit, percentiles


def test_percentiles_are_of_half_ranks_and_ties_share_theirs() -> None:
    np.testing.assert_allclose(percentiles(np.array([3.0, 1.0, 2.0, 2.0])), [87.5, 12.5, 50, 50])
    np.testing.assert_allclose(percentiles(np.full(4, 7.0)), 50)
    np.testing.assert_allclose(percentiles(np.array([5.0])), 50)


def test_mean_pooling_attends_to_nothing_whatever_rounding_leaves() -> None:
    even = np.full(7, 1 / 7)
    assert not attends(even)
    assert not attends(even.astype(np.float32))
    assert not attends(even * (1 + 1e-9 * np.arange(7)))
    assert attends(even * (1 + 1e-3 * np.arange(7)))


def test_colours_end_where_one_patch_cannot_pale_all_others() -> None:
    values = np.append(np.linspace(-1, 1, 999), -1000)
    assert colour_limit(values) == pytest.approx(1, abs=0.02)
    assert colour_limit(np.append(np.zeros(999), 5.0)) == 5
    assert colour_limit(np.zeros(3)) == 1
