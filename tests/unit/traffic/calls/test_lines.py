from __future__ import annotations

import pytest

from weirlab.base.amounts import parse_line
from weirlab.calls.calls.wire import line, line_calls
from weirlab.traffic.calls.spec import CallClass, parse_calls


def kind(text: str) -> CallClass:
    return parse_calls(1, text).classes[0]


@pytest.mark.parametrize(
    ("line_rate", "max_pps", "calls"),
    # RFC 2544's frames and IEEE 802.3: 10^9 / ((218 + 20) * 8), and 50 packets/s per stream.
    [("1Gbit/s", 525_210.08, 10_504), ("100M", 52_521.008, 1_050), ("10Gbps", 5_252_100.84, 105_042)],
)
def test_a_real_line_also_carries_preamble_and_gap(line_rate: str, max_pps: float, calls: int) -> None:
    found = line(kind("g711"), parse_line(line_rate))
    assert found.frame_bytes == 218
    assert found.max_pps == pytest.approx(max_pps, rel=1e-8)
    assert found.calls == calls
    assert found.both_pps == 2 * found.max_pps


def test_a_line_that_is_exactly_full_carries_the_last_call() -> None:
    line_bps = 50 * 238 * 8 * 7
    assert line(kind("g711"), line_bps).calls == 7
    assert line(kind("g711"), line_bps - 1).calls == 6


def test_control_packets_take_their_part() -> None:
    alone = line(kind("g711"), 1e9, rtcp=False)
    usual = line(kind("g711"), 1e9)
    full = line(kind("g711"), 1e9, rtcp_min_s=0.0)
    assert alone.calls == alone.calls_with_control == usual.calls
    # 166 B on the wire every 5 s beside 238 B fifty times a second.
    assert usual.calls_with_control == int(1e9 / (8 * (238 * 50 + 166 / 5)))
    # RFC 3550 counts 5 % from IP upwards; short packets take a larger part of the wire.
    assert 0.95 > full.calls_with_control / full.calls > 0.93


def test_trunks_carry_more_calls_than_single_packets() -> None:
    single, trunk = line(kind("g729/iax2"), 1e9), line(kind("g729/iax2-trunk*20"), 1e9)
    assert trunk.calls > 3 * single.calls
    assert trunk.calls % 20 == 0


def test_a_mix_lies_between_its_parts_in_proportion() -> None:
    mix = parse_calls(1000, "g711:50,gsm-slow:50")
    parts = [line_calls(parse_calls(1, text), 1e9) for text in ("g711", "gsm-slow")]
    harmonic = 2 / (1 / parts[0] + 1 / parts[1])
    assert line_calls(mix, 1e9) == pytest.approx(harmonic, rel=1e-3)
