from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.traffic.load import describe_rate, parse_rate, rate_pps
from weirlab.traffic.sizes import SIMPLE_IMIX, Constant, mean_bytes
from weirlab.traffic.spec import Rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("450", Rate(450.0)),
        ("450pps", Rate(450.0)),
        ("100kpps", Rate(100e3)),
        ("2Mpps", Rate(2e6)),
        ("1.5 Mpps", Rate(1.5e6)),
        ("1e6", Rate(1e6)),
        ("1Gbit/s", Rate(1e9, "bps")),
        ("300Mbps", Rate(300e6, "bps")),
        ("40%", Rate(40.0, "percent", 1e9)),
        ("40%@10Gbit/s", Rate(40.0, "percent", 10e9)),
        ("10% of line", Rate(10.0, "percent", 1e9)),
        ("10% of the line", Rate(10.0, "percent", 1e9)),
        ("10% line rate@10Gbps", Rate(10.0, "percent", 10e9)),
        ("max", Rate(0.0, "max")),
    ],
)
def test_accepted_forms_are_understood(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "-5", "2M", "1,000", "1MBps", "nan", "inf", "40%@fast", "1_0"])
def test_nonsense_is_refused_naming_the_text_and_the_accepted_forms(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_rate(text)
    assert f"'{text}'" in str(caught.value)
    assert "40%@10Gbit/s" in str(caught.value)


@pytest.mark.parametrize("text", ["0", "0pps", "0%", "0Mbit/s", "1e400", "40%@0bps", "101%"])
def test_loads_that_cannot_be_offered_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"rate '{text}'"):
        parse_rate(text)


@pytest.mark.parametrize("rate", [Rate(-1.0), Rate(math.nan), Rate(40.0, "percent", math.inf)])
def test_rates_built_by_hand_are_checked_when_used(rate: Rate) -> None:
    with pytest.raises(InputError):
        rate_pps(rate, Constant(64))


def test_bit_rates_count_preamble_and_gap() -> None:
    assert rate_pps(Rate(1e9, "bps"), Constant(64)) == pytest.approx(1_488_095.2, abs=0.1)
    assert rate_pps(Rate(50.0, "percent", 10e9), Constant(1518)) == pytest.approx(812_743.8 / 2, abs=0.1)


def test_a_mix_fills_the_bit_rate_on_average() -> None:
    pps = rate_pps(Rate(300e6, "bps"), SIMPLE_IMIX)
    assert pps * (mean_bytes(SIMPLE_IMIX) + 20) * 8 == pytest.approx(300e6)


def test_max_is_infinite() -> None:
    assert math.isinf(rate_pps(Rate(0.0, "max"), Constant(64)))


@given(st.floats(1e-3, 1e12), st.sampled_from(["pps", "bps", "percent"]), st.floats(1e3, 1e12))
def test_describe_is_read_back_as_the_same_load(value: float, unit: str, line_bps: float) -> None:
    if unit == "percent":
        rate = Rate(value / 1e10, "percent", line_bps)
    else:
        rate = Rate(value, "bps" if unit == "bps" else "pps")
    again = parse_rate(describe_rate(rate))
    assert again.unit == rate.unit
    assert again.value == pytest.approx(rate.value, rel=1e-11)
    assert again.line_bps == pytest.approx(rate.line_bps, rel=1e-11)
