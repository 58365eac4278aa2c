"""Frames made by hand, and what tshark says about a capture."""

from __future__ import annotations

import csv
import io
import ipaddress
import re
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from weirlab.lab.capture import write_frames
from weirlab.traffic.calls.signalling import ORIGIN_UNIX_S

needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None,
    reason="needs tshark (Debian package tshark; make test installs it as root",
)

CALLER, CALLEE = "198.18.0.5", "198.19.0.5"


def udp_frame(payload: bytes, port: int, forward: bool = True, ip: int = 4) -> bytes:
    """An Ethernet frame without FCS and with right checksums, between the same port on both sides."""
    hosts = (CALLER, CALLEE) if ip == 4 else ("2001:2:0:1::5", "2001:2:0:2::5")
    source, destination = (ipaddress.ip_address(host).packed for host in (hosts if forward else hosts[::-1]))
    length = 8 + len(payload)
    pseudo = source + destination + struct.pack(">HH", 17, length)
    check = _checksum(pseudo + struct.pack(">HHHH", port, port, length, 0) + payload) or 0xFFFF
    datagram = struct.pack(">HHHH", port, port, length, check) + payload
    if ip == 6:
        header = struct.pack(">IHBB", 6 << 28, length, 17, 64) + source + destination
        return bytes(12) + b"\x86\xdd" + header + datagram
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, 64, 17, 0) + source + destination
    header = header[:10] + struct.pack(">H", _checksum(header)) + header[12:]
    return bytes(12) + b"\x08\x00" + header + datagram


def with_probe(payload: bytes) -> bytes:
    """``payload`` with a probe where it leaves room for one (``crates/wire/src/probe.rs``)."""
    assert not any(payload[-18:])
    return payload[:-18] + struct.pack(">HIIQ", 0x5765, 5, 77, 1_234_567_890)


def write(path: Path, frames: Sequence[tuple[float, bytes]]) -> Path:
    """A capture of ``frames``: ms and bytes."""
    ordered = sorted(frames, key=lambda frame: frame[0])
    write_frames(
        path,
        np.array([round(at_ms * 1e6) for at_ms, _ in ordered], dtype=np.uint64),
        np.array([len(frame) for _, frame in ordered], dtype=np.uint32),
        np.frombuffer(b"".join(frame for _, frame in ordered), dtype=np.uint8),
    )
    return path


def read(path: Path) -> list[tuple[int, bytes]]:
    """Every frame of a capture with its time in ns since the origin."""
    content = path.read_bytes()
    assert struct.unpack_from("<IHHiIII", content) == (0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
    found, at = [], 24
    while at < len(content):
        seconds, ns, captured, length = struct.unpack_from("<IIII", content, at)
        assert captured == length
        assert ns < 1_000_000_000
        found.append(((seconds - ORIGIN_UNIX_S) * 1_000_000_000 + ns, content[at + 16 : at + 16 + length]))
        at += 16 + length
    return found


def tshark(path: Path, *options: str) -> str:
    """What tshark prints about the capture, with checksums verified."""
    checks = [o for name in ("ip", "udp") for o in ("-o", f"{name}.check_checksum:TRUE")]
    done = subprocess.run(
        ["tshark", "-n", "-r", str(path), *checks, *options], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fields(path: Path, *names: str, where: str = "", options: Sequence[str] = ()) -> list[dict[str, str]]:
    """The named fields of each packet that matches the display filter ``where``."""
    wanted = [o for name in names for o in ("-e", name)]
    chosen = ["-Y", where] if where else []
    text = tshark(
        path, *options, *chosen, "-T", "fields", "-E", "header=y", "-E", "separator=,", "-E", "quote=d",
        *wanted,
    )  # fmt: skip
    return list(csv.DictReader(io.StringIO(text)))


def complaints(path: Path, *options: str) -> str:
    """Packets in which tshark sees a warning, an error or something malformed; chats and notes are none."""
    return tshark(
        path, *options, "-Y", f"_ws.malformed || _ws.expert.severity >= {_WARNING:#x}", "-T", "fields",
        "-e", "frame.number", "-e", "_ws.col.Protocol", "-e", "_ws.expert.message",
    )  # fmt: skip


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    padded = data + bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@dataclass(frozen=True)
class Stream:
    """A line of tshark's RTP statistics."""

    ssrc: int
    packets: int
    lost: int
    mean_delta_ms: float
    mean_jitter_ms: float
    max_jitter_ms: float
    problem: bool


_WARNING = 0x600000
"""Of tshark's severities."""

_STREAM = re.compile(
    r"(?P<ssrc>0x[0-9A-F]{8})\s+\S.*?\s+(?P<packets>\d+)\s+(?P<lost>-?\d+)\s+\(-?[\d.]+%\)"
    r"\s+[\d.]+\s+(?P<delta>[\d.]+)\s+[\d.]+\s+[\d.]+\s+(?P<mean>[\d.]+)\s+(?P<most>[\d.]+)(?P<problem>.*)"
)


def streams(path: Path, *options: str) -> list[Stream]:
    """tshark's own statistics of RTP, a row per stream."""
    return _streams(tshark(path, *options, "-q", "-z", "rtp,streams"))


@dataclass(frozen=True)
class Decoded:
    """What tshark makes of a capture, found in one go: to start it takes longer than to read the capture."""

    complaints: tuple[str, ...]
    """Packets in which it sees a warning, an error or something malformed; chats and notes are none."""
    protocols: Counter[str]
    streams: list[Stream]


def decoded(path: Path) -> Decoded:
    """Protocols, complaints and statistics of RTP."""
    names = ("_ws.col.Protocol", "frame.number", "_ws.expert.severity", "_ws.malformed", "_ws.expert.message")
    asked = [option for name in names for option in ("-e", name)]
    told = tshark(path, "-T", "fields", "-E", "separator=/t", *asked, "-z", "rtp,streams")
    packets = [line.split("\t") for line in told.splitlines() if line.count("\t") == len(names) - 1]
    complaints = tuple(
        "\t".join(packet)
        for packet in packets
        if packet[3] or any(int(level) >= _WARNING for level in packet[2].split(",") if level)
    )
    return Decoded(complaints, Counter(packet[0] for packet in packets), _streams(told))


def _streams(told: str) -> list[Stream]:
    return [
        Stream(
            ssrc=int(found["ssrc"], 16),
            packets=int(found["packets"]),
            lost=int(found["lost"]),
            mean_delta_ms=float(found["delta"]),
            mean_jitter_ms=float(found["mean"]),
            max_jitter_ms=float(found["most"]),
            problem="X" in found["problem"],
        )
        for line in told.splitlines()
        if (found := _STREAM.search(line))
    ]
