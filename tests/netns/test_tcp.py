"""Bulk transfers and watches between two network namespaces, over IPv4 and IPv6, with and without loss."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from weirlab._engine import TcpServer
from weirlab.errors import LabError
from weirlab.lab.linux.namespace import Namespace
from weirlab.link.stopping import Stop
from weirlab.studies.tcp import connections, sending
from weirlab.studies.tcp.results import Interval

pytestmark = pytest.mark.netns

V4, V6 = "198.18.0.2", "2001:2::2"
BYTES = 20_000_000


class Seen:
    """Looks at the connections of both namespaces while a transfer goes on."""

    def __init__(self, client: Namespace, server: Namespace) -> None:
        self._ends = client, server
        self.same_clock: bool | None = None
        self.connections: list[list[connections.Connection]] = []

    def started(self, event: Mapping[str, Any]) -> None:
        self.same_clock = event["same_clock"]
        self.connections = [end.call(connections.listed) for end in self._ends]

    def interval(self, interval: Interval) -> None: ...

    def blocks(self, event: Mapping[str, Any]) -> None: ...


def _serve(server: Namespace, address: str) -> TcpServer:
    return server.call(
        lambda: TcpServer(
            address=address, port=0, token="x", most_ns=None, most_bytes=None, most_clients=1, options=[]
        )
    )


def _send(client: Namespace, settings: sending.Settings, seen: Seen) -> sending.Outcome:
    def work() -> sending.Outcome:
        with Stop() as stop:
            return sending.send(settings, seen, stop)

    return client.call(work)


@pytest.mark.parametrize("address", [V4, V6])
def test_every_byte_crosses_and_each_namespace_knows_its_own_ends(
    hosts: tuple[Namespace, Namespace], address: str
) -> None:
    client, server = hosts
    service, seen = _serve(server, address), Seen(client, server)
    settings = sending.Settings(address, service.address[1], "x", up=2, down=1, total_bytes=BYTES)
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
    settings = sending.Settings(V4, service.address[1], "x", total_bytes=BYTES, congestion="cubic")
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
    settings = sending.Settings("127.0.0.1", service.address[1], total_bytes=1000)
    with pytest.raises(LabError, match="cannot connect"):
        _send(client, settings, Seen(client, server))
    service.stop()
