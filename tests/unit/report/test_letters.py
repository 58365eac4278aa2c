"""Letter values, of single values and of histograms, and their chart."""

from __future__ import annotations

import numpy as np
import pytest

from weirlab.report.letters import boxes, letter_values, of_histogram
from weirlab.report.rows import RowText

TEXT = RowText("k", "s", "A sentence.", "Delay, µs")


def test_letter_values_are_medians_of_halves() -> None:
    """1 to 100: depths 50.5, 25.5, 13, 7; boxes hold a half, three quarters, seven eighths, ..."""
    found = letter_values(np.arange(1.0, 101.0))
    assert found.median == 50.5
    assert found.boxes[-3:] == ((0.875, 7.0, 94.0), (0.75, 13.0, 88.0), (0.5, 25.5, 75.5))
    assert found.boxes[0] == (1 - 0.5**4, 4.0, 97.0)
    assert found.outside == (1.0, 2.0, 3.0, 98.0, 99.0, 100.0)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (12, 1), (16, 2), (100, 4), (1000, 8)])
def test_only_boxes_whose_ends_can_be_known_are_drawn(n: int, count: int) -> None:
    """floor(log2 n - log2(2 * 1.96^2)) + 1 of them."""
    values = np.random.default_rng(1).normal(size=n)
    assert len(letter_values(values).boxes) == count
    assert len(of_histogram(np.array([1.0]), np.array([float(n)])).boxes) == min(count, 7)


def test_a_histogram_has_the_letter_values_of_its_values() -> None:
    values = np.random.default_rng(2).lognormal(3.0, 0.5, 4000)
    edges = np.exp(np.linspace(0, 6, 2000))
    count, _ = np.histogram(values, edges)
    found, exact = of_histogram(edges[1:], count.astype(float)), letter_values(values)
    assert found.median == pytest.approx(exact.median, rel=0.01)
    inner = exact.boxes[-len(found.boxes) :]
    for (share, low, high), (same, true_low, true_high) in zip(found.boxes, inner, strict=True):
        assert share == same
        if share < 0.98:  # Beyond, a single value more or less makes a difference.
            assert (low, high) == (pytest.approx(true_low, rel=0.02), pytest.approx(true_high, rel=0.02))


def test_a_row_has_its_boxes_its_median_and_what_lies_outside() -> None:
    [figure] = boxes(TEXT, {"one": letter_values(np.arange(1.0, 101.0))}, log=True)
    assert figure.data.filter(share=50.0).row(0, named=True)["low"] == 25.5
    assert figure.data.filter(share=-100.0).height == 6
    assert not boxes(TEXT, {})
