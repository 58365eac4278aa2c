"""IPsec in captures: flows by their SPI, beside what tshark reads of the same packets."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from weirlab import _engine

from ...calls.quality.captures import ethernet, pcap, udp_over_ip

ENDS = ("192.0.2.1", "198.51.100.2")
IKE, KEEP_ALIVE = bytes(4) + bytes(28), b"\xff"


def esp(spi: int, sequence: int) -> bytes:
    return struct.pack(">II", spi, sequence) + bytes([0x5A]) * 80


def in_udp(payload: bytes) -> bytes:
    return ethernet(udp_over_ip(*ENDS, 4500, 4500, payload))


def plain(payload: bytes) -> bytes:
    """In IP, protocol 50."""
    ip = bytearray(udp_over_ip(*ENDS, 0, 0, payload[8:]))
    ip[9], ip[20:28] = 50, payload[:8]
    return ethernet(bytes(ip))


def captured(path: Path) -> Path:
    """Two associations: in UDP one number lost, one late and one copied; in IP the numbers begin anew."""
    udp = [in_udp(esp(0x1000, number)) for number in (1, 2, 5, 4, 4, 6)]
    ip = [plain(esp(0xC0FFEE00, number)) for number in (70_000, 70_001, 1, 2)]
    return pcap(
        path, [(i * 1000, frame) for i, frame in enumerate([*udp, in_udp(IKE), in_udp(KEEP_ALIVE), *ip])]
    )


def test_flows_are_told_by_their_spi_and_losses_by_sequence_numbers(tmp_path: Path) -> None:
    udp, ip = _engine.analyse([str(captured(tmp_path / "esp.pcap"))])["esp"]
    assert (udp["spi"], udp["ports"], ip["spi"], ip["ports"]) == (0x1000, (4500, 4500), 0xC0FFEE00, None)
    assert {(flow["src"], flow["dst"]) for flow in (udp, ip)} == {ENDS}
    assert [flow["packets"] for flow in (udp, ip)] == [6, 4]
    assert [flow["bytes"] for flow in (udp, ip)] == [6 * 88, 4 * 88]
    counts = [(flow["lost"], flow["reordered"], flow["copies"], flow["restarts"]) for flow in (udp, ip)]
    assert counts == [(1, 1, 1, 0), (0, 0, 0, 1)]
    assert udp["last_ns"] - udp["first_ns"] == 5_000_000


@pytest.mark.skipif(shutil.which("tshark") is None, reason="not here: tshark")
def test_tshark_counts_the_same_packets_of_each_spi(tmp_path: Path) -> None:
    path = captured(tmp_path / "esp.pcap")
    command = ["tshark", "-r", str(path), "-Y", "esp", "-T", "fields", "-e", "esp.spi"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs = Counter(int(line, 16) for line in done.stdout.split())
    assert theirs == {flow["spi"]: flow["packets"] for flow in _engine.analyse([str(path)])["esp"]}
