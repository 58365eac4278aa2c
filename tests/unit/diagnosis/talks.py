"""Scripted conversations, and what the diagnosis says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab import trace
from weirlab.diagnosis import tracing
from weirlab.diagnosis.finding import Diagnosis
from weirlab.testing.tcp import TcpConversation, TcpSide, write_pcap
from weirlab.trace.facts import SideName

CLIENT = TcpSide("192.0.2.7", 41_000, isn=5_000_000)


SERVER = TcpSide("198.51.100.9", 8443, isn=80_000_000)


MSS = 1448


def opened(
    rtt_ms: float, *, place: float = 0.0, mss: int = 1460, window_bytes: int = 4_000_000
) -> TcpConversation:
    ends = (TcpSide(s.address, s.port, s.isn, mss, 7, window_bytes=window_bytes) for s in (CLIENT, SERVER))
    talk = TcpConversation(*ends)
    talk.handshake(rtt_ms=rtt_ms, place=place)
    return talk


def diagnosed(talk: TcpConversation, folder: Path, sender: SideName) -> Diagnosis:
    write_pcap(folder / "made.pcap", talk.packets())
    with trace.read([folder / "made.pcap"], series=True) as read:
        found = tracing.read(read, read.facts["connections"][0], sender)
    assert found is not None
    assert sum(each.share for each in found.findings) == pytest.approx(1, abs=0.01)
    return found
