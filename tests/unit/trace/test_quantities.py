from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.trace import quantities
from weirlab.trace.quantities import Moment, Window

from .made import START_NS


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1.5", Moment(1_500_000_000, True)),
        ("300ms", Moment(300_000_000, True)),
        ("2min", Moment(120_000_000_000, True)),
        (".25 s", Moment(250_000_000, True)),
        ("2026-01-31T12:00:00", Moment(START_NS, False)),
        ("2026-01-31 12:00", Moment(START_NS, False)),
        ("2026-01-31T13:00:00.25+01:00", Moment(START_NS + 250_000_000, False)),
        ("2026-01-31T12:00:00.000000001Z", Moment(START_NS + 1, False)),
        ("@1769860800.123456789", Moment(START_NS + 123_456_789, False)),
    ],
)
def test_times_are_read_to_the_nanosecond(text: str, moment: Moment) -> None:
    assert quantities.parse_moment(text, "--from") == moment


@pytest.mark.parametrize("text", ["", "noon", "-1", "2026-13-01T00:00", "1.5 weeks", "@", "12:00"])
def test_other_text_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InputError, match=r"--from .* not understood; accepted are seconds since"):
        quantities.parse_moment(text, "--from")


@given(st.integers(0, 4_000_000_000 * 10**9))
def test_a_time_that_is_shown_is_read_as_the_same(ns: int) -> None:
    shown = quantities.absolute(ns, 9).removesuffix(" UTC")
    assert quantities.parse_moment(shown, "--from") == Moment(ns, False)


def test_a_window_has_both_ends_of_one_kind_and_in_order() -> None:
    early, late = Moment(1, True), Moment(2, True)
    assert quantities.window(early, late) == Window(1, 2, True)
    assert quantities.window(None, late) == Window(None, 2, True)
    assert quantities.window(None, None) == Window()
    with pytest.raises(InputError, match="give both in the same form"):
        quantities.window(early, Moment(START_NS, False))
    with pytest.raises(InputError, match="ends before it begins"):
        quantities.window(late, early)


@pytest.mark.parametrize(("text", "ns"), [("100ms", 100_000_000), ("1us", 1000), ("0.5", 500_000_000)])
def test_periods_are_read(text: str, ns: int) -> None:
    assert quantities.period_ns(text) == ns


@pytest.mark.parametrize("text", ["0", "1ns", "2h", "often"])
def test_periods_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--period"):
        quantities.period_ns(text)
