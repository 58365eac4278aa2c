"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from weirlab.report import numbers


@pytest.mark.parametrize(
    ("pps", "text"),
    [
        (450, "450 pps"),
        (820_400, "820 kpps"),
        (999_960, "1.00 Mpps"),
        (1_239_000, "1.24 Mpps"),
        (0, "0 pps"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_a_rate_takes_the_unit_that_keeps_it_short(pps: float, text: str) -> None:
    assert numbers.rate(pps).replace(numbers.SPACE, " ") == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(850, "850 ns"), (12_400, "12.4 µs"), (1_300_000, "1.30 ms"), (-9_000, "-9.00 µs"), (2e9, "2.00 s")],
)
def test_a_duration_takes_the_unit_that_keeps_it_short(ns: float, text: str) -> None:
    assert numbers.duration(ns).replace(numbers.SPACE, " ") == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.1234, "12 %"), (0.00013, "0.013 %"), (1.0, "100 %"), (9.1, "910 %"), (0.0, "0 %")]
)
def test_a_ratio_is_shown_in_percent(ratio: float, text: str) -> None:
    assert numbers.percent(ratio).replace(numbers.SPACE, " ") == text


def test_no_line_breaks_between_a_number_and_its_unit() -> None:
    shown = (numbers.rate(1e5), numbers.duration(1e4), numbers.percent(0.5), numbers.rules(400))
    assert all(" " not in text for text in shown)


def test_rules_are_counted_in_words() -> None:
    said = [numbers.rules(n).replace(numbers.SPACE, " ") for n in (0, 1, 1000)]
    assert said == ["no rules", "1 rule", "1,000 rules"]


def test_lists_read_as_a_sentence() -> None:
    assert [numbers.words(p) for p in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
