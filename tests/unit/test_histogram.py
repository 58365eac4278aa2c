"""The delay histogram of a trial."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weirlab.records import Histogram

WIDE = Histogram(*(np.array(values, np.uint64) for values in ([96, 128], [128, 256], [1, 3])))
"""Two buckets that are much wider than what they hold."""


def test_no_quantile_lies_beyond_the_extremes() -> None:
    histogram = WIDE.within(100.0, 150.0)
    quantiles = [histogram.quantile_ns(q) for q in np.linspace(0, 1, 21)]
    assert min(quantiles) == 100
    assert max(quantiles) <= 151
    assert quantiles == sorted(quantiles)
    assert list(WIDE.upper_ns) == [128, 256]


def test_all_packets_in_one_bucket_lie_between_the_extremes() -> None:
    one = Histogram(*(np.array([value], np.uint64) for value in (128, 256, 7))).within(140.0, 140.0)
    assert (one.quantile_ns(0.01), one.quantile_ns(0.99)) == (pytest.approx(140, abs=1),) * 2


def test_what_is_longer_than_all_buckets_stays_in_order() -> None:
    # The last bucket also counts everything longer.
    long = Histogram(*(np.array([value], np.uint64) for value in (128, 256, 7))).within(9000.0, 9999.0)
    assert 9000 <= long.quantile_ns(0.1) < long.quantile_ns(0.9) <= 10_000


def test_without_packets_there_is_nothing_to_cut() -> None:
    nothing = np.empty(0, np.uint64)
    assert math.isnan(Histogram(nothing, nothing, nothing).within(math.nan, math.nan).quantile_ns(0.5))


def test_the_deviation_is_that_of_the_middles_of_the_buckets() -> None:
    lower, upper = (np.array(ends, np.uint64) for ends in ([100, 200, 1000], [110, 210, 1010]))
    histogram = Histogram(lower, upper, np.array([3, 4, 1], np.uint64))
    assert histogram.deviation_ns == pytest.approx(np.std([105] * 3 + [205] * 4 + [1005]))
    nothing = np.zeros(0, np.uint64)
    assert math.isnan(Histogram(nothing, nothing, nothing).deviation_ns)
