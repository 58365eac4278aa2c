"""Connections between two network namespaces, sampled by BPF at their events, and by INET_DIAG."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from weirlab.lab.linux.namespace import Namespace
from weirlab.transfers.tcp import watching
from weirlab.transfers.tcp.connections import ALL, chosen, only_by_inet_diag
from weirlab.transfers.tcp.watching import AUTO, BPF, INET_DIAG

from .tcp_watching import (
    COUNTERS,
    EVERY_NS,
    HOUR_NS,
    Row,
    Seen,
    Watch,
    _connect,
    _listen,
    _settings,
    _transfer,
    _watch,
)

pytestmark = pytest.mark.netns

V4, V6 = "198.18.0.2", "2001:2::2"
BYTES = 5_000_000
MORE = 1_000_000
UNREAD = 1000
FIN_WAIT2 = 5
GROWING = ("last_data_sent_ms", "last_data_recv_ms", "last_ack_recv_ms")
"""The only numbers of a connection that stands still and has no timer that change."""
RST_ON_CLOSE = struct.pack("ii", 1, 0)
UNPRIVILEGED = (
    *("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"),
    *(sys.executable, "-m", "weirlab", "tcp", "watch"),
)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are taken over often: these tests wait for them again and again."""
    monkeypatch.setattr(watching, "TAKE_S", 0.01)


@contextmanager
def _lossy(server: Namespace) -> Iterator[None]:
    rules = (
        "add table netdev t\n"
        'add chain netdev t c { type filter hook ingress device "b0" priority 0; }\n'
        "add rule netdev t c meta length > 1000 numgen inc mod 50 49 drop\n"
    )
    nft = ["ip", "netns", "exec", server.name, "nft"]
    subprocess.run([*nft, "--file", "-"], input=rules, text=True, check=True)
    yield
    subprocess.run([*nft, "delete", "table", "netdev", "t"], check=True)


def _once(end: Namespace, port: int, by: str) -> Row:
    """The only connection, as this way samples it now."""
    seen = Seen()
    outcome = _watch(end, _settings(port, by, chosen(ALL), duration_s=0.001), seen)
    assert outcome.by == by
    assert list(seen.rows) == [0]
    return seen.rows[0][-1]


def _at_an_event(end: Namespace, own: socket.socket, port: int) -> Row:
    """The only connection, as BPF samples it at an event that changes nothing: a byte is looked at."""
    watch = Watch(end, port, wait=False, names=chosen(ALL), period_ns=HOUR_NS)
    # Asked for once; then the first event is sampled, and no other one within an hour.
    assert watch.seen.has(lambda rows: bool(rows))
    own.recv(1, socket.MSG_PEEK)
    watch.seen.sampled(1)
    assert watch.stop().by == BPF
    return watch.seen.rows[0][-1]


@pytest.mark.parametrize("address", [V4, V6])
@pytest.mark.parametrize("ecn", [0, 1])
def test_both_ways_tell_the_same_of_a_connection_that_stands_still(
    hosts: tuple[Namespace, Namespace],
    address: str,
    ecn: int,
    eventually: Callable[[Callable[[], bool]], None],
) -> None:
    client, server = hosts
    for each in hosts:
        each.call(lambda: _write_sysctl("tcp_ecn", ecn))
    with _listen(server, address) as listener:
        port = listener.getsockname()[1]
        here, there = _connect(client, listener)
        with here, there:
            with _lossy(server):
                _transfer(here, there, BYTES)
            # So that both ends have sent and received, and some of it is not read.
            for own in (here, there):
                own.sendall(bytes(UNREAD))
            for end, own in ((client, here), (server, there)):
                _agree(end, own, port, eventually)
            sender, receiver = _at_an_event(client, here, port), _at_an_event(server, there, port)
    # The kernel counts the SYN.
    assert sender["bytes_acked"] == BYTES + UNREAD + 1
    assert receiver["bytes_received"] == BYTES + UNREAD
    assert sender["total_retrans"] > 0
    assert sender["rqueue_bytes"] == sender["bytes_received"] == receiver["rqueue_bytes"] == UNREAD
    assert bool(sender["options"] & 8) == bool(ecn)


