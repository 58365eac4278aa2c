"""What both ends saw, put together; nothing is sent."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weirlab._engine import tcp_limits
from weirlab.diagnosis import finding as shares
from weirlab.transfers.tcp import connections, watching
from weirlab.transfers.tcp.results import Merger
from weirlab.transfers.tcp.settings import LEAST_BLOCK_BYTES, MOST_BLOCK_BYTES, MOST_CONNECTIONS, PORT

CHRONO = {"busy_time_us": 0, "rwnd_limited_us": 0, "sndbuf_limited_us": 0}


def flow(bytes_: int, latency: dict[str, int] | None = None, **kernel: int) -> dict[str, Any]:
    return {"bytes": bytes_, "blocks": 0, "latency": latency, "fields": kernel}


def late(blocks: int, ns: int) -> dict[str, int]:
    return {"blocks": blocks, "min_ns": ns, "mean_ns": ns, "p50_ns": ns, "p99_ns": ns, "max_ns": ns}


def report(of_server: bool, at_s: float, *flows: dict[str, Any]) -> dict[str, Any]:
    return {"of_server": of_server, "at_ns": round(at_s * 1e9), "flows": flows}


def total(view: dict[str, Any], last_s: float, failure: str = "") -> dict[str, Any]:
    return {**view, "first_ns": 0, "last_ns": round(last_s * 1e9), "failure": failure}


def test_bytes_are_the_receivers_and_the_kernels_numbers_the_senders() -> None:
    merger = Merger([True, False], ["rtt_us"])
    client = flow(130, rtt_us=10, total_retrans=1, snd_cwnd=2, snd_mss_bytes=100), flow(50, late(2, 7))
    assert list(merger.take(report(False, 1.0, *client))) == [], "the other end has told nothing"
    server = flow(100, late(4, 9)), flow(60, rtt_us=20, total_retrans=5)
    up, down = merger.take(report(True, 1.1, *server))
    assert (up.received_bytes, up.sent_bytes, up.rtt_us, up.retransmissions) == (100, 130, 10, 1)
    assert (up.from_s, up.to_s, up.cwnd_bytes) == (0.0, 1.1, 200)
    assert (down.received_bytes, down.sent_bytes, down.rtt_us, down.retransmissions) == (50, 60, 20, 5)
    assert up.latency is not None
    assert (up.latency.blocks, up.latency.mean_ns) == (4, 9)
    assert up.connections == ({"connection": 0, "received_bytes": 100, "rtt_us": 10},)


def test_intervals_tell_what_was_added() -> None:
    merger = Merger([True])
    for of_server, bytes_ in ((False, 100), (True, 80)):
        list(merger.take(report(of_server, 1.0, flow(bytes_, total_retrans=3))))
    list(merger.take(report(True, 2.0, flow(200))))
    (second,) = merger.take(report(False, 2.0, flow(300, total_retrans=4)))
    assert (second.from_s, second.to_s) == (1.0, 2.0)
    assert (second.received_bytes, second.sent_bytes, second.retransmissions) == (120, 200, 1)
    assert second.throughput_bps == 960


def test_an_end_that_tells_more_often_is_waited_for_and_nothing_is_lost() -> None:
    merger = Merger([True])
    told = [
        *merger.take(report(True, 1.0, flow(80, late(1, 5)))),
        *merger.take(report(True, 2.0, flow(200, late(2, 8)))),
        *merger.take(report(False, 2.0, flow(300))),
        *merger.take(report(True, 2.5, flow(290, late(3, 6)))),
        *merger.rest(),
        *merger.rest(),
    ]
    assert [(each.from_s, each.to_s, each.received_bytes) for each in told] == [(0, 2, 200), (2, 2.5, 90)]
    assert [each.sent_bytes for each in told] == [300, 0]
    first, last = (each.latency for each in told)
    assert first is not None
    assert last is not None
    assert (first.blocks, first.mean_ns, first.max_ns, last.blocks) == (3, 7, 8, 3)


def test_what_an_old_kernel_lacks_is_unknown_and_not_zero() -> None:
    merger = Merger([True])
    list(merger.take(report(False, 1.0, flow(10))))
    (only,) = merger.take(report(True, 1.0, flow(10)))
    assert (only.retransmissions, only.rtt_us, only.cwnd_bytes, only.latency) == (None, None, None, None)
    done = {"client": [total(flow(10), 1.0)], "server": [total(flow(10), 1.0)]}
    (direction,), _ = merger.summary(done)
    assert (direction.retransmissions, direction.rtt_us, direction.shares) == (None, None, None)


def test_a_summary_adds_connections_up() -> None:
    merger = Merger([True, True])
    sent = [flow(10, rtt_us=30, min_rtt_us=20, total_retrans=1, bytes_retrans=7, **CHRONO)] * 2
    done = {
        "client": [total(each, 1.0) for each in sent],
        "server": [total(flow(10, late(1, 5)), 2.0), total(flow(30, late(3, 9)), 4.0, "reset")],
    }
    (direction,), each = merger.summary(done)
    assert len(each) == 2
    assert (direction.received_bytes, direction.sent_bytes, direction.seconds) == (40, 20, 4.0)
    assert (direction.retransmissions, direction.retransmitted_bytes) == (2, 14)
    assert direction.rtt_us == (20, 30, 30)
    assert direction.throughput_bps == 80
    assert direction.latency is not None
    assert (direction.latency.blocks, direction.latency.mean_ns, direction.latency.max_ns) == (4, 8, 9)
    assert direction.shares == shares.TimeShares(1, 0, 0, 0)
    assert direction.failure == "server: reset"


@given(
    busy=st.integers(0, 10**9),
    receiver=st.integers(0, 10**9),
    send_buffer=st.integers(0, 10**9),
    elapsed=st.floats(1, 1e9),
)
def test_shares_add_up_whatever_the_counters_say(
    busy: int, receiver: int, send_buffer: int, elapsed: float
) -> None:
    counters = {"busy_time_us": busy, "rwnd_limited_us": receiver, "sndbuf_limited_us": send_buffer}
    found = shares.time_shares(counters, elapsed)
    assert found is not None
    parts = (found.application, found.receiver, found.send_buffer, found.network)
    assert abs(sum(parts) - 1) < 1e-9
    assert min(parts) >= 0


def test_shares_are_of_the_time_that_passed() -> None:
    counters = {"busy_time_us": 600, "rwnd_limited_us": 100, "sndbuf_limited_us": 200}
    assert shares.time_shares(counters, 1000) == shares.TimeShares(0.4, 0.1, 0.2, 0.3)
    assert shares.time_shares({}, 1000) is None


def test_limits_are_those_of_the_engine() -> None:
    assert tcp_limits() == {
        "port": PORT,
        "least_block_bytes": LEAST_BLOCK_BYTES,
        "most_block_bytes": MOST_BLOCK_BYTES,
        "most_connections": MOST_CONNECTIONS,
        "most_watched": watching.MOST_WATCHED,
    }


def test_every_usual_field_exists_and_is_found_by_the_kernels_name() -> None:
    names = {field.name for field in connections.fields()}
    assert {*connections.USUAL, *watching.NEEDED, *shares.COUNTERS} <= names
    assert connections.chosen("rtt, total_retrans,rtt_us") == ("rtt_us", "total_retrans")
    assert set(connections.chosen("all")) == names
