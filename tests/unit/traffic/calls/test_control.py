from __future__ import annotations

import numpy as np
import pytest

from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.control import departures, interval_s, session_bytes_per_s, waits


def test_control_packets_have_5_percent_of_the_session_bandwidth() -> None:
    stream = parse_codec("g711")
    # Both sides at 50 packets of 200 B.
    assert session_bytes_per_s(stream, 2) == 20_000
    per_side_s = interval_s(stream, 2, 0.0)
    assert 2 * 128 / per_side_s == pytest.approx(0.05 * 20_000)


def test_nobody_sends_more_often_than_every_5_s_where_that_is_the_least() -> None:
    assert interval_s(parse_codec("g711"), 2, 5.0) == 5.0
    # 12.5 packets/s of 120 B are so thin a session that its 5 % come later than every 3 s.
    assert interval_s(parse_codec("g729:80ms"), 1, 3.0) == pytest.approx(256 / (0.05 * 12.5 * 120))


def test_waits_are_what_reconsideration_leaves_of_the_draws() -> None:
    """RFC 3550 6.3.1 and 6.3.6, played literally beside the distribution in closed form."""
    rng = np.random.default_rng(1)
    literal = []
    for _ in range(20_000):
        wait = rng.uniform(0.5, 1.5)
        while (again := rng.uniform(0.5, 1.5)) > wait:
            wait = again
        literal.append(wait / (np.e - 1.5))
    found = waits((200_000,), np.random.default_rng(2))
    assert found.mean() == pytest.approx(1, abs=0.003)
    assert found.min() > 0.5 / 1.2183
    assert found.max() < 1.5 / 1.2182
    levels = [0.1, 0.25, 0.5, 0.75, 0.9]
    assert np.quantile(found, levels) == pytest.approx(np.quantile(literal, levels), rel=0.01)


def sides(n: int, begin_s: float, end_s: float, begins: bool) -> tuple[np.ndarray, ...]:
    return (
        np.full(n, round(begin_s * NS_PER_S)),
        np.full(n, round(end_s * NS_PER_S)),
        np.full(n, 5 * NS_PER_S),
        np.full(n, begins),
    )


def test_sessions_that_stand_send_as_often_in_every_second() -> None:
    found = departures(*sides(20_000, 0, 100, False), 10 * NS_PER_S, np.random.default_rng(1))
    per_second = np.histogram(found.due_ns / NS_PER_S, bins=10, range=(0, 10))[0]
    # 4000 on average with a standard deviation below 64.
    assert np.abs(per_second - 4000).max() < 260


def test_a_new_session_sends_its_first_after_half_the_time() -> None:
    found = departures(*sides(2000, 1, 100, True), 30 * NS_PER_S, np.random.default_rng(1))
    first = found.due_ns[np.flatnonzero(np.diff(found.side, prepend=-1))] / NS_PER_S - 1
    assert len(first) == 2000
    assert first.mean() == pytest.approx(2.5, rel=0.03)
    assert first.min() > 1.0
    assert np.diff(found.due_ns)[np.diff(found.side) == 0].mean() == pytest.approx(5e9, rel=0.03)


def test_control_packets_end_with_the_call() -> None:
    found = departures(*sides(100, 2, 9, True), 30 * NS_PER_S, np.random.default_rng(1))
    assert found.due_ns.min() >= 2 * NS_PER_S
    assert found.due_ns.max() < 9 * NS_PER_S
