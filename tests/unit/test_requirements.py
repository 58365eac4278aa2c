from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.requirements import (
    LOSS,
    MEAN,
    MOS,
    P99,
    P999,
    RATE,
    Demand,
    DemandCase,
    Quantity,
    decide,
    judge,
    parse,
)

CALLS = Quantity("calls", "number of calls", "count")
KNOWN = (LOSS, MEAN, P99, P999, RATE, MOS, CALLS)


@pytest.mark.parametrize(
    ("text", "quantity", "comparison", "value", "unit"),
    [
        ("p99<1ms", P99, "<", 1e6, "ns"),
        ("P99 delay <= 80 us", P99, "<=", 8e4, "ns"),
        ("p99.9>5µs", P999, ">", 5e3, "ns"),
        ("delay<2s", MEAN, "<", 2e9, "ns"),
        ("latency < 500ns", MEAN, "<", 500, "ns"),
        ("loss=0", LOSS, "=", 0, "ratio"),
        ("loss<0.1%", LOSS, "<", 1e-3, "ratio"),
        ("loss<=1e-5", LOSS, "<=", 1e-5, "ratio"),
        ("loss=100%", LOSS, "=", 1, "ratio"),
        ("rate>=300kpps", RATE, ">=", 3e5, "pps"),
        ("forwarding>1.2Mpps", RATE, ">", 1.2e6, "pps"),
        ("rate>=450", RATE, ">=", 450, "pps"),
        ("rate>=1Gbit/s", RATE, ">=", 1e9, "bit/s"),
        ("rate>=40%@10Gbit/s", RATE, ">=", 4e9, "bit/s"),
        ("mos>=4.1", MOS, ">=", 4.1, "MOS"),
        ("calls>=300", CALLS, ">=", 300, ""),
    ],
)
def test_a_requirement_is_read(
    text: str, quantity: Quantity, comparison: str, value: float, unit: str
) -> None:
    found = parse(text, KNOWN)
    assert (found.quantity, found.comparison, found.unit) == (quantity, comparison, unit)
    assert found.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "accepted are a quantity \\(loss, mean, p99, p99.9, rate, mos, calls\\)"),
        ("p99", "not understood"),
        ("p99<", "not understood"),
        ("p99==1ms", "not understood"),
        ("p99<>1ms", "not understood"),
        ("1ms>p99", "not understood"),
        ("p98<1ms", "'p98' is not known here; accepted are loss, mean"),
        ("p99<1", "unit of time"),
        ("p99<1kpps", "unit of time"),
        ("p99<nanms", "unit of time"),
        ("p99<-1ms", "unit of time"),
        ("p99<1e999ms", "finite"),
        ("p99<=0ms", "above 0"),
        ("p99=1ms", "give <= or >="),
        ("loss<1ms", "ratio or a percentage"),
        ("loss<100%", "demands nothing"),
        ("loss>100%", "demands nothing"),
        ("loss<=150%", "demands nothing"),
        ("loss<0", "loss=0"),
        ("loss>=0", "loss=0"),
        ("rate>=max", "rate in numbers"),
        ("rate>=fast", "rate 'fast' not understood"),
        ("rate>=1MBps", "not understood"),
        ("rate=1kpps", "give <= or >="),
        ("mos>=80%", "from 1 to 5"),
        ("mos>=9", "from 1 to 5"),
        ("calls>=2.5", "whole number"),
        ("calls>=many", "whole number"),
    ],
)
def test_what_cannot_be_required_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        parse(text, KNOWN)


@given(st.text(max_size=60))
def test_whatever_the_text_is_it_is_read_or_refused(text: str) -> None:
    try:
        found = parse(text, KNOWN)
    except InputError:
        return
    assert math.isfinite(found.value)