def _agree(
    end: Namespace, own: socket.socket, port: int, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    """By BPF the connection is what it is by ``INET_DIAG`` before and after."""
    found: list[tuple[Row, Row, Row]] = []

    def is_still() -> bool:
        before = _once(end, port, INET_DIAG)
        between = _at_an_event(end, own, port)
        after = _once(end, port, INET_DIAG)
        found.append((before, between, after))
        return {name for name in before if before[name] != after.get(name)} <= set(GROWING)

    eventually(is_still)
    before, between, after = found[-1]
    unknown = set(only_by_inet_diag(tuple(before)))
    assert set(between) == set(before) - unknown
    told = set(between) - set(GROWING)
    assert {name: between[name] for name in told} == {name: before[name] for name in told}
    for name in GROWING:
        assert before[name] <= between[name] <= after[name], name


def _write_sysctl(name: str, value: int) -> None:
    with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
        file.write(str(value))


@pytest.mark.parametrize("address", [V4, V6])
def test_a_connection_is_sampled_from_before_its_first_byte_until_it_ends(
    hosts: tuple[Namespace, Namespace], address: str
) -> None:
    client, server = hosts
    with _listen(server, address) as listener:
        watches = [Watch(end, listener.getsockname()[1], wait=True) for end in hosts]
        here, there = _connect(client, listener)
        with here, there:
            for watch in watches:
                assert watch.seen.has(lambda rows: "data_segs_in" in rows.get(0, [{}])[-1])
            _transfer(here, there, BYTES)
            # Whatever the process, its samples go on until the connection has ended.
            assert watches[0].seen.has(lambda rows: rows[0][-1]["bytes_acked"] == BYTES + 1)
            assert watches[1].seen.has(lambda rows: rows[0][-1]["bytes_received"] == BYTES)
        outcomes = [watch.end() for watch in watches]
    for watch, outcome in zip(watches, outcomes, strict=True):
        (made,) = outcome.progress["connections"]
        assert made["ended_ns"] > made["found_ns"]
        assert outcome.missed == 0
        assert outcome.progress["lateness"]["rounds"] > 0
        assert made["samples"] == len(watch.seen.rows[0]) == outcome.samples
        assert outcome.tallies[0].from_the_beginning
        for counter in COUNTERS:
            values = [row[counter] for row in watch.seen.rows[0]]
            assert values == sorted(values), counter
    sides = [outcome.progress["connections"][0] for outcome in outcomes]
    assert (sides[0]["local"], sides[0]["remote"]) == (sides[1]["remote"], sides[1]["local"])


def test_a_connection_at_which_nothing_happens_is_idle_and_misses_nothing(
    hosts: tuple[Namespace, Namespace],
) -> None:
    client, server = hosts
    with _listen(server, V4) as listener:
        port = listener.getsockname()[1]
        here, there = _connect(client, listener)
        with here, there:
            watch = Watch(client, port, wait=False)
            assert watch.seen.has(lambda rows: watch.seen.idle >= 200 and len(rows.get(0, ())) >= 2)
        outcome = watch.end()
    (made,) = outcome.progress["connections"]
    assert (outcome.missed, outcome.idle) == (0, made["idle"])
    # Each due time is one of these; the last row may not have been due.
    rounds = outcome.progress["lateness"]["rounds"]
    assert made["idle"] + rounds <= (made["ended_ns"] - made["found_ns"]) // EVERY_NS + 1
    assert [row["state"] for row in watch.seen.rows[0]][:1] == [1]


def test_whatever_happens_to_a_connection_is_sampled(hosts: tuple[Namespace, Namespace]) -> None:
    client, server = hosts
    with _listen(server, V4) as listener:
        here, there = _connect(client, listener)
        with here, there:
            watch = Watch(client, listener.getsockname()[1], wait=False)
            seen = watch.seen
            for happens in (
                lambda: there.send(b"comes"),
                lambda: here.recv(5),
                lambda: here.send(b"goes"),
                lambda: here.shutdown(socket.SHUT_WR),
            ):
                before = seen.quiet()
                happens()
                seen.sampled(before + 1)
            # Segments come on another way then, which tells of none. A sample is due for long.
            assert seen.has(lambda rows: rows[0][-1]["state"] == FIN_WAIT2)
            before = seen.rounds
            there.send(b"comes")
            here.recv(5)
            seen.sampled(before + 1)
            assert seen.has(lambda rows: rows[0][-1]["bytes_received"] == 10)
        outcome = watch.end()
    assert outcome.missed == 0
    last = watch.seen.rows[0][-1]
    assert (last["bytes_received"] - 10 in (0, 1), last["bytes_acked"]) == (True, 6), "SYN, 4 bytes, FIN"


def test_a_new_connection_between_the_same_ends_is_not_taken_for_the_old_one(
    hosts: tuple[Namespace, Namespace], eventually: Callable[[Callable[[], bool]], None]
) -> None:
    client, server = hosts
    with _listen(server, V4) as listener:
        first, there = _connect(client, listener)
        port, own = listener.getsockname()[1], first.getsockname()[1]
        with there:
            watch = Watch(client, port, wait=False)
            assert watch.seen.has(lambda rows: bool(rows))
            _transfer(first, there, BYTES)
            # By a reset, after which the same ends may be used at once; likely in the same memory.
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)
            first.close()
            second, again = _connect(client, listener, own)
        with second, again:
            assert second.getsockname()[1] == own
            _transfer(second, again, MORE)
            outcome = watch.end()
            # As another connection it is found.
            eventually(lambda: bool(_once(client, port, BPF)["bytes_acked"] == MORE + 1))
    assert len(outcome.progress["connections"]) == 1
    acked = [row["bytes_acked"] for row in watch.seen.rows[0]]
    assert acked == sorted(acked), "the counters of another connection begin at 0"


