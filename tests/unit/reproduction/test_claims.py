"""Tests of shape: what holds, what differs, and what too few or too scattered values leave open."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weirlab.publications import PublishedValue
from weirlab.reproduction import claims


def value(low: float, high: float | None = None) -> PublishedValue:
    return PublishedValue("v", "a value", "Mbit/s", "measured", low, low if high is None else high)


@pytest.mark.parametrize(
    ("here", "verdict"), [(100, "holds"), (95.1, "holds"), (94.9, "differs"), (math.nan, "cannot tell")]
)
def test_a_value_of_no_hardware_is_judged_by_its_distance(here: float, verdict: str) -> None:
    answer = claims.near(value(100), here, 0.05)
    assert answer.decision is not None
    assert answer.decision.verdict == verdict


def test_a_range_is_met_inside_it() -> None:
    decisions = [claims.near(value(5, 10), here, 0).decision for here in (4.9, 5, 7, 10, 10.1)]
    assert [one.verdict for one in decisions if one] == ["differs", "holds", "holds", "holds", "differs"]


def test_an_order_holds_or_not_and_names_its_values() -> None:
    assert claims.ordered({"a": 3, "b": 2, "c": 1}, "falls").verdict == "holds"
    assert claims.ordered({"a": 3, "b": 3.1}, "falls").verdict == "differs"
    assert claims.ordered({"a": 3, "b": 3.1}, "falls", slack=0.05).verdict == "holds"
    assert claims.ordered({"a": 3, "b": math.nan}, "falls").verdict == "cannot tell"


def test_a_course_rises_or_falls_from_point_to_point() -> None:
    x = [1, 2, 3, 4]
    assert claims.monotone(x, [1, 2, 2.5, 9]).verdict == "holds"
    assert claims.monotone(x, [1, 3, 2.8, 9], slack=0).verdict == "differs"
    assert claims.monotone(x, [1, 3, 2.8, 9]).verdict == "holds"
    assert claims.monotone(x, [9, 3, 2, 1], falling=True).verdict == "holds"
    assert claims.monotone(x[:2], [1, 2]).verdict == "cannot tell"


def test_lines_and_exponentials_are_told_by_their_r2() -> None:
    x = np.arange(10.0)
    assert claims.fitted(x, 3 * x + 1).verdict == "holds"
    assert claims.fitted(x, np.exp(-x), exponential=True).verdict == "holds"
    assert claims.fitted(x, np.exp(-2 * x)).verdict == "differs"
    assert claims.fitted(x, np.ones(10)).verdict == "cannot tell"


def test_a_ratio_is_decided_by_its_interval() -> None:
    random = np.random.default_rng(0)
    two, one = random.normal(2, 0.01, 20), random.normal(1, 0.01, 20)
    names = ("two", "one")
    assert claims.ratio(two, one, 1.9, 2.1, names).verdict == "holds"
    assert claims.ratio(two, one, 0, 1.5, names).verdict == "differs"
    assert claims.ratio(two, one, 2.0, 2.1, names).verdict == "cannot tell"
    assert claims.ratio([2], [1], 1.9, 2.1, names).found == "2, measured once"
    assert claims.ratio([], [1], 1.9, 2.1, names).verdict == "cannot tell"
