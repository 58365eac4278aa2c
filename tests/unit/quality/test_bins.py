"""Bins of times."""

from __future__ import annotations

import numpy as np
import pytest

from weirlab.quality.distribution import EDGES_NS, counted


def test_every_value_is_in_one_bin_that_contains_it() -> None:
    values = np.array([0.0, 99.9, 100.0, 1_000.0, 1_060.0, 5e9])
    found = list(counted(values))
    assert sum(count for *_, count in found) == len(values)
    assert found[0] == (0.0, 100.0, 2)
    for value in values:
        assert sum(low <= value < high for low, high, _ in found) == 1


def test_bins_are_an_eighth_wide_and_the_last_one_takes_what_is_longer() -> None:
    ratios = EDGES_NS[2:] / EDGES_NS[1:-1]
    assert ratios == pytest.approx(np.full(len(ratios), 10 ** (1 / 20)))
    [(low, high, count)] = counted([2e10, 3e12])
    assert (high, count) == (pytest.approx(1e10), 2)
    assert low < high
    assert not list(counted([]))
