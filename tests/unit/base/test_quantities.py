"""Numbers with units, as every place shows them."""

from __future__ import annotations

import math

import pytest

from weirlab.base import quantities
from weirlab.cli import quantities as on_a_terminal
from weirlab.model import wording
from weirlab.report import numbers as on_a_page
from weirlab.trace import quantities as of_a_capture


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0.0, "0 ns"),
        (1e-184, "0 ns"),
        (-3e-20, "0 ns"),
        (0.27, "0.27 ns"),
        (9.996, "10.0 ns"),
        (999.7, "1.00 µs"),
        (1.42e9, "1.42 s"),
        (1.42e12, "1,420 s"),
        (math.nan, "–"),
    ],
)
def test_a_duration_has_no_exponent_and_no_digits_below_what_is_measured(ns: float, text: str) -> None:
    assert quantities.duration(ns) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (42.2, "42 s"),
        (59.6, "1 min 00 s"),
        (3_599, "59 min 59 s"),
        (3_723, "1 h 02 min 03 s"),
        (1.6e9, "444,444 h 26 min 40 s"),
    ],
)
def test_a_long_duration_has_hours_in_every_place(seconds: float, text: str) -> None:
    assert quantities.clock(seconds) == on_a_terminal.clock(seconds) == text
    if seconds >= 600:
        assert of_a_capture.duration(seconds * 1e9) == text


def test_what_arithmetic_leaves_behind_is_shown_as_0() -> None:
    said = [quantities.significant(value) for value in (2.7e-20, -1e-184, 1.5e-7)]
    assert said == ["0", "0", "0.000000150"]


def test_every_place_shows_the_same_number() -> None:
    for ns in (1e-184, 850.0, 12_400.0, 1.3e6, 999_960.0, 2e9):
        page = on_a_page.duration(ns).replace(on_a_page.SPACE, " ")
        assert on_a_terminal.duration(ns) == page == of_a_capture.duration(ns)


@pytest.mark.parametrize("ns", [1.42e12, 9.99e15, 0.0013, 1234.5])
def test_a_number_in_a_sentence_of_a_model_never_has_an_exponent(ns: float) -> None:
    assert "e" not in wording.ns(ns) + wording.with_error(ns, None, "ns")


def test_what_was_measured_keeps_its_digits() -> None:
    assert quantities.significant(0.05069, 4) == "0.05069"
    assert quantities.rate(999_999) == "1.00 Mpps"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1e-7, "0.000010 %"),
        (0.0312, "3.1 %"),
        (0.9, "90 %"),
        (0.994, "99.4 %"),
        (0.99999, "99.999 %"),
        (1.0, "100 %"),
        (12.0, "1,200 %"),
        (-0.25, "-25 %"),
        (0.0, "0 %"),
        (float("nan"), "–"),
    ],
)
def test_a_share_is_never_rounded_to_all(ratio: float, text: str) -> None:
    assert quantities.percent(ratio) == text
