"""Sizes, times and line rates as users write them."""

from __future__ import annotations

import pytest

from weirlab.base.amounts import parse_budget, parse_line, parse_size, parse_time
from weirlab.base.errors import InputError


def test_sizes_and_times_are_read_with_units() -> None:
    sizes = {
        "65536": 65536, "7B": 7, "1k": 1024, "1kB": 1000, "500MB": 500_000_000, "64MiB": 64 << 20,
        "1.5G": 3 << 29, "2 GiB": 2 << 30,
    }  # fmt: skip
    assert {text: parse_size(text, "--x") for text in sizes} == sizes
    times = {"10": 10.0, "90s": 90.0, "5min": 300.0, "1h": 3600.0, "250ms": 0.25, "1d": 86400.0}
    assert {text: parse_time(text, "--x") for text in times} == times


@pytest.mark.parametrize("text", ["", "0", "many", "-1", "1x", "9" * 400, "999999999999999999T"])
def test_sizes_and_times_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--rotate"):
        parse_size(text, "--rotate-size")
    with pytest.raises(InputError, match="--rotate"):
        parse_time(text, "--rotate-time")


@pytest.mark.parametrize("text", ["10i", "1iB", "1e3", "１"])
def test_sizes_that_only_look_like_some_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--ring"):
        parse_size(text, "--ring")


@pytest.mark.parametrize("text", ["", "fast", "1GB/s", "0Mbit/s", "-1G"])
def test_what_is_no_line_rate_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="line rate"):
        parse_line(text)


def test_a_time_budget_has_at_most_a_week() -> None:
    assert parse_budget("7d") == 7 * 86400.0
    with pytest.raises(InputError, match="--time-budget '200h' is more than a week"):
        parse_budget("200h", "--time-budget")
    with pytest.raises(InputError, match="--time-budget 'soon' is no time"):
        parse_budget("soon", "--time-budget")