def test_many_connections_are_sampled_side_by_side(hosts: tuple[Namespace, Namespace]) -> None:
    client, server = hosts
    with _listen(server, V4) as listener:
        watch = Watch(client, listener.getsockname()[1], wait=True)
        made = [_connect(client, listener) for _ in range(50)]
        for number, (here, there) in enumerate(made):
            _transfer(here, there, number + 1)
        # Which has which number is up to the kernel's table; the kernel counts the SYN.
        acked = [number + 2 for number in range(len(made))]
        assert watch.seen.has(lambda rows: sorted(each[-1]["bytes_acked"] for each in rows.values()) == acked)
        for both in made:
            for each in both:
                each.close()
        outcome = watch.end()
    ended = [each["ended_ns"] for each in outcome.progress["connections"]]
    assert len(ended) == 50
    assert all(ended)


def test_without_privileges_connections_are_sampled_by_inet_diag_and_the_result_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            asked = [*UNPRIVILEGED, f":{port}", "--duration", "1ms"]
            done = subprocess.run(
                [*asked, "--by", "auto", "--json"], capture_output=True, text=True, check=True
            )
            refused = subprocess.run([*asked, "--by", "bpf"], capture_output=True, text=True, check=False)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["sampled_by"], result["samples"] > 0) == (INET_DIAG, True)
    assert "lets only root" in result["why_not_bpf"]
    assert "INET_DIAG, which takes the connections' locks, was used:" in result["conclusion"]
    assert refused.returncode != 0
    assert "with --by inet-diag connections are sampled" in refused.stderr


def test_with_privileges_bpf_is_chosen(hosts: tuple[Namespace, Namespace]) -> None:
    client, server = hosts
    with _listen(server, V4) as listener:
        here, there = _connect(client, listener)
        with here, there:
            seen = Seen()
            settings = _settings(listener.getsockname()[1], AUTO, chosen(ALL), duration_s=0.001)
            outcome = _watch(client, settings, seen)
    assert (outcome.by, outcome.why_not) == (BPF, "")
    assert set(outcome.absent) >= set(only_by_inet_diag(settings.names))