@pytest.mark.parametrize(
    ("text", "low", "high", "verdict"),
    [
        ("p99<1ms", 1e5, 9e5, "met"),
        ("p99<1ms", 9e5, 1.1e6, "undecided"),
        ("p99<1ms", 1.1e6, 2e6, "not met"),
        ("p99<1ms", 1e6, 1e6, "not met"),
        ("p99<=1ms", 1e6, 1e6, "met"),
        ("p99>1ms", 1e6, 1e6, "not met"),
        ("rate>=300kpps", 3e5, math.inf, "met"),
        ("rate>=300kpps", 2e5, math.inf, "undecided"),
        ("rate<=300kpps", 2e5, math.inf, "undecided"),
        ("rate<=300kpps", 4e5, math.inf, "not met"),
        ("loss=0", 0.0, 0.0, "met"),
        ("loss=0", 0.0, 1e-4, "undecided"),
        ("loss=0", 1e-5, 1e-4, "not met"),
        ("loss=0", -math.inf, math.inf, "undecided"),
        ("loss<1%", math.nan, math.nan, "undecided"),
    ],
)
def test_an_interval_on_both_sides_of_the_limit_decides_nothing(
    text: str, low: float, high: float, verdict: str
) -> None:
    assert decide(parse(text, KNOWN), low, high) == verdict


@given(
    st.sampled_from(["p99<1ms", "p99<=1ms", "p99>1ms", "p99>=1ms"]),
    st.floats(0, 1e7),
    st.floats(0, 1e7),
    st.floats(0, 1),
)
def test_a_verdict_holds_for_every_value_inside_the_interval(
    text: str, a: float, b: float, at: float
) -> None:
    demand, (low, high) = parse(text, KNOWN), sorted((a, b))
    inside = min(max(low + at * (high - low), low), high)
    assert decide(demand, low, high) in (decide(demand, inside, inside), "undecided")


def test_one_case_that_fails_is_enough_and_the_worst_is_shown() -> None:
    cases = [
        DemandCase(4.2, where="call 1"),
        DemandCase(3.1, where="call 2"),
        DemandCase(3.9, where="call 3"),
    ]
    found = judge(parse("mos>=4", KNOWN), cases)
    assert (found.verdict, found.case.where, found.cases, found.failing) == ("not met", "call 2", 3, 2)
    assert found.measured == "3.10"
    assert found.because == "call 2, the worst of 3 (2 not met)"


def test_a_case_that_nobody_measured_leaves_it_undecided_unless_another_fails() -> None:
    unknown = DemandCase.unknown("its codec is not known", "stream 2")
    demand = parse("mos>=4", KNOWN)
    found = judge(demand, [DemandCase(4.2, where="stream 1"), unknown])
    assert (found.verdict, found.case.why) == ("undecided", "its codec is not known")
    assert "its codec is not known" in found.because
    assert found.document()["value"] is None or math.isnan(found.document()["value"])
    assert judge(demand, [DemandCase(3.0), unknown]).verdict == "not met"
    assert judge(demand, []).verdict == "undecided"


def test_rates_in_bits_count_what_a_frame_takes_on_the_wire() -> None:
    demand = parse("rate>=1Gbit/s", KNOWN)
    assert judge(demand, [DemandCase(1.489e6, frame_bytes=64)]).verdict == "met"
    assert judge(demand, [DemandCase(1.487e6, frame_bytes=64)]).verdict == "not met"


def test_as_many_digits_are_shown_as_tell_a_value_from_its_limit() -> None:
    demand = parse("p99<12.11us", KNOWN)
    assert judge(demand, [DemandCase(12_112, 12_105, 12_119)]).measured == "12.112 µs [12.105 µs, 12.119 µs]"
    assert judge(demand, [DemandCase(8_000)]).measured == "8.00 µs"
    assert (
        judge(parse("rate>=1kpps", KNOWN), [DemandCase(5e3, 5e3, math.inf)]).measured == "at least 5.00 kpps"
    )


def test_the_document_of_a_requirement_has_value_interval_and_verdict() -> None:
    demand = Demand("p99<1ms", P99, "<", 1e6, "ns")
    document = judge(demand, [DemandCase(8e5, 7e5, 9e5, note="of 10 packets")]).document()
    assert document | {"why": ""} == {
        "requirement": "p99<1ms", "quantity": "p99", "comparison": "<", "limit": 1e6, "unit": "ns",
        "verdict": "met", "value": 8e5, "low": 7e5, "high": 9e5, "where": "", "note": "of 10 packets",
        "why": "", "cases": 1, "failing": 0,
    }  # fmt: skip
