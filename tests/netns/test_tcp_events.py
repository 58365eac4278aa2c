"""Connections between two network namespaces, watched event by event from both ends."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from weirlab.lab.linux.namespace import Namespace
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import connections, watching
from weirlab.transfers.tcp.connections import EVENT_USUAL
from weirlab.transfers.tcp.watching import (
    ConnectionTally,
    RetransmissionLog,
    Samples,
    WatchOutcome,
    WatchSettings,
)

pytestmark = pytest.mark.netns

V4, V6 = "198.18.0.2", "2001:2::2"
DEADLINE_S = 60.0
BYTES = 200_000
LOST = 3
"""Number of the data segment that is lost, from 0."""
ESTABLISHED, SYN_SENT, SYN_RECV, CLOSE = 1, 2, 3, 7


@dataclass
class Told:
    """The events of one end."""

    waits: threading.Event = field(default_factory=threading.Event)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def waiting(self) -> None:
        self.waits.set()

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        for row, event in enumerate(samples.events()):
            values = {
                name: int(numbers[row]) for name, (numbers, there) in samples.fields.items() if there[row]
            }
            self.rows.append({"event": event, **values})

    def of(self, event: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["event"] == event]


class Watch:
    """A watch in a namespace, which ends with the connection."""

    def __init__(self, end: Namespace, port: int) -> None:
        self.told, self.again = Told(), RetransmissionLog()
        self._outcomes: list[WatchOutcome] = []
        settings = WatchSettings(connections.parse(f":{port}"), None, EVENT_USUAL, wait=True)

        def work() -> None:
            with Stop() as stop:
                self._outcomes.append(watching.watch(settings, [self.told, self.again], stop))

        self._thread = threading.Thread(target=lambda: end.call(work))
        self._thread.start()
        assert self.told.waits.wait(DEADLINE_S)

    def end(self) -> WatchOutcome:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "it ends with the connection"
        return self._outcomes[0]


@pytest.fixture
def lossy(hosts: tuple[Namespace, Namespace]) -> tuple[Namespace, Namespace]:
    """One data segment of the client is lost on its way; every packet carries one segment."""
    client, server = hosts
    command = ["ip", "-n", client.name, "link", "set", "a0", "gso_max_segs", "1"]
    subprocess.run(command, check=True)
    rules = (
        "add table netdev t\n"
        'add chain netdev t c { type filter hook ingress device "b0" priority 0; }\n'
        f"add rule netdev t c meta length > 1000 numgen inc mod 1000000 {LOST} drop\n"
    )
    nft = ["ip", "netns", "exec", server.name, "nft", "--file", "-"]
    subprocess.run(nft, input=rules, text=True, check=True)
    return client, server


def _transfer(client: Namespace, address: str, listener: socket.socket) -> None:
    """The client sends, and both ends close."""
    sender = client.call(lambda: socket.create_connection((address, listener.getsockname()[1])))
    receiver, _ = listener.accept()
    with sender, receiver:
        thread = threading.Thread(target=lambda: (sender.sendall(bytes(BYTES)), sender.close()))
        thread.start()
        left = BYTES
        while part := receiver.recv(1 << 16):
            left -= len(part)
        thread.join()
    assert left == 0


@pytest.mark.parametrize("address", [V4, V6])
def test_a_lost_segment_is_seen_when_it_is_sent_again(
    lossy: tuple[Namespace, Namespace], address: str
) -> None:
    client, server = lossy
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with server.call(lambda: socket.create_server((address, 0), family=family)) as listener:
        port = listener.getsockname()[1]
        ends = [Watch(end, port) for end in (client, server)]
        _transfer(client, address, listener)
        outcomes = [each.end() for each in ends]
    here, there = (each.told for each in ends)

    for outcome in outcomes:
        assert outcome.missed == 0
        assert len(outcome.progress["connections"]) == 1
        assert outcome.progress["connections"][0]["ended_ns"] is not None
    made = outcomes[0].progress["connections"][0]
    assert (made["remote"], bool(made["congestion"])) == ((address, port), True)
    assert made["local"] == outcomes[1].progress["connections"][0]["remote"]

    # The receiver's first data segment, before anything was received, gives the sequence numbers.
    data = [row for row in there.of("received") if row["end_seq"] != row["seq"]]
    first, mss = data[0]["seq"], here.of("received")[0]["snd_mss_bytes"]
    assert data[0]["bytes_received"] == 0
    lost = (first + LOST * mss) % (1 << 32)
    again = here.of("retransmitted")
    assert again[0]["seq"] == lost
    assert (again[0]["end_seq"] - lost) % (1 << 32) == mss
    assert again[0]["snd_cwnd"] > 0
    assert len(again) == again[-1]["total_retrans"] == ends[0].again.count
    assert ends[0].again.kept[0].seq == lost
    # At the receiver it is missing until it comes again.
    assert _first_gap(data) == lost
    seqs = [row["seq"] for row in data]
    assert seqs.index(lost) > seqs.index((lost + mss) % (1 << 32)), "it comes behind its successor"

    changes = [(row["old_state"], row["state"]) for row in here.of("state")]
    assert changes[0] == (CLOSE, SYN_SENT)
    assert (SYN_SENT, ESTABLISHED) in changes
    assert changes[-1][1] == CLOSE
    assert (there.of("state")[0]["old_state"], there.of("state")[0]["state"]) == (SYN_RECV, ESTABLISHED)
    acks = here.of("received")
    assert all(row["snd_cwnd"] > 0 for row in acks)
    assert np.diff([row["bytes_acked"] for row in acks]).min() >= 0
    assert acks[-1]["rtt_us"] > 0


def _first_gap(data: Sequence[Mapping[str, Any]]) -> int:
    """Where the stream of segments is interrupted for the first time."""
    expected = data[0]["seq"]
    for row in data:
        if row["seq"] != expected:
            break
        expected = row["end_seq"]
    return int(expected)


def test_without_privileges_a_message_says_what_is_needed() -> None:
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"]
    weir = [sys.executable, "-m", "weirlab", "tcp", "watch", ":1", "--events", "--wait"]
    done = subprocess.run([*command, *weir], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "lets only root (CAP_BPF and CAP_PERFMON) watch by BPF" in done.stderr
    assert "without --events connections are sampled" in done.stderr
