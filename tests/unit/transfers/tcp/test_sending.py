"""Bulk transfers over loopback: by bytes, never by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from weirlab.base.errors import TrialError
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.results import Interval
from weirlab.transfers.tcp.settings import TransferSettings

from ...conftest import Weir
from .conftest import Served

Serve = Callable[..., Served]


class Nobody:
    """Does not want to know."""

    def started(self, event: Mapping[str, Any]) -> None: ...

    def interval(self, interval: Interval) -> None: ...

    def blocks(self, event: Mapping[str, Any]) -> None: ...


class AtFirst(Nobody):
    """Does something when the first bytes have been received."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then: Callable[[], None] | None = then

    def interval(self, interval: Interval) -> None:
        if self._then is not None and interval.received_bytes:
            self._then()
            self._then = None


@pytest.mark.parametrize(
    ("ways", "up", "down"), [((), 3, 0), (("--reverse",), 0, 3), (("--bidir",), 3, 3)], ids=str
)
def test_both_ends_count_the_same_bytes(
    weir: Weir, serve: Serve, ways: tuple[str, ...], up: int, down: int
) -> None:
    served, total = serve(), 1_000_001
    answer = weir(
        *("tcp", "send", "127.0.0.1", "--port", served.port, "--json", "--connections", 3, *ways),
        *("--bytes", total, "--block", 10_000, "--interval", "1ms"),
    )
    assert answer.code == 0, answer.err
    *_, result = answer.lines
    assert result["kind"] == "tcp send"
    assert len(result["connections"]) == up + down
    for direction in result["directions"]:
        assert direction["received_bytes"] == direction["sent_bytes"] == total
        assert direction["latency"]["blocks"] == 102, "34 blocks in each of three connections"
    ended = served.wait_for("ended")
    assert ended["failure"] == ""
    assert ended["received_bytes"] == (total if up else 0)
    assert ended["sent_bytes"] == (total if down else 0)
    for way in ("up", "down"):
        intervals = [
            line for line in answer.lines if line["kind"] == "tcp send interval" and line["direction"] == way
        ]
        expected = total if {"up": up, "down": down}[way] else 0
        assert sum(each["received_bytes"] for each in intervals) == expected
        assert sum(each["sent_bytes"] for each in intervals) == expected


def test_without_json_intervals_go_to_stderr_and_the_result_to_stdout(weir: Weir, serve: Serve) -> None:
    answer = weir("tcp", "send", "127.0.0.1", "--port", serve().port, "--bytes", "100kB")
    assert answer.code == 0, answer.err
    assert "retransmitted" in answer.err
    assert "To the server: " in answer.out
    assert "100 kB" in answer.out
    assert "Where the time went" in answer.out


def test_the_kernels_fields_come_with_every_interval_and_every_block(weir: Weir, serve: Serve) -> None:
    answer = weir(
        *("tcp", "send", "127.0.0.1", "--port", serve().port, "--json", "--bytes", "1MB"),
        *("--block", 100_000, "--every-block", "--fields", "rtt,snd_mss"),
    )
    assert answer.code == 0, answer.err
    blocks = [line for line in answer.lines if line["kind"] == "tcp send block"]
    assert [each["block"] for each in blocks] == list(range(1, 11))
    assert all(each["snd_mss_bytes"] > 0 for each in blocks)
    (first, *_) = [line for line in answer.lines if line["kind"] == "tcp send interval"]
    assert {"rtt_us", "snd_mss_bytes"} < first["connections"][0].keys()


def test_what_the_kernel_made_of_options_is_told(weir: Weir, serve: Serve, free_port: int) -> None:
    answer = weir(
        *("tcp", "send", "127.0.0.1", "--port", serve().port, "--json", "--bytes", "1kB"),
        *("--congestion", "reno", "--option", "TCP_NODELAY=1", "--option", "1:7=50000"),
        *("--local-port", free_port),
    )
    assert answer.code == 0, answer.err
    (made,) = answer.lines[-1]["connections"]
    assert made["congestion"] == "reno"
    # The kernel doubles buffers for its own needs (socket(7)).
    assert made["options"] == {"TCP_CONGESTION": "reno", "TCP_NODELAY": 1, "1:7": 100_000}
    assert made["local"] == ["127.0.0.1", free_port]


