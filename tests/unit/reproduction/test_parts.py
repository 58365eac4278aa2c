"""Tests of claims that consist of several values or decisions."""

from __future__ import annotations

import math

import pytest

from weirlab.reproduction.claims import beside, decided, every, within
from weirlab.reproduction.contract import Decision

HOLDS = decided(True, "rule", "good")
DIFFERS = decided(False, "rule", "bad")
UNKNOWN = Decision("cannot tell", "rule", "nothing")


@pytest.mark.parametrize(
    ("parts", "verdict", "found"),
    [
        ({"a": HOLDS, "b": HOLDS}, "holds", "2 of 2. a: good; b: good"),
        ({"a": HOLDS, "b": DIFFERS}, "differs", "1 of 2. b: bad"),
        ({"a": UNKNOWN, "b": DIFFERS}, "differs", "0 of 2. a: nothing; b: bad"),
        ({"a": HOLDS, "b": UNKNOWN}, "cannot tell", "1 of 2. b: nothing"),
        ({}, "cannot tell", "no measurements"),
    ],
)
def test_all_parts_have_to_hold_and_one_that_differs_decides(
    parts: dict[str, Decision], verdict: str, found: str
) -> None:
    assert every(parts, "all") == Decision(verdict, "all", found)  # type: ignore[arg-type]


def test_values_within_their_ends_hold_and_unknown_ones_decide_nothing() -> None:
    assert within({"a": 1.0, "b": 2.0}, 1.0, 2.0, "rule").verdict == "holds"
    assert within({"a": 1.0, "b": 2.1}, 1.0, 2.0, "rule").verdict == "differs"
    assert within({"a": 1.0, "b": math.nan}, 1.0, 2.0, "rule").verdict == "cannot tell"
    assert within({}, 1.0, 2.0, "rule").verdict == "cannot tell"


def test_a_value_that_was_not_measured_is_not_shown_as_one() -> None:
    assert beside("a", 1.0).decision is None
    missing = beside("a", math.nan).decision
    assert missing is not None
    assert missing.verdict == "cannot tell"
