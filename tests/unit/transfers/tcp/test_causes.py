"""Why watched connections are not faster."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from weirlab.base.documents import plain
from weirlab.base.errors import InputError
from weirlab.transfers.tcp import causes, connections
from weirlab.transfers.tcp.show.screen import LiveCauses
from weirlab.transfers.tcp.watching import ConnectionTally, Samples

from ...conftest import Weir
from .test_watching import connection

HERE, THERE = ("192.0.2.1", 40000), ("192.0.2.2", 443)
RTT_US, MSS, PERIOD_NS = 40_000, 1448, 10_000_000


def sender(window: np.ndarray, rows: int) -> dict[str, Any]:
    """A sender that fills a window of ``window`` bytes once in a round trip, and has more to send."""
    acked = np.cumsum(np.minimum(window, 64_000) * PERIOD_NS / (RTT_US * 1e3))
    return {
        "bytes_acked": acked, "bytes_sent": acked + window, "snd_wnd_bytes": window,
        "wqueue_bytes": window + 500_000, "notsent_bytes": 500_000, "unacked": window // MSS,
        "snd_mss_bytes": MSS, "snd_cwnd": 1000,
        "rtt_us": RTT_US, "min_rtt_us": RTT_US, "rttvar_us": 100, "delivered": acked // MSS, "options": 7,
        "snd_ssthresh": 2_147_483_647, "skmem_wmem_queued_bytes": 500_000, "skmem_sndbuf_bytes": 1_000_000,
    }  # fmt: skip


def samples(values: dict[str, Any], rows: int, start_ns: int = 0, number: int = 0) -> Samples:
    fields = {}
    for name in causes.fields():
        column = np.broadcast_to(np.asarray(values.get(name, 0)), rows).astype(np.uint64)
        fields[name] = (column, np.full(rows, name in values))
    times = start_ns + np.arange(1, rows + 1) * PERIOD_NS
    return Samples(np.full(rows, number, np.uint32), times.astype(np.int64), fields)


def progress(*ends: tuple[tuple[str, int], tuple[str, int]], ended: bool = False) -> dict[str, Any]:
    common = {"pid": 7, "process": "curl", "congestion": "cubic", "ended_ns": 1 if ended else None}
    return {"connections": [{"local": local, "remote": remote, **common} for local, remote in ends]}


ONE = progress((HERE, THERE))


def cause(log: causes.CauseLog, last_s: float | None = None) -> str:
    (found,) = log.causes(ONE, last_s)
    return found.findings[0].cause.key


def test_a_constant_small_window_is_a_small_buffer() -> None:
    log = causes.CauseLog()
    log.samples(samples(sender(np.full(400, 64_000), 400), 400), ONE, [])
    assert cause(log) == "receive_window"


def test_a_window_that_fell_is_a_slow_reader_even_when_it_fell_before_the_last_seconds() -> None:
    log = causes.CauseLog()
    log.samples(samples(sender(np.full(200, 64_000), 200), 200), ONE, [])
    log.samples(samples(sender(np.full(1500, 3000), 1500), 1500, 200 * PERIOD_NS), ONE, [])
    assert cause(log, causes.LIVE_S) == "application_read"


def test_a_window_that_only_grew_is_no_slow_reader() -> None:
    log = causes.CauseLog()
    window = np.linspace(64_000, 4_000_000, 400)
    log.samples(samples(sender(window, 400), 400), ONE, [])
    (found,) = log.causes(ONE)
    assert all(finding.cause.key != "application_read" for finding in found.findings)


def test_of_two_ends_of_one_connection_the_sender_is_diagnosed_with_what_the_other_has_not_read() -> None:
    log, both = causes.CauseLog(), progress((HERE, THERE), (THERE, HERE))
    window = np.full(400, 16_000)
    log.samples(samples(sender(window, 400), 400), both, [])
    received = {
        "bytes_received": sender(window, 400)["bytes_acked"],
        "rqueue_bytes": 50_000,
        "snd_wnd_bytes": 0,
    }
    log.samples(samples(received, 400, number=1), both, [])
    (found,) = log.causes(both)
    assert (found.number, found.sends, found.findings[0].cause.key) == (0, True, "application_read")


def test_an_end_that_only_receives_says_what_it_can() -> None:
    log = causes.CauseLog()
    received = np.arange(400) * 16_000
    values = {"bytes_received": received, "rcv_wnd_bytes": 64_000, "min_rtt_us": RTT_US, "rcv_mss_bytes": MSS}
    values |= {"rqueue_bytes": 0, "bytes_acked": 200, "data_segs_in": received // MSS, "rcv_ooopack": 0}
    log.samples(samples(values, 400), ONE, [])
    (found,) = log.causes(ONE)
    assert (found.sends, found.findings[0].cause.key) == (False, "receive_window")
    assert found.line.startswith("curl (7) from 192.0.2.2:443, 12.8 Mbit/s: ")


@pytest.mark.parametrize("remote", [("127.0.0.1", 443), (HERE[0], 443)])
def test_a_receiver_says_how_to_see_a_sender_that_is_on_this_host(remote: tuple[str, int]) -> None:
    log = causes.CauseLog()
    values = {"bytes_received": np.arange(400) * 16_000, "rcv_wnd_bytes": 64_000, "bytes_acked": 200}
    log.samples(samples(values, 400), progress((HERE, remote)), [])
    (found,) = log.causes(progress((HERE, remote)))
    assert found.sentence.endswith(f" weir tcp why {remote[0]}:443 sees both.")
    (elsewhere,) = log.causes(ONE)
    assert "weir tcp why" not in elsewhere.sentence


def test_a_closed_window_is_why_nothing_moves() -> None:
    log = causes.CauseLog()
    log.samples(samples({"bytes_acked": 5, "snd_wnd_bytes": 0, "rqueue_bytes": 0}, 60), ONE, [])
    (found,) = log.causes(ONE)
    assert found.sentence == "nothing moved for 590 ms: the other end does not read, its window is closed."


def test_lines_that_stay_say_a_cause_once_in_ten_seconds_and_another_one_at_once() -> None:
    log, news = causes.CauseLog(), causes.CauseNews()
    log.samples(samples(sender(np.full(400, 64_000), 400), 400), ONE, [])
    found = log.causes(ONE)
    said = [len(news.lines(found)) for _ in range(12)]
    assert [second for second, lines in enumerate(said) if lines] == [0, 10]
    silent = causes.CauseLog()
    silent.samples(samples({"bytes_acked": 5, "snd_wnd_bytes": 0}, 60), ONE, [])
    assert len(news.lines(silent.causes(ONE))) == 1


def test_an_end_that_never_read_is_the_receiver() -> None:
    log = causes.CauseLog()
    log.samples(samples({"bytes_acked": 500, "bytes_received": 9000, "rqueue_bytes": 8000}, 400), ONE, [])
    (found,) = log.causes(ONE)
    assert (found.sends, found.sentence) == (
        False, "nothing moved for 3.99 s: this end does not read, and 8.00 kB waits.",
    )  # fmt: skip


def test_silence_is_not_a_cause() -> None:
    log = causes.CauseLog()
    log.samples(samples({"bytes_acked": 500, "bytes_received": 500, "rqueue_bytes": 0}, 400), ONE, [])
    (found,) = log.causes(ONE)
    assert (found.findings, found.sentence) == ((), "neither end sent anything for 3.99 s.")


def test_of_a_single_sample_no_throughput_is_known() -> None:
    log = causes.CauseLog()
    log.samples(samples({"bytes_acked": 500, "bytes_received": 9000, "rqueue_bytes": 8000}, 1), ONE, [])
    (found,) = log.causes(ONE)
    assert found.line.startswith("curl (7) from 192.0.2.2:443, –: it was seen only once")
    assert plain(found.document())["throughput_bps"] is None


def test_a_connection_that_has_ended_is_no_longer_live() -> None:
    log = causes.CauseLog()
    log.samples(samples(sender(np.full(400, 64_000), 400), 400), ONE, [])
    assert log.causes(progress((HERE, THERE), ended=True), causes.LIVE_S) == []


def test_the_cause_is_refreshed_once_a_second_of_samples() -> None:
    log, said = causes.CauseLog(), list[Any]()
    live, tally = LiveCauses(log, said.append), ConnectionTally()
    for part in range(16):
        some = samples(sender(np.full(25, 64_000), 25), 25, part * 25 * PERIOD_NS)
        log.samples(some, ONE, [])
        tally.last_ns = int(some.time_ns[-1])
        live.samples(some, ONE, [tally])
    assert len(said) == 3


def test_a_name_and_a_port_are_an_end() -> None:
    assert connections.parse("localhost:443").ends[0].port == 443
    with pytest.raises(InputError, match=r"TARGET nosuch..invalid:443: nosuch..invalid has no address"):
        connections.parse("nosuch..invalid:443", "TARGET")


def test_connections_to_any_address_of_a_name_are_explained(
    weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("", 0)) as listener, ExitStack() as opened:
        port = listener.getsockname()[1]
        for address in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):
            opened.enter_context(socket.create_connection((address, port)))
            opened.enter_context(listener.accept()[0])
        answers = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("127.0.0.9", "127.0.0.2", "127.0.0.3")
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
        target = connections.parse(f"db.example.org:{port}")
        assert (target.ends[0].addr, target.also) == ("127.0.0.2", ("127.0.0.3", "127.0.0.9"))
        found = connections.select(connections.listed(), target)
        assert {one.remote[0] for one in found if one.remote[1] == port} == {"127.0.0.2", "127.0.0.3"}
        answer = weir("tcp", "why", f"db.example.org:{port}", "--duration", "200ms", "--json")
    told = json.loads(answer.out.splitlines()[-1])["causes"]
    ends = {tuple(end) for one in told for end in (one["local"], one["remote"]) if end[1] == port}
    assert ends == {("127.0.0.2", port), ("127.0.0.3", port)}


def test_why_needs_no_more_than_a_target(weir: Weir) -> None:
    with connection() as (client, _server):
        answer = weir("tcp", "why", f":{client.getsockname()[1]}", "--duration", "50ms", "--json")
    document = json.loads(answer.out.splitlines()[-1])
    assert (answer.code, document["kind"]) == (0, "tcp why")
    assert {one["direction"] for one in document["causes"]} == {"sent"}


def test_a_watch_leads_with_the_cause_and_ends_with_how_it_was_sampled(weir: Weir) -> None:
    with connection() as (client, _server):
        answer = weir("tcp", "watch", f":{client.getsockname()[1]}", "--duration", "300ms", "--every", "10ms")
    assert "neither end sent anything" in answer.out.splitlines()[0]
    assert answer.out.index("neither end") < answer.out.index("every 10.0 ms")