def test_a_rate_holds_a_transfer_back(weir: Weir, serve: Serve) -> None:
    answer = weir(
        *("tcp", "send", "127.0.0.1", "--port", serve().port, "--json", "--rate", "8Mbit/s"),
        *("--bytes", "100kB", "--block", "10kB"),
    )
    (direction,) = answer.lines[-1]["directions"]
    # The tenth block leaves when the nine before it are due, at 1 MB/s.
    assert direction["seconds"] >= 0.09


@pytest.mark.parametrize(
    ("options", "least_s"), [(("--read-rate", "8Mbit/s"), 0.08), (("--read-pause", "0,150ms"), 0.15)]
)
def test_a_slow_reader_holds_a_transfer_back(
    weir: Weir, serve: Serve, options: tuple[str, str], least_s: float
) -> None:
    answer = weir(
        *("tcp", "send", "127.0.0.1", "--port", serve().port, "--json", "--reverse", *options),
        *("--bytes", "100kB", "--block", "10kB"),
    )
    (direction,) = answer.lines[-1]["directions"]
    assert direction["received_bytes"] == 100_000
    assert direction["seconds"] >= least_s


def test_ctrl_c_ends_what_has_no_end_and_breaks_nothing_off(serve: Serve) -> None:
    with Stop() as stop:
        settings = TransferSettings("127.0.0.1", serve().port, interval_s=0.001)
        outcome = ends.send(settings, AtFirst(stop.request), stop)
    (direction,) = outcome.directions
    assert direction.received_bytes == direction.sent_bytes > 0
    assert outcome.problem() is None
    assert not outcome.interrupted


def test_ctrl_c_before_the_end_keeps_the_numbers_and_says_so(serve: Serve) -> None:
    with Stop() as stop:
        settings = TransferSettings("127.0.0.1", serve().port, interval_s=0.001, lasts_s=1000, up=0, down=2)
        outcome = ends.send(settings, AtFirst(stop.request), stop)
    assert outcome.interrupted
    (direction,) = outcome.directions
    assert direction.received_bytes == direction.sent_bytes > 0


def test_a_server_that_stops_says_so_to_its_clients(serve: Serve) -> None:
    served = serve()
    settings = TransferSettings("127.0.0.1", served.port, interval_s=0.001)
    with Stop() as stop, pytest.raises(TrialError, match="the server was stopped"):
        ends.send(settings, AtFirst(served.server.stop), stop)
    assert "stopped" in served.wait_for("ended")["failure"]


def test_limits_are_kept(weir: Weir, serve: Serve) -> None:
    served = serve(most_ns=1_000_000_000, most_bytes=1_000_000, most_clients=1)
    to = ("tcp", "send", "127.0.0.1", "--port", served.port)
    for wanted, told in [
        (("--duration", "2s"), "may last 1 s"),
        (("--forever",), "without end"),
        (("--bytes", "600kB", "--bidir"), "1000000 bytes"),
    ]:
        answer = weir(*to, *wanted)
        assert (answer.code, told in answer.err) == (5, True), answer.err
    assert weir(*to, "--bytes", "600kB").code == 0
    answer = weir(*to, "--duration", "1s", "--block", "1MB")
    assert (answer.code, "more bytes than are allowed" in answer.err) == (5, True), answer.err


def test_more_clients_than_allowed_are_refused(serve: Serve) -> None:
    served = serve(most_clients=1)
    refused: list[str] = []

    def second() -> None:
        with Stop() as stop, pytest.raises(TrialError) as caught:
            ends.send(TransferSettings("127.0.0.1", served.port, total_bytes=1000), Nobody(), stop)
        refused.append(str(caught.value))

    with Stop() as stop:

        def both() -> None:
            second()
            stop.request()

        ends.send(TransferSettings("127.0.0.1", served.port, interval_s=0.001), AtFirst(both), stop)
    assert "busy" in refused[0]
