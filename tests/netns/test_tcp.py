"""Bulk transfers and watches between two network namespaces, over IPv4 and IPv6, with and without loss."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from weirlab import trace
from weirlab._engine import TcpServer
from weirlab.base.errors import LabError, TrialError
from weirlab.lab.linux.namespace import Namespace
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import connections, ends
from weirlab.transfers.tcp.results import Interval
from weirlab.transfers.tcp.settings import CaptureFetch, TransferSettings

pytestmark = pytest.mark.netns

V4, V6 = "198.18.0.2", "2001:2::2"
BYTES = 20_000_000


class Seen:
    """Looks at the connections of both namespaces while a transfer goes on."""

    def __init__(self, client: Namespace, server: Namespace) -> None:
        self._ends = client, server
        self.same_clock: bool | None = None
        self.connections: list[list[connections.TcpSocket]] = []

    def started(self, event: Mapping[str, Any]) -> None:
        self.same_clock = event["same_clock"]
        self.connections = [end.call(connections.listed) for end in self._ends]

    def interval(self, interval: Interval) -> None: ...

    def blocks(self, event: Mapping[str, Any]) -> None: ...


def _serve(server: Namespace, address: str, **more: Any) -> TcpServer:
    return server.call(
        lambda: TcpServer(
            address=address,
            port=0,
            token="a token of tests",
            most_ns=None,
            most_bytes=None,
            most_clients=1,
            options=[],
            **more,
        )
    )


def _send(client: Namespace, settings: TransferSettings, seen: Seen) -> ends.TransferOutcome:
    def work() -> ends.TransferOutcome:
        with Stop() as stop:
            return ends.send(settings, seen, stop)

    return client.call(work)


@pytest.mark.parametrize("address", [V4, V6])
def test_every_byte_crosses_and_each_namespace_knows_its_own_ends(
    hosts: tuple[Namespace, Namespace], address: str
) -> None:
    client, server = hosts
    service, seen = _serve(server, address), Seen(client, server)
    # It goes on for 2 s, and so while its connections are listed.
    settings = TransferSettings(
        address, service.address[1], "a token of tests", up=2, down=1, total_bytes=BYTES, rate_bps=4 * BYTES
    )
    outcome = _send(client, settings, seen)
    service.stop()
    assert [each.received_bytes for each in outcome.directions] == [BYTES, BYTES]
    assert [each.sent_bytes for each in outcome.directions] == [BYTES, BYTES]
    assert seen.same_clock, "both namespaces are on this host"
    assert all(each.latency and each.latency.min_ns > 0 for each in outcome.directions)
    here, there = (
        [c for c in found if service.address[1] in (c.local[1], c.remote[1])] for found in seen.connections
    )
    made = {(c.local, c.remote) for c in here}
    assert {tuple(map(tuple, (c["local"], c["remote"]))) for c in outcome.started["connections"]} <= made
    assert {c.remote[0] for c in here} == {address}
    assert address not in {c.remote[0] for c in there}


def test_loss_is_seen_as_retransmissions_of_the_sender(hosts: tuple[Namespace, Namespace]) -> None:
    client, server = hosts
    rules = (
        "add table netdev t\n"
        'add chain netdev t c { type filter hook ingress device "b0" priority 0; }\n'
        "add rule netdev t c tcp flags & (syn|fin|rst) == 0 meta length > 1000 numgen inc mod 50 49 drop\n"
    )
    nft = ["ip", "netns", "exec", server.name, "nft", "--file", "-"]
    subprocess.run(nft, input=rules, text=True, check=True)
    service, seen = _serve(server, V4), Seen(client, server)
    settings = TransferSettings(
        V4, service.address[1], "a token of tests", total_bytes=BYTES, congestion="cubic"
    )
    (direction,) = _send(client, settings, seen).directions
    service.stop()
    assert direction.received_bytes == direction.sent_bytes == BYTES
    assert direction.retransmissions
    assert direction.retransmitted_bytes


def test_a_server_of_another_namespace_is_not_ours(hosts: tuple[Namespace, Namespace]) -> None:
    client, server = hosts
    for end in hosts:
        end.call(lambda: subprocess.run(["ip", "link", "set", "lo", "up"], check=True))
    service = _serve(server, "127.0.0.1")
    settings = TransferSettings("127.0.0.1", service.address[1], total_bytes=1000)
    with pytest.raises(LabError, match="cannot connect"):
        _send(client, settings, Seen(client, server))
    service.stop()


@pytest.mark.parametrize("address", [V4, V6])
def test_the_server_hands_over_what_it_recorded_of_the_test_and_keeps_nothing(
    hosts: tuple[Namespace, Namespace], tmp_path: Path, address: str
) -> None:
    client, server = hosts
    folder = tmp_path / "there"
    folder.mkdir()
    service = _serve(server, address, capture=ends.Captures().allowed(str(folder)))
    fetch = CaptureFetch(tmp_path / "here.pcapng", must=True, most_bytes=1 << 30)
    settings = TransferSettings(
        address, service.address[1], "a token of tests", up=1, down=1, total_bytes=BYTES, fetch=fetch
    )
    outcome = _send(client, settings, Seen(client, server))
    service.stop()
    assert list(folder.iterdir()) == []
    assert outcome.recorded is not None
    assert (outcome.recorded["why_not"], outcome.recorded["interface"]) == (None, "b0")
    assert (outcome.recorded["left_out"], outcome.recorded["ended_early"]) == (0, False)
    with trace.read(fetch.file) as found:
        # The control connection is not among them.
        places = {(each["a"]["addr"], each["a"]["port"]) for each in found.facts["connections"]}
        assert places == {tuple(each["local"]) for each in outcome.started["connections"]}
        assert found.capture["packets"] == outcome.recorded["packets"]
        if not outcome.recorded["lost"]:
            sent = sum(each[side]["unique_bytes"] for each in found.facts["connections"] for side in "ab")
            # Each connection begins with 32 bytes that name the session.
            assert sent == 2 * BYTES + 2 * 32


def test_a_capture_at_the_server_has_as_many_bytes_as_it_may(
    hosts: tuple[Namespace, Namespace], tmp_path: Path
) -> None:
    client, server = hosts
    captures = ends.Captures(most_bytes=20_000, interface="b0")
    service = _serve(server, V4, capture=captures.allowed(str(tmp_path)))
    fetch = CaptureFetch(tmp_path / "here.pcapng", must=True, most_bytes=1 << 30)
    settings = TransferSettings(V4, service.address[1], "a token of tests", total_bytes=BYTES, fetch=fetch)
    outcome = _send(client, settings, Seen(client, server))
    service.stop()
    assert outcome.recorded is not None
    assert outcome.recorded["left_out"] > 0
    assert 10_000 < fetch.file.stat().st_size <= 20_000
    with trace.read(fetch.file) as found:
        assert found.capture["packets"] == outcome.recorded["packets"]
        assert not found.capture["cut_short"]


def test_a_server_on_an_interface_that_is_not_there_refuses(
    hosts: tuple[Namespace, Namespace], tmp_path: Path
) -> None:
    _, server = hosts
    captures = ends.Captures(interface="nowhere")
    with pytest.raises(LabError, match="nowhere"):
        _serve(server, V4, capture=captures.allowed(str(tmp_path)))


def test_who_insists_on_a_capture_is_refused_where_none_is_allowed(
    hosts: tuple[Namespace, Namespace], tmp_path: Path
) -> None:
    client, server = hosts
    service = _serve(server, V4)
    fetch = CaptureFetch(tmp_path / "here.pcapng", must=True, most_bytes=1 << 30)
    settings = TransferSettings(V4, service.address[1], "a token of tests", total_bytes=1000, fetch=fetch)
    with pytest.raises(TrialError, match="--allow-capture"):
        _send(client, settings, Seen(client, server))
    service.stop()
